#include <gtest/gtest.h>

#include <string>

#include "base/errors/text.h"
#include "text/jinja/json_values.h"
#include "text/jinja/template.h"
#include "text/test_support.h"

namespace quern::text::jinja {
namespace {

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

void run(const std::string& source) {
  const Template made(source);
  Rendering rendering(made, std::tm{}, {.steps = 2'000'000});
  rendering.run();
}

TEST(JinjaLimits, EndsWhatHasNoEnd) {
  for (const std::string source :
       {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}xxxxxxxxxxxxxxxx{% endfor %}{% "
        "endfor %}",
        "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% set n = namespace(s='xxxxxxxx') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% "
        "endfor %}",
        "{% set n = namespace(l=[1]) %}{% for i in range(60) %}{% set n.l = n.l + n.l %}{% endfor "
        "%}",
        "{{ 'x' * 10 ** 12 }}",
        "{{ [0] * 10 ** 12 }}",
        "{{ 'x'.ljust(10 ** 12) }}",
        "{{ 'x'.zfill(10 ** 30) }}",
        "{{ '%9999999999d' % 1 }}",
        "{{ '{:9999999999}'.format(1) }}",
        "{{ '%.*f' % (10 ** 9, 1.5) }}",
        "{{ 'a\nb' | indent(10 ** 12) }}",
        "{{ range(100001) }}",
        "{{ [1] | batch(10 ** 12, 0) | list }}",
        "{{ [[1]] | tojson(indent=10 ** 12) }}",
        "{% set n = namespace(l=[]) %}{% for i in range(5000) %}{% set n.l = [n.l] %}{% endfor "
        "%}{{ n.l }}",
        "{% set n = namespace(l=[]) %}{% for i in range(5000) %}{% set n.l = [n.l] %}{% endfor "
        "%}{{ n.l | tojson }}",
        "{% set n = namespace() %}{% set n.me = n %}{{ n }}",
        "{{ ('x' * 10 ** 6).replace('', 'y' * 10 ** 6) }}"}) {
    test::expect_error(errors::kChatTemplateLimit, {"line "}, [&] { run(source); });
  }
}

TEST(JinjaLimits, RefusesSourceThatIsNestedTooDeep) {
  for (const std::string& source :
       {"{{ " + repeated("(", 5000) + "1" + repeated(")", 5000) + " }}",
        "{{ " + repeated("[", 5000) + repeated("]", 5000) + " }}",
        "{{ " + repeated("not ", 5000) + "1 }}", "{{ " + repeated("-", 5000) + "1 }}",
        "{{ 1" + repeated(" + 1", 5000) + " }}", "{{ x" + repeated(".a", 5000) + " }}",
        "{{ x" + repeated("|upper", 5000) + " }}", "{{ x" + repeated("[0]", 5000) + " }}",
        "{{ 1" + repeated(" if x else 1", 5000) + " }}", "{{ 1" + repeated(" if x", 5000) + " }}",
        "{{ x" + repeated("()", 5000) + " }}", "{{ x" + repeated(" is none", 5000) + " }}",
        "{% set " + repeated("(", 5000) + "x" + repeated(")", 5000) + " = 1 %}",
        repeated("{% if true %}", 3000) + repeated("{% endif %}", 3000),
        repeated("{% macro f() %}", 3000) + repeated("{% endmacro %}", 3000),
        std::string("{{ 99999999999999999999999999999999999999999 }}"),
        std::string(2 << 20, 'x')}) {
    test::expect_error(errors::kChatTemplateUnsupported, {"line 1"}, [&] { run(source); });
  }
}

TEST(JinjaLimits, LongTextsAreFine) {
  run(repeated("{% if true %}{{ 1 }}{% endif %}\n", 5000));
  run("{% set x = 'ab' * 10 ** 6 %}{{ x | upper | length }}{{ x.split('a') | length }}");
  run("{% if x %}" + repeated("{% elif x %}y", 3000) + "{% endif %}");
  run("{{ 1" + repeated(" ~ 1", 3000) + " }}");
}

TEST(JinjaLimits, JsonIsReadWithinBounds) {
  const Template made("x");
  Rendering rendering(made, std::tm{});
  EXPECT_FALSE(parse_json(rendering.runtime(), repeated("[", 500) + repeated("]", 500)));
  EXPECT_FALSE(parse_json(rendering.runtime(), "{\"a\": \"\xFF\"}"));
  EXPECT_FALSE(parse_json(rendering.runtime(), ""));
  EXPECT_TRUE(parse_json(rendering.runtime(), repeated("[", 100) + repeated("]", 100)));
}

}  // namespace
}  // namespace quern::text::jinja
