// JSON schemas as grammars: what they take, what is drawn from them, what is refused and where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/errors/grammar.h"
#include "grammar/test_grammars.h"

namespace quern::grammar {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& schema) {
  try {
    compiled_schema(schema);
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), errors::kGrammarInvalid);
    return error.message();
  }
  return "";
}

struct Case {
  const char* schema;
  std::vector<const char*> good, bad;
};

void check(const std::vector<Case>& cases) {
  for (const Case& test : cases) {
    const auto grammar = compiled_schema(test.schema);
    for (const char* text : test.good)
      EXPECT_TRUE(takes(grammar, text)) << test.schema << "\n" << text;
    for (const char* text : test.bad)
      EXPECT_FALSE(takes(grammar, text)) << test.schema << "\n" << text;
    for (unsigned seed = 0; seed < 10; ++seed) {
      const Drawn drawn = draw(grammar, seed, 600);
      EXPECT_FALSE(drawn.stuck) << test.schema << "\n" << drawn.text;
      if (!drawn.ended) continue;
      EXPECT_TRUE(nlohmann::json::accept(drawn.text)) << test.schema << "\n" << drawn.text;
    }
  }
}

TEST(JsonSchema, Strings) {
  check({{R"({"type": "string"})",
          {R"("")", R"("é\n\"A\ud83d\ude00")"},
          {"1", "\"\n\"", R"("\ud83d")"}},
         {R"({"type": "string", "minLength": 2, "maxLength": 3})",
          {R"("ab")", R"("éab")"},
          {R"("a")", R"("abcd")", "\"a\tb\""}},
         {R"({"type": "string", "maxLength": 4000})", {R"("")", R"("abc")"}, {}},
         {R"({"type": "string", "pattern": "^hello\\!$"})", {R"("hello!")"}, {R"("hello")"}},
         {R"({"type": "string", "pattern": "^a[^b]c$"})",
          {R"("axc")", R"("a\"c")", R"("a\\c")", R"("a\nc")"},
          {R"("abc")", R"("a"c")", R"("a\c")"}},
         {R"({"type": "string", "pattern": "[a-z]{2}", "minLength": 2, "maxLength": 9})",
          {R"("ab")"},
          {R"("abc")"}},
         {R"({"type": "string", "format": "date"})", {R"("2024-02-28")"}, {R"("2024-13-01")"}},
         {R"({"type": "string", "format": "uuid"})",
          {R"("123e4567-e89b-12d3-a456-426614174000")"},
          {R"("1")"}},
         {R"({"type": "string", "format": "who knows"})", {R"("x")"}, {}},
         {R"({"pattern": "^x$"})", {R"("x")"}, {R"("y")", "1"}}});
}

TEST(JsonSchema, LengthsAreCountedExactly) {
  for (const int max : {64, 127, 128, 129, 192, 193, 300}) {
    for (const int min : {0, max / 2, max}) {
      const auto grammar =
          compiled_schema(R"({"type": "string", "minLength": )" + std::to_string(min) +
                          R"(, "maxLength": )" + std::to_string(max) + "}");
      const auto text = [](int length) {
        return "\"" + std::string(static_cast<size_t>(length), 'a') + "\"";
      };
      EXPECT_TRUE(takes(grammar, text(min)) && takes(grammar, text(max))) << min << " " << max;
      EXPECT_FALSE(takes(grammar, text(max + 1))) << max;
      EXPECT_FALSE(min > 0 && takes(grammar, text(min - 1))) << min;
    }
  }
}

TEST(JsonSchema, Numbers) {
  check(
      {{R"({"type": "integer"})", {"0", "-12", "123456789012345"}, {"01", "1.5", "+1", "-"}},
       {R"({"type": "integer", "minimum": -5, "maximum": 123})",
        {"-5", "-1", "0", "9", "10", "99", "100", "123"},
        {"-6", "124", "200", "-10", "1000", "05"}},
       {R"({"type": "integer", "exclusiveMinimum": 0})", {"1", "10", "999999"}, {"0", "-1"}},
       {R"({"type": "integer", "exclusiveMaximum": 0})", {"-1", "-10"}, {"0", "1"}},
       {R"({"type": "integer", "minimum": 1000000000000000000})",
        {"1000000000000000000", "9000000000000000000"},
        {"999999999999999999"}},
       {R"({"type": "integer", "minimum": 1.5, "maximum": 3.5})", {"2", "3"}, {"1", "4"}},
       {R"({"type": "integer", "multipleOf": 7, "minimum": -10, "maximum": 20})",
        {"-7", "0", "7", "14"},
        {"1", "21", "-14"}},
       {R"({"type": "integer", "multipleOf": 20})", {"0", "20", "-40", "1260"}, {"10", "30", "5"}},
       {R"({"type": "number"})", {"0", "-1.5e-3", "2E7"}, {"1.", ".5", "NaN"}},
       {R"({"type": "number", "minimum": 0.5, "maximum": 2.25})",
        {"0.5", "0.51", "1", "1.999", "2", "2.2", "2.25", "2.249"},
        {"0.49", "0.4999", "2.26", "2.251", "3", "0", "-1"}},
       {R"({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1})",
        {"0.1", "0.001", "0.999"},
        {"0", "0.0", "1", "1.0", "-0.5"}},
       {R"({"type": "number", "minimum": -1.5, "maximum": -0.25})",
        {"-1.5", "-1", "-0.25", "-0.3"},
        {"-0.2", "-1.51", "0", "1"}},
       {R"({"type": "number", "minimum": 3.14, "maximum": 3.14})", {"3.14"}, {"3.1", "3.15", "3"}},
       {R"({"type": "number", "minimum": 100})", {"100", "100.5", "123456"}, {"99.9", "-100"}},
       {R"({"minimum": 3, "maximum": 5})", {"3", "4.5", "5"}, {"2", "6"}}});
}

TEST(JsonSchema, Arrays) {
  check(
      {{R"({"type": "array"})", {"[]", "[1, \"a\", {\"b\":[]}]"}, {"[1,]", "[,1]", "{}"}},
       {R"({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3})",
        {"[1,2]", "[1,2,3]", "[ 1, 2 ]"},
        {"[]", "[1]", "[1,2,3,4]", "[1,\"a\"]"}},
       {R"({"type": "array", "items": false})", {"[]"}, {"[1]"}},
       {R"({"type": "array", "minItems": 2})", {"[1,null]"}, {"[1]"}},
       {R"({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]})",
        {"[]", "[\"a\"]", "[\"a\",1]"},
        {"[1]", "[\"a\",1,2]"}},
       {R"({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "null"}, "minItems": 2, "maxItems": 3})",
        {"[\"a\",null]", "[\"a\",null,null]"},
        {"[\"a\"]", "[\"a\",null,null,null]", "[null]"}},
       {R"({"type": "array", "items": {"const": 1}, "maxItems": 200})", {"[1,1,1]"}, {"[2]"}}});
}

TEST(JsonSchema, Objects) {
  check(
      {{R"({"type": "object"})", {"{}", R"({"a": 1, "b": {}})"}, {"[]", "{a:1}", "{,}"}},
       {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}, "c": {"type": "boolean"}}, "required": ["b"]})",
        {R"({"b":null})", R"({"a":1,"b":null})", R"({"b": null, "c": true})",
         R"({"a":1,"b":null,"c":false})"},
        {"{}", R"({"a":1})", R"({"b":null,"a":1})", R"({"b":null,"d":1})", R"({"a":1,"b":null,})"}},
       {R"({"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}})",
        {R"({"a":1,"b":"x"})", R"({"b":"x","ab":"y"})", R"({"":"x"})", "{}"},
        {R"({"a":1,"a":"x"})", R"({"b":1})", R"({"\u0061":"x"})"}},
       {R"({"type": "object", "required": ["x y"]})", {R"({"x y":[]})"}, {"{}", R"({"z":1})"}},
       {R"({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 2})",
        {R"({"a":1})", R"({"a":1,"b":2})"},
        {"{}", R"({"a":1,"b":2,"c":3})"}},
       {R"({"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}, "minProperties": 2, "maxProperties": 2})",
        {R"({"a":1,"b":2})", R"({"b":2,"c":3})", R"({"a":1,"c":3})"},
        {"{}", R"({"a":1})", R"({"a":1,"b":2,"c":3})"}},
       {R"({"type": "object", "patternProperties": {"^x_[a-z]+$": {"type": "integer"}}})",
        {R"({"x_a":1})", "{}"},
        {R"({"y":1})"}},
       {R"({"type": "object", "propertyNames": {"enum": ["k", "l"]}, "additionalProperties": {"type": "integer"}})",
        {R"({"k":1})", R"({"l":2,"k":1})"},
        {R"({"m":1})"}},
       {R"({"type": "object", "properties": {"größe \"q\"": {"const": "\u00e9"}}, "required": ["größe \"q\""]})",
        {"{\"größe \\\"q\\\"\":\"é\"}"},
        {"{}"}}});
}

TEST(JsonSchema, Combinations) {
  check(
      {{R"({"enum": ["a", 1, 1.5, null, true, {"b": [1, 2]}]})",
        {"\"a\"", "1", "1.5", "null", "true", R"({"b":[1,2]})"},
        {"\"b\"", "2"}},
       {R"({"type": "string", "enum": ["a", 1]})", {"\"a\""}, {"1"}},
       {R"({"const": {"a": "x"}})", {R"({"a":"x"})"}, {"{}"}},
       {R"({"type": ["integer", "null"], "minimum": 3})", {"3", "null"}, {"2", "true"}},
       {R"({"anyOf": [{"type": "integer"}, {"type": "string"}]})", {"1", "\"a\""}, {"null"}},
       {R"({"type": "string", "anyOf": [{"maxLength": 2}, {"type": "null"}]})",
        {"\"a\""},
        {"null", "\"abc\""}},
       {R"({"type": "object", "properties": {"k": {"type": "string"}}, "anyOf": [{"required": ["k"]}, {"properties": {"l": {"const": 1}}, "required": ["l"]}]})",
        {R"({"k":"x"})", R"({"l":1})"},
        {"{}"}},
       {R"({"oneOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]})",
        {"1", "null"},
        {"true"}},
       {R"({"oneOf": [{"type": "object", "properties": {"t": {"const": "a"}, "x": {"type": "integer"}}, "required": ["t", "x"]},
              {"type": "object", "properties": {"t": {"const": "b"}}, "required": ["t"]}]})",
        {R"({"t":"a","x":1})", R"({"t":"b"})"},
        {R"({"t":"a"})", R"({"t":"c"})"}},
       {R"({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "null"}}, "required": ["b"]}]})",
        {R"({"a":1,"b":null})", R"({"b":null})"},
        {R"({"a":1})"}},
       {R"({"allOf": [{"type": "number", "minimum": 1}, {"type": "integer", "maximum": 3}]})",
        {"1", "3"},
        {"0", "4", "1.5"}},
       {R"({"$ref": "#/$defs/a%20b", "$defs": {"a b": {"type": "integer"}}})", {"1"}, {"\"a\""}},
       {R"({"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}, "required": ["v", "next"]}}})",
        {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"},
        {R"({"v":1})"}},
       {R"({"type": "object", "properties": {"a": {"$ref": "#"}}})",
        {"{}", R"({"a":{"a":{}}})"},
        {R"({"a":1})"}},
       {R"({"$ref": "#/definitions/s", "minLength": 2, "definitions": {"s": {"type": "string", "maxLength": 3}}})",
        {"\"ab\""},
        {"\"a\"", "\"abcd\""}},
       {R"(true)", {"1", "{}"}, {"x"}},
       {R"({"title": "t", "x-unknown": 1, "description": "d", "default": 3})", {"1", "null"}, {}}});
}

TEST(JsonSchema, WhatAGrammarCannotHoldToIsRefusedWithItsPlace) {
  for (
      const auto& [schema, place] : std::vector<std::pair<std::string, std::string>>{
          {R"({"not": {"type": "string"}})", "#/not"},
          {R"({"type": "object", "properties": {"a/b": {"if": {}, "then": {}}}})",
           "#/properties/a~1b/if"},
          {R"({"type": "array", "uniqueItems": true})", "#/uniqueItems"},
          {R"({"type": "array", "contains": {}})", "#/contains"},
          {R"({"type": "object", "dependentRequired": {"a": ["b"]}})", "#/dependentRequired"},
          {R"({"enum": []})", "#/enum"},
          {R"({"type": "integer", "enum": ["a"]})", "allowed type"},
          {R"({"type": "string", "enum": ["abc"], "minLength": 2})", "#/minLength"},
          {R"({"type": "integer", "minimum": 5, "maximum": 4})", "minimum is more"},
          {R"({"type": "integer", "minimum": 1.2, "maximum": 1.8})", "no integer"},
          {R"({"type": "number", "exclusiveMinimum": 1, "maximum": 1})", "minimum is more"},
          {R"({"type": "string", "minLength": 5, "maxLength": 4})", "minLength is more"},
          {R"({"type": "array", "minItems": 5, "maxItems": 4})", "minItems is more"},
          {R"({"type": "object", "minProperties": 5, "maxProperties": 4})",
           "minProperties is more"},
          {R"({"type": "string", "minLength": -1})", "#/minLength"},
          {R"({"type": "string", "maxLength": 1000000000})", "#/maxLength"},
          {R"x({"type": "string", "pattern": "a(?=b)"})x", "#/pattern: at character"},
          {R"({"type": "string", "pattern": 5})", "#/pattern"},
          {R"({"type": "string", "pattern": "a+", "maxLength": 3})", "together with a length"},
          {R"({"type": "number", "multipleOf": 0.1})", "#/multipleOf"},
          {R"({"type": "integer", "multipleOf": 7})", "#/multipleOf"},
          {R"({"type": "strin"})", "#/type"},
          {R"({"type": []})", "#/type"},
          {R"({"$ref": "#/$defs/none"})", "leads nowhere"},
          {R"({"$ref": "http://x/y"})", "not a pointer"},
          {R"({"$ref": "#"})", "nothing satisfies"},
          {R"({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}})",
           "nothing satisfies"},
          {R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})",
           "nothing satisfies"},
          {R"({"type": "array", "items": {"$ref": "#"}, "minItems": 1})", "nothing satisfies"},
          {R"({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"type": "object"}]}}})",
           "#/$defs/a"},
          {R"({"oneOf": [{"type": "object"}, {"type": "object"}]})", "#/oneOf"},
          {R"({"anyOf": []})", "#/anyOf"},
          {R"({"allOf": [{"properties": {"a": {}}, "additionalProperties": false}, {"properties": {"b": {}}}]})",
           "additionalProperties"},
          {R"({"type": "object", "required": ["a"], "properties": {"b": {}}, "additionalProperties": false})",
           "required, but"},
          {R"({"type": "object", "required": "a"})", "#/required"},
          {R"({"type": "object", "properties": []})", "#/properties"},
          {R"({"type": "object", "properties": {"a": {}}, "patternProperties": {"b": {}}})",
           "#/patternProperties"},
          {R"({"type": "object", "additionalProperties": {}, "minProperties": 3})",
           "#/minProperties"},
          {R"(false)", "false"},
          {R"([])", "a schema is"},
          {R"({"type": "string",})", "not valid JSON"}}) {
    EXPECT_THAT(refusal(schema), HasSubstr(place)) << schema;
  }
}

TEST(JsonSchema, SizeIsCheckedFirst) {
  std::string deep, end;
  for (int i = 0; i < 5000; ++i) deep += R"({"type":"array","items":)", end += '}';
  EXPECT_THAT(refusal(deep + "true" + end), HasSubstr("nested more than 64 deep"));
  EXPECT_THAT(refusal(std::string(300'000, ' ') + "true"), HasSubstr("limit"));
  std::string many = "{\"enum\":[0";
  for (int i = 1; i < 20'000; ++i) many += "," + std::to_string(i);
  EXPECT_THAT(refusal(many + "]}"), HasSubstr("more than 10000 values"));
  // Counted members times counts: rules grow with their product.
  std::string wide = R"({"type":"object","maxProperties":900,"properties":{)";
  for (int i = 0; i < 900; ++i) wide += (i ? ",\"p" : "\"p") + std::to_string(i) + "\":true";
  EXPECT_THAT(refusal(wide + "}}"), HasSubstr("rules"));
}

TEST(JsonSchema, WhiteSpaceAsTheStyleSays) {
  const Grammar schema{
      Grammar::Kind::kJsonSchema,
      R"({"properties":{"a":{"type":"array","items":{"type":"integer"}}},"required":["a"]})"};
  const auto usual = compiled(schema);
  EXPECT_TRUE(takes(usual, "{\"a\":[1,2]}"));
  EXPECT_TRUE(takes(usual, "{\n  \"a\": [\n    1,\n    2\n  ]\n}"));
  EXPECT_FALSE(takes(usual, "{\n\n\"a\":[1]}"));
  const auto none = compiled(schema, {.any_whitespace = false});
  EXPECT_TRUE(takes(none, "{\"a\": [1, 2]}"));
  EXPECT_FALSE(takes(none, "{\"a\":[1,2]}"));
  const auto own = compiled(schema, {.whitespace_pattern = "[ ]?"});
  EXPECT_TRUE(takes(own, "{ \"a\" : [1 ,2 ] }"));
  EXPECT_FALSE(takes(own, "{\n\"a\":[1]}"));
  const auto object = compiled({Grammar::Kind::kJsonObject, ""});
  EXPECT_TRUE(takes(object, "{\"x\": [1, {\"y\": null}]}"));
  EXPECT_FALSE(takes(object, "[1]"));
}

}  // namespace
}  // namespace quern::grammar
