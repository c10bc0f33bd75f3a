// Command lines of SGLang: every flag has its row, pasted lines are taken apart, and what is left
// out or refused is told.
#include "cli/launch_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/errors/base.h"
#include "base/errors/cli.h"
#include "cli/launch_line.h"
#include "cli/options.h"

namespace quern::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::optional<Error> refusal(const std::vector<std::string>& arguments) {
  try {
    parse_command_line(arguments);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

void expect_contradiction(const std::vector<std::string>& arguments, const std::string& first,
                          const std::string& second) {
  const auto error = refusal(arguments);
  ASSERT_TRUE(error) << first;
  EXPECT_EQ(error->id(), errors::kContradictoryFlags);
  EXPECT_EQ(error->field("first"), first);
  EXPECT_EQ(error->field("second"), second);
}

TEST(LaunchFlags, HaveOneRowEach) {
  std::set<std::string> names;
  std::size_t rows = 0;
  for (const auto flags : {served_flags(), ignored_flags(), refused_flags()}) {
    rows += flags.size();
    for (const LaunchFlag& flag : flags) {
      EXPECT_TRUE(flag.name.starts_with("--")) << flag.name;
      EXPECT_TRUE(names.insert(std::string(flag.name)).second) << flag.name << " stands twice";
      std::string_view aliases = flag.aliases;
      while (!aliases.empty()) {
        const std::size_t end = std::min(aliases.find(' '), aliases.size());
        const std::string alias(aliases.substr(0, end));
        EXPECT_TRUE(names.insert(alias).second) << alias << " stands twice";
        aliases.remove_prefix(std::min(end + 1, aliases.size()));
      }
    }
  }
  EXPECT_GT(rows, 450u);
}

TEST(LaunchFlags, OfWhatIsLeftOutHaveReasons) {
  for (const auto flags : {ignored_flags(), refused_flags()}) {
    for (const LaunchFlag& flag : flags) EXPECT_GT(flag.words.size(), 10u) << flag.name;
  }
}

TEST(LaunchFlags, ServedOnesAreThoseOfTheParser) {
  for (const LaunchFlag& flag : served_flags()) {
    std::vector<std::string> line = {"serve", std::string(flag.name)};
    if (flag.values == FlagValues::kOne) line.push_back("1");
    const auto error = refusal(line);
    // The value may be wrong for the flag, but the parser must know the flag.
    EXPECT_TRUE(!error || error->id() == errors::kInvalidFlagValue) << flag.name;
  }
}

TEST(LaunchFlags, AreIgnoredWithANote) {
  const LaunchArguments read = read_launch_flags(
      {"--trust-remote-code", "--mem-fraction-static", "0.9", "--model-path", "m", "--json",
       "--cuda-graph-bs-decode", "1", "2", "4", "--prefill-decode-interval=2"});
  EXPECT_THAT(read.arguments, ElementsAre("--model=m", "--json"));
  EXPECT_THAT(read.notes, SizeIs(4));
  EXPECT_THAT(read.notes[0], HasSubstr("--trust-remote-code is ignored: no code"));
  EXPECT_FALSE(read.refused);
}

TEST(LaunchFlags, AreRefusedWithTheReason) {
  const auto error = refusal({"serve", "--model", "m", "--lora-paths", "a=b", "c=d"});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->id(), errors::kLaunchFlagRefused);
  EXPECT_EQ(error->message(), "--lora-paths is not served: this build serves no LoRA adapters.");
  EXPECT_EQ(error->field("param"), "--lora-paths");
}

TEST(LaunchFlags, AreAllToldByCheckBeforeItRefuses) {
  const CommandLine line =
      parse_command_line({"check", "m", "--dp-size", "8", "--enable-dp-attention"});
  ASSERT_TRUE(line.options.refused_flag);
  EXPECT_EQ(line.options.refused_flag->field("flag"), "--dp-size");
  EXPECT_THAT(line.notes, SizeIs(2));
}

TEST(LaunchFlags, PassWhereTheyAskForNothing) {
  const LaunchArguments read =
      read_launch_flags({"--pp-size", "1", "--nnodes=1", "--disaggregation-mode", "null",
                         "--load-format", "safetensors"});
  EXPECT_FALSE(read.refused);
  EXPECT_THAT(read.notes, IsEmpty());
  EXPECT_TRUE(read_launch_flags({"--pp-size", "2"}).refused);
}

TEST(LaunchFlags, ThatContradictAreBothNamed) {
  expect_contradiction({"check", "m", "--tp", "2", "--tensor-parallel-size", "4"}, "--tp 2",
                       "--tensor-parallel-size 4");
  expect_contradiction({"serve", "--model", "a", "--model-path", "b"}, "--model a",
                       "--model-path b");
  expect_contradiction(
      {"serve", "--disable-shared-experts-fusion", "--enforce-shared-experts-fusion"},
      "--disable-shared-experts-fusion", "--enforce-shared-experts-fusion");
  expect_contradiction({"check", "a", "--model", "b"}, "--model b", "the argument a");
  expect_contradiction({"check", "a", "--hardware", "h100", "--simulate-hardware", "b200"},
                       "--hardware h100", "--simulate-hardware b200");
  const auto cache = refusal({"serve", "--disable-radix-cache", "--enable-hierarchical-cache"});
  ASSERT_TRUE(cache);
  EXPECT_EQ(cache->id(), errors::kHierarchicalNoRadix);
  EXPECT_THAT(cache->message(), HasSubstr("enable-hierarchical-cache and disable-radix-cache"));
}

TEST(LaunchFlags, MayRepeatAndAgree) {
  EXPECT_EQ(parse_command_line({"check", "m", "--tp", "2", "--tp", "4"}).options.engine.tp, 4);
  EXPECT_EQ(parse_command_line({"check", "m", "--tp=2", "--tp-size=2"}).options.engine.tp, 2);
  EXPECT_EQ(parse_command_line({"check", "m", "--model", "m"}).options.engine.model_path, "m");
}

TEST(LaunchFlags, NeedTheirValues) {
  EXPECT_EQ(refusal({"serve", "--mem-fraction-static"})->id(), errors::kMissingFlagValue);
  EXPECT_EQ(refusal({"serve", "--tp", "--port", "3"})->id(), errors::kMissingFlagValue);
  EXPECT_EQ(refusal({"serve", "--trust-remote-code=yes"})->id(), errors::kInvalidFlagValue);
}

TEST(LaunchFlags, ReadNumbersAsSglangWritesThem) {
  const auto context = [](const std::string& text) {
    return parse_command_line({"serve", "--context-length", text}).options.engine.context_length;
  };
  EXPECT_EQ(context("128k"), 128000);
  EXPECT_EQ(context("25.6k"), 25600);
  EXPECT_EQ(context("128Ki"), 131072);
  EXPECT_EQ(context("4096"), 4096);
  for (const char* wrong : {"1.5Ki", "k", "1KI", "1kk", "99999999999999T", "-1k"}) {
    const auto error = refusal({"serve", "--context-length", wrong});
    ASSERT_TRUE(error) << wrong;
    EXPECT_EQ(error->id(), errors::kInvalidFlagValue) << wrong;
  }
}

TEST(LaunchFlags, ChunksCanBeSwitchedOff) {
  const auto chunk = [](const std::string& value) {
    return parse_command_line({"serve", "--chunked-prefill-size", value})
        .options.engine.chunked_prefill_size;
  };
  EXPECT_EQ(chunk("-1"), 1 << 24);
  EXPECT_EQ(chunk("512"), 512);
  EXPECT_EQ(refusal({"serve", "--chunked-prefill-size", "-2"})->id(), errors::kInvalidFlagValue);
}

TEST(LaunchLine, IsFoundHoweverItIsPasted) {
  const std::vector<std::string> flags = {"--model-path", "deepseek-ai/DeepSeek-V3",
                                          "--attention-backend", "trtllm_mha"};
  const std::string text = "--model-path deepseek-ai/DeepSeek-V3 --attention-backend trtllm_mha";
  const auto with = [&](std::vector<std::string> before) {
    before.insert(before.end(), flags.begin(), flags.end());
    return before;
  };
  for (const std::vector<std::string>& line : {
           with({"--", "python", "-m", "sglang.launch_server"}),
           with({"--", "python3", "-m", "sglang.launch_server"}),
           with({"--", "/usr/bin/python3.11", "-u", "-m", "sglang.launch_server"}),
           with({"--", "sglang", "serve"}),
           with({"python", "-m", "sglang.launch_server"}),
           with({"--", "CUDA_VISIBLE_DEVICES=0", "SGLANG_X=1", "python", "-m",
                 "sglang.launch_server"}),
           with({"--", "docker", "run", "--gpus", "all", "image", "python3", "-m",
                 "sglang.launch_server"}),
           with({"--", "python", "sglang/launch_server.py"}),
           {"--", "python -m sglang.launch_server " + text},
           {"--",
            "python -m sglang.launch_server \\\n  --model-path deepseek-ai/DeepSeek-V3 \\\n"
            "  --attention-backend 'trtllm_mha' > log.txt 2>&1 &"},
           {"--", "python", "-m", "sglang.launch_server", "\\", "--model-path",
            "deepseek-ai/DeepSeek-V3", "\\\n", "--attention-backend=trtllm_mha"},
       }) {
    std::vector<std::string> arguments = {"check", "--hardware", "b200"};
    arguments.insert(arguments.end(), line.begin(), line.end());
    const Options options = parse_command_line(arguments).options;
    EXPECT_EQ(options.engine.model_path, "deepseek-ai/DeepSeek-V3") << line[1];
    EXPECT_EQ(options.engine.attention_backend, "trtllm_mha") << line[1];
    EXPECT_EQ(options.hardware, "b200") << line[1];
  }
}

TEST(LaunchLine, TellsOfVariablesThatItLeavesOut) {
  const CommandLine line =
      parse_command_line({"check", "--", "SGLANG_FLAG=1", "CUDA_VISIBLE_DEVICES=2", "python", "-m",
                          "sglang.launch_server", "--model", "m"});
  EXPECT_THAT(line.notes,
              ElementsAre("SGLANG_FLAG is ignored: quern reads none of SGLang's variables",
                          HasSubstr("CUDA_VISIBLE_DEVICES is ignored: set it before quern")));
}

TEST(LaunchLine, IsNotSeenWhereThereIsNone) {
  EXPECT_FALSE(strip_launcher({"--model", "m"}).found);
  EXPECT_EQ(refusal({"check", "--", "python", "-m", "vllm"})->id(), errors::kUnexpectedArgument);
  EXPECT_EQ(parse_command_line({"check", "m"}).options.engine.model_path, "m");
}

TEST(ShellWords, AreSplitAsAShellDoes) {
  EXPECT_THAT(shell_words(R"(a 'b c' "d \"e\" \\" f\ g)"),
              ElementsAre("a", "b c", "d \"e\" \\", "f g"));
  EXPECT_THAT(shell_words("a \\\n b\\\r\n c"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(shell_words("a '' b"), ElementsAre("a", "", "b"));
  EXPECT_THAT(shell_words("a b | tee log"), ElementsAre("a", "b"));
  EXPECT_THAT(shell_words(""), IsEmpty());
  EXPECT_THAT(shell_words("'open"), ElementsAre("open"));
}

}  // namespace
}  // namespace quern::cli
