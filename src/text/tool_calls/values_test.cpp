// The pieces below the formats: JSON and Python values byte by byte, and types from schemas.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "text/tool_calls/json_scanner.h"
#include "text/tool_calls/python_value.h"
#include "text/tool_calls/tool_set.h"

namespace quern::text {
namespace {

// The value at the beginning of `text`, as it is written, or "bad" or "cut".
std::string scanned(std::string_view text) {
  JsonScanner scanner;
  std::string out;
  for (const char c : text) {
    switch (scanner.step(c, &out)) {
      case JsonScanner::Step::kInside: break;
      case JsonScanner::Step::kDone:
      case JsonScanner::Step::kDoneBefore: return out;
      case JsonScanner::Step::kBad: return "bad";
    }
  }
  return scanner.ends_here() ? out : "cut";
}

TEST(JsonScanner, FindsTheEndOfAValue) {
  EXPECT_EQ(scanned(R"({"a": [1, -2.5e+3, {"b": null}], "c": "}\"\u00e9"} rest)"),
            R"({"a": [1, -2.5e+3, {"b": null}], "c": "}\"\u00e9"})");
  EXPECT_EQ(scanned("12,"), "12");
  EXPECT_EQ(scanned("12"), "12");
  EXPECT_EQ(scanned("true}"), "true");
  EXPECT_EQ(scanned("[]]"), "[]");
  EXPECT_EQ(scanned("{}}"), "{}");
  EXPECT_EQ(scanned(R"("x"y)"), R"("x")");
}

TEST(JsonScanner, RefusesWhatIsNoJson) {
  for (const char* bad :
       {"}", "[1,]", "{,}", "{\"a\" 1}", "{\"a\":1,}", "{a:1}", "01x]", "-a", "1.e", "1e+x", "tru3",
        "\"\\x", "\"\\u12g", "[1 2]", "{\"a\":1]", "'a'", "None"}) {
    EXPECT_EQ(scanned(std::string(bad) + " "), bad[0] == '0' ? "bad" : "bad") << bad;
  }
  EXPECT_EQ(scanned(std::string(300, '[')), "bad");  // deeper than kMaxDepth
  EXPECT_EQ(scanned(std::string(200, '[')), "cut");
  EXPECT_EQ(scanned("{\"a\":"), "cut");
}

TEST(JsonScanner, WritesControlCharactersAsEscapes) {
  const std::string out = scanned("{\"a\": \"1\n2\t\x01\"}");
  EXPECT_EQ(out, R"({"a": "1\n2\t\u0001"})");
  EXPECT_EQ(nlohmann::json::parse(out)["a"], "1\n2\t\x01");
}

TEST(JsonScanner, AgreesWithAParserOnEveryShortText) {
  // All texts of up to six of these pieces; the judge is another library.
  const std::string_view pieces[] = {"{", "}", "[", "]", "\"a\"", ":", ",", "1", "-", " ", "null"};
  std::vector<std::string> texts = {""};
  for (int length = 0; length < 4; ++length) {
    std::vector<std::string> longer;
    for (const std::string& text : texts) {
      for (const std::string_view piece : pieces) longer.push_back(text + std::string(piece));
    }
    for (const std::string& text : longer) {
      EXPECT_EQ(json_kind(text) != JsonKind::kNone, nlohmann::json::accept(text)) << text;
    }
    texts = longer;
  }
}

TEST(JsonKind, TellsWhatATextIs) {
  EXPECT_EQ(json_kind("5"), JsonKind::kInteger);
  EXPECT_EQ(json_kind("-5.0"), JsonKind::kNumber);
  EXPECT_EQ(json_kind("1e3"), JsonKind::kNumber);
  EXPECT_EQ(json_kind("true"), JsonKind::kBoolean);
  EXPECT_EQ(json_kind("null"), JsonKind::kNull);
  EXPECT_EQ(json_kind(R"("a")"), JsonKind::kString);
  EXPECT_EQ(json_kind("{}"), JsonKind::kObject);
  EXPECT_EQ(json_kind("[1]"), JsonKind::kArray);
  EXPECT_EQ(json_kind("[1] x"), JsonKind::kNone);
  EXPECT_EQ(json_kind("hello"), JsonKind::kNone);
  EXPECT_EQ(json_kind("\"a\nb\""), JsonKind::kNone);
  EXPECT_EQ(json_kind(""), JsonKind::kNone);
}

std::string python(std::string_view text) {
  PythonValue value;
  std::string json;
  for (const char c : text) {
    switch (value.step(c, &json)) {
      case PythonValue::Step::kInside: break;
      case PythonValue::Step::kDone:
      case PythonValue::Step::kDoneBefore: return json;
      case PythonValue::Step::kBad: return "bad";
    }
  }
  return "cut";
}

TEST(PythonValue, WritesLiteralsAsJson) {
  const struct {
    const char *python, *json;
  } kCases[] = {
      {"'a',", R"("a")"},
      {R"("it's",)", R"("it's")"},
      {R"('say "hi"',)", R"("say \"hi\"")"},
      {"'',", R"("")"},
      {"'''a'b''c\nd''',", R"("a'b''c\nd")"},
      {R"("""x""",)", R"("x")"},
      {R"('\n\t\\\'\x41\u00e9\U0001F600\101\0',)", "\"\\n\\t\\\\'Aé😀A\\u0000\""},
      {R"('\ud83d',)", "\"\xEF\xBF\xBD\""},
      {R"('\d',)", R"("\\d")"},
      {R"(r'\d\n',)", R"("\\d\\n")"},
      {"u'ü',", R"("ü")"},
      {"12)", "12"},
      {"-1_000,", "-1000"},
      {"+5,", "5"},
      {".5,", "0.5"},
      {"5.,", "5.0"},
      {"5.e3,", "5.0e3"},
      {"007,", "7"},
      {"0x1F,", "31"},
      {"-0b101,", "-5"},
      {"1e-5,", "1e-5"},
      {"True,", "true"},
      {"False)", "false"},
      {"None ,", "null"},
      {"true,", "true"},
      {"[1, 'a', [True,],]", R"([1, "a", [true]])"},
      {"(1, 2)", "[1, 2]"},
      {"{'a': 1, 2: {'b': []}, }", R"({"a": 1, "2": {"b": []}})"},
      {"{}", "{}"},
      {"[{'k': (1,)}, {}]", R"([{"k": [1]}, {}])"},
  };
  for (const auto& each : kCases) {
    EXPECT_EQ(python(each.python), each.json) << each.python;
    EXPECT_TRUE(nlohmann::json::accept(python(each.python))) << each.python;
  }
}

TEST(PythonValue, RefusesWhatIsNoLiteral) {
  for (const char* bad : {"foo,",    "foo(",     "1 + 2]", "[1 2]",    "[,1]", "{'a'}", "{'a': }",
                          "{'a' 1}", "{[1]: 2}", "b'a',",  "f'a',",    "5j,",  "1__0,", "--5,",
                          "]",       ")",        "[1)",    "'\\xZZ',", "inf,", "0x,",   "1.2.3,"}) {
    EXPECT_EQ(python(bad), bad == std::string("1 + 2]") ? "1" : "bad") << bad;
  }
  EXPECT_EQ(python(std::string(300, '[')), "bad");
  EXPECT_EQ(python(std::string(1000, '1')), "bad");
  EXPECT_EQ(python("'abc"), "cut");
}

constexpr const char* kSchemas = R"([{"type":"function","function":{"name":"f","parameters":{
  "type":"object",
  "$defs":{"Mode":{"enum":["a",1]},"Loop":{"$ref":"#/$defs/Loop"}},
  "properties":{
    "s":{"type":"string"},"i":{"type":"integer"},"n":{"type":"number"},"b":{"type":"boolean"},
    "o":{"type":"object"},"l":{"type":"array"},"sn":{"type":["string","null"]},
    "any":{"anyOf":[{"type":"integer"},{"type":"null"}]},"mode":{"$ref":"#/$defs/Mode"},
    "loop":{"$ref":"#/$defs/Loop"},"free":{},"odd":5,"const":{"const":true}}}}},
  {"name":"bare","parameters":{"properties":{"x":{"type":"string"}}}},
  {"type":"function","function":{"name":"none"}},
  5, {"function":{}}, {"name":""}])";

TEST(ToolSet, ReadsFunctionsAndTypes) {
  const ToolSet tools(kSchemas);
  EXPECT_TRUE(tools.has("f"));
  EXPECT_TRUE(tools.has("bare"));
  EXPECT_TRUE(tools.has("none"));
  EXPECT_FALSE(tools.has(""));
  EXPECT_FALSE(tools.has("g"));
  EXPECT_EQ(tools.types("f", "s"), kStringType);
  EXPECT_EQ(tools.types("f", "sn"), kStringType | kNullType);
  EXPECT_EQ(tools.types("f", "any"), kIntegerType | kNullType);
  EXPECT_EQ(tools.types("f", "mode"), kStringType | kIntegerType);
  EXPECT_EQ(tools.types("f", "const"), kBooleanType);
  EXPECT_EQ(tools.types("f", "loop"), 0);
  EXPECT_EQ(tools.types("f", "free"), 0);
  EXPECT_EQ(tools.types("f", "odd"), 0);
  EXPECT_EQ(tools.types("f", "missing"), 0);
  EXPECT_EQ(tools.types("bare", "x"), kStringType);
  EXPECT_TRUE(ToolSet("").empty());
  EXPECT_TRUE(ToolSet("{}").empty());
  EXPECT_TRUE(ToolSet("[").empty());
  EXPECT_TRUE(ToolSet(std::string(100000, '[')).empty());
}

TEST(ToolSet, HostileSchemasTakeBoundedTime) {
  // Each level refers twice to the next: 2^64 schemas if all were looked at.
  std::string definitions = "\"D64\":{\"type\":\"string\"}";
  for (int i = 0; i < 64; ++i) {
    const std::string next = "{\"$ref\":\"#/$defs/D" + std::to_string(i + 1) + "\"}";
    definitions += ",\"D" + std::to_string(i) + "\":{\"anyOf\":[" + next + "," + next + "]}";
  }
  std::string properties = "\"p\":{\"$ref\":\"#/$defs/D0\"}";
  for (int i = 0; i < 1000; ++i) {
    properties += ",\"p" + std::to_string(i) + "\":{\"$ref\":\"#/$defs/D0\"}";
  }
  const ToolSet tools("[{\"name\":\"f\",\"parameters\":{\"$defs\":{" + definitions +
                      "},\"properties\":{" + properties + "}}}]");
  EXPECT_TRUE(tools.has("f"));
  EXPECT_EQ(tools.types("f", "p"), 0);  // too deep to tell
}

TEST(ValueAsJson, FollowsTheTypes) {
  EXPECT_EQ(value_as_json("5", kStringType), R"("5")");
  EXPECT_EQ(value_as_json("5", kIntegerType), "5");
  EXPECT_EQ(value_as_json(" 5\n", kIntegerType), "5");
  EXPECT_EQ(value_as_json("5", 0), "5");
  EXPECT_EQ(value_as_json("five", kIntegerType), R"("five")");
  EXPECT_EQ(value_as_json("five", 0), R"("five")");
  EXPECT_EQ(value_as_json("null", kStringType | kNullType), "null");
  EXPECT_EQ(value_as_json("5", kStringType | kNullType), R"("5")");
  EXPECT_EQ(value_as_json("True", kBooleanType), "true");
  EXPECT_EQ(value_as_json("None", kStringType), R"("None")");
  EXPECT_EQ(value_as_json("[1, 2]", kArrayType), "[1, 2]");
  EXPECT_EQ(value_as_json("[1, 2]", kObjectType), "[1, 2]");  // as the model meant it
  EXPECT_EQ(value_as_json("{\"a\"", kObjectType), R"("{\"a\"")");
  EXPECT_EQ(value_as_json("\"quoted\"", kStringType), R"("\"quoted\"")");
}

}  // namespace
}  // namespace quern::text
