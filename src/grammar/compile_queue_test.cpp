// The queue of compilations: results, the cache, a full queue, patience, an end in the middle.
#include "grammar/compile_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "base/errors/grammar.h"
#include "grammar/test_grammars.h"

namespace quern::grammar {
namespace {

std::unique_ptr<Vocabulary> vocabulary(bool) {
  return std::make_unique<Vocabulary>(test_tokens(), std::ssize(test_tokens()),
                                      std::vector<std::int32_t>{kTestEnd});
}

Source source(const std::string& text) { return {Notation::kEbnf, text, "ebnf", false}; }

std::future<Outcome> ask(CompileQueue& queue, const std::string& text) {
  auto promise = std::make_shared<std::promise<Outcome>>();
  queue.ask(source(text), [promise](Outcome outcome) { promise->set_value(std::move(outcome)); });
  return promise->get_future();
}

TEST(CompileQueue, CompilesOnceAndKeeps) {
  CompileQueue queue(vocabulary, {});
  auto first = ask(queue, "root ::= \"a\"");
  const auto grammar = first.get().grammar;
  ASSERT_TRUE(grammar);
  EXPECT_TRUE(takes(grammar, "a"));
  auto again = ask(queue, "root ::= \"a\"");
  // Told on this thread, before ask() returned.
  ASSERT_EQ(again.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_EQ(again.get().grammar, grammar);
}

TEST(CompileQueue, TellsOfFaults) {
  CompileQueue queue(vocabulary, {});
  const Outcome outcome = ask(queue, "root ::= nothing").get();
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->id(), errors::kGrammarInvalid);
  EXPECT_FALSE(outcome.grammar);
}

TEST(CompileQueue, GivesUpTheLeastUsedForRoom) {
  CompileQueue queue(vocabulary, {.cache_bytes = 1});
  const auto first = ask(queue, "root ::= \"a\"").get().grammar;
  EXPECT_NE(ask(queue, "root ::= \"a\"").get().grammar, first);
}

// A vocabulary that comes late keeps both workers busy.
class Gate {
 public:
  std::unique_ptr<Vocabulary> open_late() {
    released_.get_future().wait();
    return vocabulary(false);
  }
  void release() { released_.set_value(); }

 private:
  std::promise<void> released_;
};

TEST(CompileQueue, AFullQueueRefusesAndLateOnesAreTold) {
  Gate gate;
  CompileQueue queue([&](bool) { return gate.open_late(); },
                     {.waiting = 2, .patience = std::chrono::milliseconds(50)});
  std::vector<std::future<Outcome>> asked;
  int refused = 0;
  for (int i = 0; i < 8; ++i) {
    try {
      asked.push_back(ask(queue, "root ::= \"" + std::to_string(i) + "\""));
    } catch (const Error& error) {
      EXPECT_EQ(error.id(), errors::kGrammarQueueFull);
      ++refused;
    }
  }
  EXPECT_GE(refused, 4);  // two are being compiled at most, two wait
  for (auto& future : asked) {
    const Outcome outcome = future.get();
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(outcome.error->id(), errors::kGrammarTimeout);
  }
  gate.release();
  // What was being compiled goes on and is kept.
  EXPECT_TRUE(ask(queue, "root ::= \"0\"").get().grammar);
}

TEST(CompileQueue, EndsWithOnesThatWait) {
  std::atomic<int> told = 0;
  {
    CompileQueue queue(vocabulary, {});
    for (int i = 0; i < 20; ++i) {
      queue.ask(source("root ::= [a-z]{" + std::to_string(i + 1) + "}"), [&](Outcome) { ++told; });
    }
  }
  EXPECT_LE(told, 20);
}

}  // namespace
}  // namespace quern::grammar
