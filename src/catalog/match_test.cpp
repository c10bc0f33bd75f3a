#include "catalog/match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace quern::catalog {
namespace {

std::string best(const std::string& text) {
  const std::vector<Match> found = match(text);
  return found.empty() ? "" : found[0].entry->symbol;
}

// The message with its placeholders filled.
std::string example(const Entry& entry) {
  std::string text;
  const std::string& message = entry.message();
  for (std::size_t i = 0; i < message.size(); ++i) {
    const std::size_t close = message[i] == '{' ? message.find('}', i) : message.npos;
    const bool named =
        close != message.npos && close > i + 1 &&
        message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789", i + 1) == close;
    if (named) {
      text += "sample7";
      i = close;
    } else {
      text += message[i];
    }
  }
  return text;
}

TEST(Match, EveryMessageFindsItsOwnEntry) {
  for (const Entry& entry : entries()) {
    EXPECT_EQ(best(example(entry)), entry.symbol) << example(entry);
    EXPECT_EQ(best("[2026-08-01 10:00:00 TP0] ValueError: " + example(entry) + "\n"), entry.symbol);
  }
}

TEST(Match, ReadsAPythonTraceback) {
  const std::string traceback =
      "[2026-08-01 12:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
      "  File \"/opt/sglang/python/sglang/srt/managers/scheduler.py\", line 2700, in run\n"
      "    scheduler = Scheduler(server_args)\n"
      "                ^^^^^^^^^^^^^^^^^^^^^^\n"
      "  File \"/opt/sglang/python/sglang/srt/layers/attention/attention_registry.py\", line 254, "
      "in "
      "create_trtllm_mha_backend\n"
      "    raise ValueError(\n"
      "ValueError: trtllm_mha backend can only be used with non-MLA models.\n"
      "\n"
      "[2026-08-01 12:00:01] Received sigquit from a child process.\n";
  const std::vector<Match> found = match(traceback);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].entry->id, "0ae807a1c0d1702a");
  EXPECT_EQ(found[0].position, traceback.find("trtllm_mha backend can"));
  // The general rule of the same words stands behind the particular one.
  ASSERT_GE(found.size(), 2u);
  EXPECT_EQ(found[1].entry->symbol, "NonMlaBackendOnly");
}

TEST(Match, PrefersMoreFixedCharactersThenTheLater) {
  EXPECT_EQ(best("unknown backend can only be used with non-MLA models."), "NonMlaBackendOnly");
  const std::string two =
      "trtllm_mla backend can only be used with MLA models.\n"
      "cutlass_mla backend can only be used with MLA models.\n";
  const std::vector<Match> found = match(two);
  ASSERT_GE(found.size(), 2u);
  EXPECT_EQ(found[0].entry->symbol, "CutlassMlaNonMlaModel");
  EXPECT_EQ(found[1].entry->symbol, "TrtllmMlaNonMlaModel");
}

TEST(Match, ReadsIdsOfQuernsOwnErrors) {
  EXPECT_EQ(best("error[e45e9af63e91c033]: some other words"), "HpcOpsMlaModel");
  EXPECT_EQ(best(R"({"error": {"message": "x", "id": "0ae807a1c0d1702a"}})"), "TrtllmMhaMlaModel");
  EXPECT_EQ(best("commit 0ae807a1c0d1702a0 is no id"), "");
}

TEST(Match, FindsAMessageThatATerminalBroke) {
  EXPECT_EQ(best("ValueError: trtllm_mha backend can only be\n   used with non-MLA\r\nmodels."),
            "TrtllmMhaMlaModel");
}

TEST(Match, FindsNothingInOtherWords) {
  for (const std::string& text :
       {std::string(), std::string("All is well."), std::string("\n\n\n"), std::string(1, '\0'),
        std::string("CUDA out of memory"), std::string("\xFF\xFE\x80")}) {
    EXPECT_TRUE(match(text).empty()) << text;
  }
}

TEST(Match, TheEndOfALongTextCounts) {
  const std::string message = "Invalid attention backend: nosuch\n";
  EXPECT_EQ(best(std::string(3 << 20, 'x') + "\n" + message), "InvalidAttentionBackend");
  EXPECT_EQ(best(message + std::string(3 << 20, 'x')), "");
}

TEST(Match, HostileTextsTakeBoundedTime) {
  std::string repeated, lines;
  const std::string piece = " backend does not serve head dims of QK 1 and V 2; it";
  while (repeated.size() < kMaxMatchText) repeated += piece;
  while (lines.size() < kMaxMatchText) lines += piece + "\n";
  std::string backticks;
  while (backticks.size() < kMaxMatchText) backticks += "` needs ";
  for (const std::string& text : {std::string(kMaxMatchText, ' '), std::string(kMaxMatchText, '\n'),
                                  repeated, lines, backticks, std::string(kMaxMatchText, 'x')}) {
    const auto start = std::chrono::steady_clock::now();
    match(text);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  }
}

}  // namespace
}  // namespace quern::catalog
