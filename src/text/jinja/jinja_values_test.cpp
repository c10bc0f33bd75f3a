// Filters, tests, methods and the printing of values, each against what Python gives.
#include <gtest/gtest.h>

#include <string>

#include "text/jinja/template.h"

namespace quern::text::jinja {
namespace {

std::string value(const std::string& expression) {
  const Template made("{{ " + expression + " }}");
  std::tm now = {};
  now.tm_year = 124;
  now.tm_mday = 9;
  Rendering rendering(made, now);
  return rendering.run().bytes();
}

struct Case {
  const char *expression, *expected;
};

TEST(JinjaValues, NumbersPrintAsInPython) {
  for (const Case& item : {Case{"1.0", "1.0"},
                           {"1e16", "1e+16"},
                           {"123456789012345.0", "123456789012345.0"},
                           {"1e-5", "1e-05"},
                           {"0.0001", "0.0001"},
                           {"0.1 + 0.2", "0.30000000000000004"},
                           {"-0.0", "-0.0"},
                           {"1e400", "inf"},
                           {"7 // 2", "3"},
                           {"-7 // 2", "-4"},
                           {"-7 % 3", "2"},
                           {"7 / 2", "3.5"},
                           {"5.5 // 2", "2.0"},
                           {"-5.5 % 2", "0.5"},
                           {"2 ** 70", "1180591620717411303424"},
                           {"2 ** -1", "0.5"},
                           {"-2 ** 2", "4"},
                           {"2 ** 3 ** 2", "64"},
                           {"0x1F + 0b11 + 1_000", "1034"},
                           {"1 == 1.0 == true", "True"},
                           {"true + 1", "2"},
                           {"2.675 | round(2)", "2.67"},
                           {"2.5 | round", "2.0"},
                           {"' 0x1A ' | int(base=16)", "26"},
                           {"'1.9' | int", "1"},
                           {"'x' | int(7)", "7"},
                           {"'2.50' | float", "2.5"},
                           {"-3 | abs", "3"}}) {
    EXPECT_EQ(value(item.expression), item.expected) << item.expression;
  }
}

TEST(JinjaValues, TextsPrintAsInPython) {
  for (const Case& item :
       {Case{"['a\\'b', 'a\"b', '\\n\\x00é\\u200b']", R"(["a'b", 'a"b', '\n\x00é\u200b'])"},
        {"(1,)", "(1,)"},
        {"{'a': (1, none)}", "{'a': (1, None)}"},
        {"range(1, 5, 2)", "range(1, 5, 2)"},
        {"{'a': 1}.items()", "dict_items([('a', 1)])"},
        {"'a' 'b' \"c\"", "abc"},
        {"'aé😀z'[2]", "😀"},
        {"'aé😀z'[::-1]", "z😀éa"},
        {"'abc'[-2:]", "bc"},
        {"'abc'[5:]", ""},
        {"[1, 2, 3][::-2]", "[3, 1]"},
        {"[1][5]", ""},
        {"1 ~ none ~ nope ~ [1]", "1None[1]"}}) {
    EXPECT_EQ(value(item.expression), item.expected) << item.expression;
  }
}

TEST(JinjaValues, MethodsOfTexts) {
  for (const Case& item :
       {Case{"' a  b '.split()", "['a', 'b']"},
        {"'a,b,,c'.split(',', 1)", "['a', 'b,,c']"},
        {"'a b c'.rsplit(none, 1)", "['a b', 'c']"},
        {"'abc'.replace('', '-')", "-a-b-c-"},
        {"'xxaxx'.strip('x')", "a"},
        {"'\\u3000a\\u00a0'.strip()", "a"},
        {"'abc'.endswith(('x', 'c'))", "True"},
        {"'héllo'.find('l')", "2"},
        {"'abc'.find('z')", "-1"},
        {"'a\\nb\\r\\nc'.splitlines()", "['a', 'b', 'c']"},
        {"'k=v=w'.rpartition('=')", "('k=v', '=', 'w')"},
        {"'straße'.upper()", "STRASSE"},
        {"'ΑΣ'.lower()", "ας"},
        {"'it\\'s a tEST'.title()", "It'S A Test"},
        {"'ǆ'.capitalize()", "ǅ"},
        {"'a'.center(4, '*')", "*a**"},
        {"'ab'.center(5, '*')", "**ab*"},
        {"'-5'.zfill(4)", "-005"},
        {"'²'.isdigit()", "True"},
        {"'½'.isdigit()", "False"},
        {"''.isalpha()", "False"},
        {"'{0}-{x:>4}|{y:.2f}|{{}}'.format('a', x='b', y=3.14159)", "a-   b|3.14|{}"},
        {"'{:,}'.format(1234567)", "1,234,567"},
        {"'{:05d}'.format(-42)", "-0042"},
        {"'%s=%05.1f%%' % ('a', 3.14159)", "a=003.1%"},
        {"'%(k)s' % {'k': 'v'}", "v"},
        {"'%-4s|%+d|%x' | format('a', 5, 255)", "a   |+5|ff"}}) {
    EXPECT_EQ(value(item.expression), item.expected) << item.expression;
  }
}

TEST(JinjaValues, Filters) {
  for (const Case& item :
       {Case{"[1, 'a', none] | join('-')", "1-a-None"},
        {"['b', 'A', 'c'] | sort", "['A', 'b', 'c']"},
        {"[1, 3, 2] | sort(reverse=true)", "[3, 2, 1]"},
        {"{'b': 1, 'A': 2} | dictsort", "[('A', 2), ('b', 1)]"},
        {"['b', 'B', 'a'] | unique | list", "['b', 'a']"},
        {"[1, 2, 3, 4] | select('odd') | list", "[1, 3]"},
        {"[{'a': 1}, {'a': 2}] | selectattr('a', 'gt', 1) | map(attribute='a') | list", "[2]"},
        {"[{'a': {'b': 5}}] | map(attribute='a.b') | sum", "5"},
        {"[1, 2, 3, 4, 5] | batch(2, 0) | list", "[[1, 2], [3, 4], [5, 0]]"},
        {"[1, 2, 3, 4, 5] | slice(2) | list", "[[1, 2, 3], [4, 5]]"},
        {"'abc' | reverse", "cba"},
        {"'a\\nb\\n\\nc' | indent(2)", "a\n  b\n\n  c"},
        {"'hello big world' | truncate(9, true)", "hello ..."},
        {"'' | default('x', true)", "x"},
        {"[] | first is defined", "False"},
        {"'<p>a <b>b</b></p>' | striptags", "a b"},
        {"'a b/ü' | urlencode", "a%20b/%C3%BC"},
        {"('<b>' | safe) + '<i>'", "<b>&lt;i&gt;"},
        {"'<' | e", "&lt;"},
        {"'hELLO wORLD-foo' | title", "Hello World-Foo"},
        {"{'b': 1, 'a': [1.0, 'é']} | tojson", "{\"b\": 1, \"a\": [1.0, \"é\"]}"},
        {"{'b': 1, 'a': []} | tojson(indent=1, sort_keys=true)", "{\n \"a\": [],\n \"b\": 1\n}"},
        {"'é😀' | tojson(ensure_ascii=true)", "\"\\u00e9\\ud83d\\ude00\""},
        {"[{'r': 'x'}, {'r': 'X'}] | groupby('r') | length", "1"},
        {"['a', 'B'] | max", "B"}}) {
    EXPECT_EQ(value(item.expression), item.expected) << item.expression;
  }
}

TEST(JinjaValues, Tests) {
  for (const Case& item : {Case{"1 is sameas true", "False"},
                           {"none is none and nope is undefined", "True"},
                           {"true is integer", "False"},
                           {"true is number", "True"},
                           {"'a' is sequence", "True"},
                           {"{} is mapping", "True"},
                           {"'b' in 'abc' and 2 not in [1]", "True"},
                           {"9 is divisibleby 3", "True"},
                           {"'aB' is lower", "False"},
                           {"range is callable", "True"},
                           {"1 < 2 < 3", "True"},
                           {"1 < 3 < 2", "False"},
                           {"'upper' is filter and 'odd' is test", "True"},
                           {"nope == nope", "True"}}) {
    EXPECT_EQ(value(item.expression), item.expected) << item.expression;
  }
}

TEST(JinjaValues, Functions) {
  EXPECT_EQ(value("strftime_now('%Y-%m-%d')"), "2024-01-09");
  EXPECT_EQ(value("dict(a=1, b='x')"), "{'a': 1, 'b': 'x'}");
  EXPECT_EQ(value("range(5)[-1]"), "4");
  const Template made(
      "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}"
      "{% set j = joiner('; ') %}{{ j() }}1{{ j() }}2");
  Rendering rendering(made, std::tm{});
  EXPECT_EQ(rendering.run().bytes(), "aba1; 2");
}

}  // namespace
}  // namespace quern::text::jinja
