// Structural tags in both of SGLang's forms, and EBNF of clients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors/grammar.h"
#include "grammar/test_grammars.h"

namespace quern::grammar {
namespace {

using testing::HasSubstr;

std::shared_ptr<const Compiled> tag(std::string text) {
  return compiled({Grammar::Kind::kStructuralTag, std::move(text)});
}

std::string refusal(Grammar::Kind kind, std::string text) {
  try {
    compiled({kind, std::move(text)});
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), errors::kGrammarInvalid);
    return error.message();
  }
  return "";
}

TEST(StructuralTag, BothForms) {
  const std::string schema =
      R"({"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]})";
  const auto older = tag(R"({"type":"structural_tag","structures":[{"begin":"<f>","schema":)" +
                         schema + R"(,"end":"</f>"}],"triggers":["<f"]})");
  const auto newer = tag(
      R"({"type":"structural_tag","format":{"type":"triggered_tags","triggers":["<f"],"tags":[{"type":"tag",
      "begin":"<f>","content":{"type":"json_schema","json_schema":)" +
      schema + R"(},"end":"</f>"}]}})");
  for (const auto& grammar : {older, newer}) {
    EXPECT_TRUE(takes(grammar, "some text"));
    EXPECT_TRUE(takes(grammar, "so <f>{\"x\": 1}</f> and <f>{\"x\":2}</f>!"));
    EXPECT_FALSE(takes(grammar, "so <f>{\"y\": 1}</f>"));
    EXPECT_FALSE(takes(grammar, "so <f>{\"x\": 1}"));
  }
  const auto sequence =
      tag(R"({"format":{"type":"sequence","elements":[{"type":"const_string","value":"A"},
      {"type":"regex","pattern":"[0-9]{2}"},{"type":"grammar","grammar":"root ::= \"x\" | \"y\""}]}})");
  EXPECT_TRUE(takes(sequence, "A12y"));
  EXPECT_FALSE(takes(sequence, "A1y"));
}

TEST(StructuralTag, RefusesWhatItCannotKeep) {
  const auto refused = [](std::string text) {
    return refusal(Grammar::Kind::kStructuralTag, std::move(text));
  };
  EXPECT_THAT(refused("{"), HasSubstr("JSON"));
  EXPECT_THAT(refused("[]"), HasSubstr("object"));
  EXPECT_THAT(refused("{}"), HasSubstr("format"));
  EXPECT_THAT(refused(R"({"structures":[{"begin":"a"}],"triggers":[]})"),
              HasSubstr("without schema"));
  EXPECT_THAT(refused(R"x({"format":{"type":"regex","pattern":"(?=a)"}})x"),
              HasSubstr("lookahead"));
  EXPECT_THAT(refused(R"({"format":{"type":"json_schema","json_schema":{"not":{}}}})"),
              HasSubstr("#/not"));
  EXPECT_THAT(refused(R"({"format":{"type":"json_schema","json_schema":{},"style":"qwen_xml"}})"),
              HasSubstr("style"));
  EXPECT_THAT(refused(R"({"format":{"type":"nothing"}})"), HasSubstr("nothing"));
}

TEST(Ebnf, TakesWhatItSays) {
  const auto grammar =
      compiled({Grammar::Kind::kEbnf, "root ::= \"(\" root \")\" | [a-c]+ # a comment (\n"});
  EXPECT_TRUE(takes(grammar, "((abc))"));
  EXPECT_FALSE(takes(grammar, "((abc)"));
}

TEST(Ebnf, RefusesFaultsAndWhatChangesMoreThanTheText) {
  const auto refused = [](std::string text) {
    return refusal(Grammar::Kind::kEbnf, std::move(text));
  };
  EXPECT_THAT(refused("a ::= \"x\""), HasSubstr("root"));
  EXPECT_THAT(refused("root ::= nothing"), HasSubstr("nothing"));
  EXPECT_THAT(refused("root ::= \"x"), HasSubstr("line 1"));
  EXPECT_THAT(refused("root ::= \"a\"\nb ::= (\"x\""), HasSubstr("group"));
  EXPECT_THAT(refused("root ::= \"a\"{1000000}"), HasSubstr("repetition"));
  EXPECT_THAT(refused("root ::= Regex(\"a(?=b)\")"), HasSubstr("Regex"));
  EXPECT_THAT(refused("root[temperature=0] ::= \"a\""), HasSubstr("attributes"));
  EXPECT_THAT(refused("root ::= " + std::string(5000, '(')), HasSubstr("deep"));
  EXPECT_THAT(refused(std::string(70000, ' ')), HasSubstr("limit"));
  EXPECT_THAT(refused("root ::= root"), HasSubstr("nothing"));
  EXPECT_THAT(refused(""), HasSubstr("root"));
}

}  // namespace
}  // namespace quern::grammar
