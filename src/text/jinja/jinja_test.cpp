#include <gtest/gtest.h>

#include <string>

#include "base/errors/text.h"
#include "text/jinja/json_values.h"
#include "text/jinja/template.h"
#include "text/test_support.h"

namespace quern::text::jinja {
namespace {

std::string render(const std::string& source, const std::string& context = "{}") {
  const Template made(source);
  std::tm now = {};
  now.tm_year = 100;
  now.tm_mday = 1;
  Rendering rendering(made, now);
  const Value values = parse_json(rendering.runtime(), context).value();
  for (const Entry& entry : values.dict->entries) {
    rendering.define(entry.key.text(), entry.value);
  }
  return rendering.run().bytes();
}

TEST(Jinja, TagsTakeTheirNewlineAndIndentAlong) {
  EXPECT_EQ(render("a\n  {% if true %}\n  b\n  {% endif %}\nc\n"), "a\n  b\nc");
  EXPECT_EQ(render("a  \n {%- if true -%} \n b \n {%- endif -%} \n c"), "abc");
  EXPECT_EQ(render("a\n  {%+ if true +%}\nb{% endif %}"), "a\n  \nb");
  EXPECT_EQ(render("x {% if true %} y {% endif %} z"), "x  y  z");
  EXPECT_EQ(render("a\r\n{# note #}\r\nb"), "a\nb");
  EXPECT_EQ(render("{% raw %}{{ x }} {% y %}{% endraw %}"), "{{ x }} {% y %}");
  EXPECT_EQ(render("\u3000{{- 'x' -}}\u00a0 y"), "xy");
}

TEST(Jinja, LoopsHaveAScopeOfTheirOwn) {
  EXPECT_EQ(
      render("{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}"),
      "231");
  EXPECT_EQ(render("{% set n = namespace(x=0) %}{% for i in [1, 2] %}{% set n.x = n.x + i %}"
                   "{% endfor %}{{ n.x }}"),
            "3");
  EXPECT_EQ(render("{% for x in range(9) %}{% if x == 1 %}{% continue %}{% endif %}"
                   "{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}"),
            "023");
  EXPECT_EQ(render("{% for x in [3, 4] if x > 3 %}{{ loop.length }}{{ loop.last }}{% endfor %}"
                   "{% for x in [] %}{% else %}none{% endfor %}"),
            "1Truenone");
  EXPECT_EQ(render("{% for n in t recursive %}{{ n.v }}{{ loop(n.c) if n.c }}{% endfor %}",
                   R"({"t": [{"v": 1, "c": [{"v": 2}]}, {"v": 3}]})"),
            "123");
}

TEST(Jinja, MacrosBindAsFunctionsDo) {
  const std::string macro = "{% macro f(a, b=a ~ '!', c=3) %}{{ a }}{{ b }}{{ c }}{% endmacro %}";
  EXPECT_EQ(render(macro + "{{ f(1) }}{{ f(1, c=5) }}{{ f(b=2, a=9) }}"), "11!311!5923");
  EXPECT_EQ(render("{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, k=2) }}"),
            "(1,){'k': 2}");
  EXPECT_EQ(render("{% macro box() %}<{{ caller('x') }}>{% endmacro %}"
                   "{% call(v) box() %}{{ v }}y{% endcall %}"),
            "<xy>");
  EXPECT_EQ(render("{% set t | upper | trim | replace('B', 'C') %} ab {% endset %}[{{ t }}]"),
            "[AC]");
  EXPECT_EQ(render("{% filter upper %}a{{ 1 }}{% endfilter %}{% generation %}g{% endgeneration %}"),
            "A1g");
}

TEST(Jinja, MethodsOfATypeStandBeforeItsElements) {
  EXPECT_EQ(
      render("{{ d.items is callable }}{{ d['items'] }}{{ d.get('x', 2) }}{{ d.x is defined }}",
             R"({"d": {"items": "I"}})"),
      "TrueI2False");
}

TEST(Jinja, KeepsTheOrderOfMembers) {
  EXPECT_EQ(
      render("{{ d | tojson }}{{ d }}", R"({"d": {"z": 1, "a": [true, null, 1.0], "m": "é"}})"),
      R"({"z": 1, "a": [true, null, 1.0], "m": "é"}{'z': 1, 'a': [True, None, 1.0], 'm': 'é'})");
  std::string big = "{\"d\": {", expected;
  for (int i = 40; i > 0; --i) {
    big += "\"k" + std::to_string(i) + "\": " + std::to_string(i) + (i > 1 ? "," : "}}");
    expected += std::to_string(i) + ".";
  }
  EXPECT_EQ(render("{% for k in d %}{{ d[k] }}.{% endfor %}", big), expected);
  EXPECT_EQ(render("{{ d.k17 }}{{ d['k99'] is defined }}", big), "17False");
}

// Text of the request and of the template, written as [request] and {template}.
std::string origins(const std::string& source, const std::string& context) {
  const Template made(source);
  Rendering rendering(made, std::tm{});
  const Value values = parse_json(rendering.runtime(), context).value();
  for (const Entry& entry : values.dict->entries) rendering.define(entry.key.text(), entry.value);
  const MarkedText text = rendering.run();
  std::string shown;
  std::size_t at = 0;
  const auto add = [&](std::size_t to, char open, char close) {
    if (to > at) shown += open + text.bytes().substr(at, to - at) + close;
    at = to;
  };
  for (const Bytes& data : text.data()) {
    add(data.begin, '{', '}');
    add(data.end, '[', ']');
  }
  add(text.size(), '{', '}');
  return shown;
}

TEST(Jinja, KnowsWhichTextComesFromTheRequest) {
  const std::string context = R"({"x": " ab ", "l": ["p", "q"], "d": {"k": "v"}})";
  EXPECT_EQ(origins("<{{ x }}>", context), "{<}[ ab ]{>}");
  EXPECT_EQ(origins("{{ '<' + x | trim + '>' }}", context), "{<}[ab]{>}");
  EXPECT_EQ(origins("{{ ('<' ~ x)[:3] | upper }}", context), "{<}[ A]");
  EXPECT_EQ(origins("{{ l | join('-') }}", context), "[p]{-}[q]");
  EXPECT_EQ(origins("{{ ('<' ~ x ~ '>').replace('a', '#').split('#') | join('|') }}", context),
            "{<}[ ]{|}[b ]{>}");
  EXPECT_EQ(origins("{{ d | tojson }}{{ 'a' | tojson }}", context), "[{\"k\": \"v\"}]{\"a\"}");
  EXPECT_EQ(origins("{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}", context),
            "[k]{=}[v]");
  EXPECT_EQ(origins("{{ '%s!' % x }}{{ '{}?'.format(x) }}", context), "[ ab ]{!}[ ab ]{?}");
  EXPECT_EQ(origins("{% set y %}<{{ x }}{% endset %}{{ y }}{% macro m(t) %}({{ t }}){% endmacro %}"
                    "{{ m(x) }}",
                    context),
            "{<}[ ab ]{(}[ ab ]{)}");
  EXPECT_EQ(origins("{{ 'yes' if x else 'no' }}{{ x | length }}", context), "{yes4}");
}

TEST(Jinja, PointsAtTheFault) {
  struct Case {
    const char *source, *line, *column, *word;
  };
  for (const Case& item :
       {Case{"a\n{{ b ? }}", "2", "6", "?"}, Case{"x\n{{ 1 | nope }}", "2", "8", "'nope'"},
        Case{"{% for x in y %}\n{% endif %}", "2", "4", "'endif'"},
        Case{"x\n{% include 'y' %}", "2", "4", "include"},
        Case{"{{ (1 }}", "1", "7", "expected ')'"}, Case{"{{ x[::, 1] }}", "1", "6", "slice"},
        Case{"{{ x[1, 2:3] }}", "1", "9", "slice"}, Case{"{% break %}", "1", "4", "loop"},
        Case{"{% set none = 1 %}", "1", "8", "none"}, Case{"{{ 'é' + }}", "1", "10", "missing"}}) {
    try {
      const Template made(item.source);
      ADD_FAILURE() << item.source;
    } catch (const Error& error) {
      EXPECT_EQ(error.id(), errors::kChatTemplateUnsupported);
      EXPECT_EQ(error.field("line"), item.line) << item.source;
      EXPECT_EQ(error.field("column"), item.column) << item.source << error.what();
      EXPECT_NE(error.message().find(item.word), std::string::npos) << error.what();
    }
  }
  try {
    render("ok\n  {{ messages[0].text.size }}\n", R"({"messages": [{}]})");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), errors::kChatTemplateFailed);
    EXPECT_EQ(std::string(error.field("hint")),
              "  {{ messages[0].text.size }}\n                      ^");
    EXPECT_NE(error.message().find("line 2, column 23"), std::string::npos) << error.what();
    EXPECT_NE(error.message().find("no member 'text'"), std::string::npos) << error.what();
  }
}

TEST(Jinja, UnknownFiltersInBranchesFailOnlyWhenReached) {
  EXPECT_EQ(render("{% if x %}{{ 1 | nope }}{% endif %}{{ (1 is nope) if x }}ok"), "ok");
  test::expect_error(errors::kChatTemplateFailed, {"'nope'"},
                     [] { render("{% if true %}{{ 1 | nope }}{% endif %}"); });
  test::expect_error(errors::kChatTemplateUnsupported, {"'nope'"}, [] {
    render("{% if x %}{% for y in z %}{{ 1 | nope }}{% endfor %}{% endif %}");
  });
}

TEST(Jinja, FailsWherePythonRaises) {
  for (const char* source : {"{{ nope.x }}",
                             "{{ nope() }}",
                             "{{ nope + 1 }}",
                             "{{ 'a' + 1 }}",
                             "{{ 'a' + none }}",
                             "{{ 1 / 0 }}",
                             "{{ 1 < 'a' }}",
                             "{% for x in 5 %}{% endfor %}",
                             "{% for a, b in [[1]] %}{% endfor %}",
                             "{{ nope | tojson }}",
                             "{{ [1].append(2) }}",
                             "{{ {}.update({}) }}",
                             "{{ ''.__class__.mro() }}",
                             "{% set d = {} %}{% set d.x = 1 %}",
                             "{{ 'a' | replace('b') }}",
                             "{{ {[]: 1} }}",
                             "{{ 5 | length }}",
                             "{{ 1 in 'a' }}",
                             "{{ 'a'.join([1]) }}",
                             "{{ '%d' % 'x' }}",
                             "{{ '{' .format() }}",
                             "{{ none[1:] }}",
                             "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}",
                             "{{ [1] | map('nope') }}",
                             "{{ 'a'.index('b') }}",
                             "{{ 2 ** 200 }}"}) {
    test::expect_error(errors::kChatTemplateFailed, {"line 1"}, [&] { render(source); });
  }
  test::expect_error(errors::kChatTemplateRefused, {"only users"},
                     [] { render("{{ raise_exception('only users') }}"); });
}

}  // namespace
}  // namespace quern::text::jinja
