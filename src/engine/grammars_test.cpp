// Answers that follow a grammar, through the engine: the form holds whatever is drawn, forced
// tokens come many in a step, others' answers stay as they are, what cannot be compiled is told.
#include "engine/grammars.h"

#include <gtest/gtest.h>

#include <future>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/error.h"
#include "base/errors/engine.h"
#include "base/errors/grammar.h"
#include "quern/engine.h"

namespace quern::engine {
namespace {

std::unique_ptr<Engine> open(EngineOptions options = {}) {
  options.model_path = QUERN_TEST_DATA "/models/llama";
  options.random_seed = 7;
  options.max_total_tokens = 4096;
  return Engine::open(options);
}

Request request(Grammar::Kind kind, std::string text, std::uint64_t seed) {
  Request request;
  request.prompt = "ab";
  request.sampling.temperature = 1.5;
  request.sampling.seed = seed;
  request.sampling.max_tokens = 200;
  request.sampling.grammar = Grammar{kind, std::move(text)};
  return request;
}

struct Answer {
  std::string text, error_id;
  FinishReason reason = FinishReason::kNone;
  std::vector<std::int32_t> ids{};
  size_t events = 0;
};

Answer answer(Engine& engine, const Request& request) {
  Answer answer;
  TokenStream stream = engine.submit(request);
  while (auto event = stream.next()) {
    answer.text += event->text;
    answer.ids.insert(answer.ids.end(), event->token_ids.begin(), event->token_ids.end());
    answer.reason = event->finish_reason;
    answer.error_id = event->error_id;
    ++answer.events;
  }
  return answer;
}

TEST(Grammars, TheFormHoldsWhateverIsDrawn) {
  const auto engine = open();
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Answer a = answer(*engine, request(Grammar::Kind::kRegex, "x[0-9]{3}(yes|no)", seed));
    EXPECT_EQ(a.reason, FinishReason::kStop);
    EXPECT_TRUE(std::regex_match(a.text, std::regex("x[0-9]{3}(yes|no)"))) << a.text;
    const Answer b = answer(
        *engine, request(Grammar::Kind::kJsonSchema,
                         R"({"properties":{"k":{"enum":["a","b"]},"n":{"type":"integer","minimum":0,
                             "maximum":99}},"required":["k","n"]})",
                         seed));
    ASSERT_EQ(b.reason, FinishReason::kStop) << b.text;
    const auto json = nlohmann::json::parse(b.text);
    EXPECT_LE(json["n"].get<int>(), 99);
  }
}

TEST(Grammars, ForcedTextComesInFewStepsAndTheSameAsAlone) {
  const auto engine = open();
  Request forced = request(Grammar::Kind::kRegex, "the only text that may come(!|\\?)", 1);
  const Answer quick = answer(*engine, forced);
  EXPECT_EQ(quick.text.substr(0, 27), "the only text that may come");
  EXPECT_LT(quick.events, quick.ids.size());
  forced.logprobs.output = true;  // a row for each token: none are taken together
  const Answer slow = answer(*engine, forced);
  EXPECT_EQ(slow.events, slow.ids.size());
  EXPECT_EQ(slow.text.substr(0, 27), quick.text.substr(0, 27));
}

TEST(Grammars, OthersAnswerTheSame) {
  const auto engine = open();
  Request plain = request(Grammar::Kind::kRegex, "", 3);
  plain.sampling.grammar.reset();
  plain.sampling.max_tokens = 60;
  const Answer alone = answer(*engine, plain);
  std::vector<std::future<Answer>> others;
  for (std::uint64_t i = 0; i < 6; ++i) {
    others.push_back(std::async(std::launch::async, [&engine, i] {
      return answer(*engine, request(Grammar::Kind::kJsonObject, "", i));
    }));
  }
  EXPECT_EQ(answer(*engine, plain).ids, alone.ids);
  for (auto& other : others) EXPECT_NE(other.get().reason, FinishReason::kError);
}

TEST(Grammars, SameSeedSameAnswerAloneAndTogether) {
  const auto engine = open();
  const Request one = request(Grammar::Kind::kRegex, "key=[a-z]{4,40};value=[0-9]{1,20}\\.", 11);
  const Answer first = answer(*engine, one);
  std::vector<std::future<Answer>> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(std::async(std::launch::async, [&] { return answer(*engine, one); }));
  }
  for (auto& each : all) EXPECT_EQ(each.get().ids, first.ids);
}

TEST(Grammars, TheEndComesOnlyWhereItMay) {
  const auto engine = open();
  Request one = request(Grammar::Kind::kRegex, "[ab]{30}", 2);
  one.sampling.ignore_eos = true;  // and ends all the same, for nothing else may come
  one.sampling.min_tokens = 100;
  const Answer a = answer(*engine, one);
  EXPECT_EQ(a.reason, FinishReason::kStop);
  EXPECT_EQ(a.text.size(), 30U);
  one.sampling.max_tokens = 5;
  one.sampling.min_tokens = 0;
  EXPECT_EQ(answer(*engine, one).reason, FinishReason::kLength);
}

TEST(Grammars, FaultsAreTold) {
  const auto engine = open();
  EXPECT_THROW(engine->submit(request(Grammar::Kind::kRegex, "(", 1)), Error);
  const Answer bad = answer(*engine, request(Grammar::Kind::kEbnf, "root ::= nothing", 1));
  EXPECT_EQ(bad.error_id, error_entry(errors::kGrammarInvalid).id);
  const Answer stuck =
      answer(*engine, request(Grammar::Kind::kEbnf, "root ::= \"a\" more\nmore ::= more \"b\"", 1));
  EXPECT_EQ(stuck.error_id, error_entry(errors::kGrammarDeadEnd).id);
  // The engine goes on.
  EXPECT_EQ(answer(*engine, request(Grammar::Kind::kRegex, "a", 1)).text, "a");
}

TEST(Grammars, ACancelledOneEndsWhileItIsCompiled) {
  const auto engine = open();
  for (int i = 0; i < 20; ++i) {
    std::promise<FinishReason> last;
    const RequestId id = engine->submit(
        request(Grammar::Kind::kRegex, "[a-z]{" + std::to_string(i + 1) + "}.{20}", 1),
        [&](const TokenEvent& event) {
          if (event.finish_reason != FinishReason::kNone) last.set_value(event.finish_reason);
        });
    engine->cancel(id);
    const FinishReason reason = last.get_future().get();
    EXPECT_TRUE(reason == FinishReason::kCancelled || reason == FinishReason::kStop);
  }
  engine->drain(std::chrono::seconds(5));
}

TEST(Grammars, BackendsByName) {
  EngineOptions options;
  options.grammar_backend = "outlines";
  EXPECT_THROW(open(options), Error);
  options.grammar_backend = "none";
  const auto engine = open(options);
  try {
    engine->submit(request(Grammar::Kind::kRegex, "a", 1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), errors::kGrammarBackendOff);
  }
  EngineOptions pattern;
  pattern.constrained_json_whitespace_pattern = "(";
  EXPECT_THROW(open(pattern), Error);
}

}  // namespace
}  // namespace quern::engine
