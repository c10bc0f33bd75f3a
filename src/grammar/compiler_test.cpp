// The compiler's masks against the matcher itself.
#include "grammar/compiler.h"

#include <gtest/gtest.h>

#include "grammar/test_grammars.h"
#include "grammar/tool_grammar.h"

namespace quern::grammar {
namespace {

// The mask allows just those tokens whose text may come, wherever an answer stands. Masks are
// worked out beforehand as far as that goes, and grammars say where nothing can follow.
void expect_exact_masks(const std::string& what, const std::shared_ptr<const Compiled>& grammar) {
  for (unsigned seed = 0; seed < 3; ++seed) {
    std::string text;
    std::mt19937 random(seed);
    for (int step = 0; step < 25; ++step) {
      Matcher matcher(grammar);
      ASSERT_TRUE(text.empty() || matcher.accept_text(text));
      Mask mask;
      matcher.fill(&mask);
      EXPECT_EQ(allowed(mask, kTestEnd), matcher.complete()) << what << "\n" << text;
      std::vector<std::string> may;
      for (size_t token = 1; token < test_tokens().size(); ++token) {
        const std::string& more = test_tokens()[token];
        Matcher other(grammar);
        const bool fits = other.accept_text(text + more);
        ASSERT_EQ(allowed(mask, token), fits) << what << "\n" << text << "\n" << more;
        if (fits) may.push_back(more);
      }
      if (may.empty()) break;
      text += may[random() % may.size()];
    }
  }
}

TEST(Masks, AreExact) {
  for (const char* pattern : {"([a-z]{2,12} )+", "(foo|ba+r|[0-9]{1,3})*", "a{3,200}b?",
                              "(ab|a)(c|bcd)", "[^b]*b", "((a|b){2} ?){0,3}"}) {
    expect_exact_masks(pattern, compiled_regex(pattern));
    // The same as the inside of a string, which a quote follows.
    expect_exact_masks(pattern, compiled_schema(Json{{"pattern", pattern}}.dump()));
  }
  for (const char* schema :
       {R"({"type":"string","maxLength":5})", R"({"type":"array","items":{"type":"integer"}})",
        R"({"type":"object","properties":{"a":{"type":"string"},"b":{"enum":[1,12,"12"]}}})",
        R"({"type":["number","null"]})", R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"array",
        "items":{"$ref":"#/$defs/t"}}}})",
        "{}"}) {
    expect_exact_masks(schema, compiled_schema(schema));
  }
  const char* tools = R"([{"function":{"name":"ab","strict":true,"parameters":{"properties":
      {"a":{"type":"string"},"n":{"type":["string","integer"]}}}}}])";
  for (const char* format : {"qwen25", "glm45", "pythonic", "llama3", "deepseekv32"}) {
    for (const bool required : {true, false}) {
      const std::string text =
          tool_grammar({.format = format, .tools = tools, .required = required}, {});
      expect_exact_masks(
          format, std::make_shared<const Compiled>(test_vocabulary(), Notation::kEbnf, text));
    }
  }
}

}  // namespace
}  // namespace quern::grammar
