#include "cli/options.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/errors/base.h"
#include "base/errors/cli.h"
#include "base/nearest.h"

namespace quern::cli {
namespace {

// The error that a command line is refused with.
std::optional<Error> refusal(const std::vector<std::string>& arguments) {
  try {
    parse_command_line(arguments);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

void expect_refused(const std::vector<std::string>& arguments, ErrorId id,
                    const std::string& message) {
  const auto error = refusal(arguments);
  ASSERT_TRUE(error) << arguments.back();
  EXPECT_EQ(error->id(), id);
  EXPECT_EQ(error->message(), message);
}

TEST(CommandLine, ReadsEveryServeFlag) {
  const CommandLine line = parse_command_line({"serve",
                                               "--model-path",
                                               "m.gguf",
                                               "--served-model-name",
                                               "m",
                                               "--host",
                                               "::1",
                                               "--port",
                                               "0",
                                               "--dtype",
                                               "float32",
                                               "--context-length",
                                               "512",
                                               "--max-running-requests",
                                               "4",
                                               "--max-total-tokens",
                                               "4096",
                                               "--chunked-prefill-size",
                                               "64",
                                               "--page-size",
                                               "32",
                                               "--kv-cache-dtype",
                                               "float32",
                                               "--attention-backend",
                                               "torch_native",
                                               "--random-seed",
                                               "7",
                                               "--api-key",
                                               "k",
                                               "--log-level",
                                               "debug",
                                               "--no-repack",
                                               "--threads=2"});
  EXPECT_EQ(line.command, Command::kServe);
  const Options& o = line.options;
  EXPECT_EQ(o.engine.model_path, "m.gguf");
  EXPECT_EQ(o.engine.served_model_name, "m");
  EXPECT_EQ(o.host, "::1");
  EXPECT_EQ(o.port, 0);
  EXPECT_EQ(o.engine.dtype, "float32");
  EXPECT_TRUE(o.engine.no_repack);
  EXPECT_EQ(o.engine.context_length, 512);
  EXPECT_EQ(o.engine.max_running_requests, 4);
  EXPECT_EQ(o.engine.max_total_tokens, 4096);
  EXPECT_EQ(o.engine.chunked_prefill_size, 64);
  EXPECT_EQ(o.engine.page_size, 32);
  EXPECT_EQ(o.engine.kv_cache_dtype, "float32");
  EXPECT_EQ(o.engine.attention_backend, "torch_native");
  EXPECT_EQ(o.engine.random_seed, 7u);
  EXPECT_EQ(o.api_key, "k");
  EXPECT_EQ(o.log_level, "debug");
  EXPECT_EQ(o.engine.threads, 2);
}

TEST(CommandLine, KeepsDefaultsWhereNothingIsSaid) {
  const CommandLine line = parse_command_line({"serve"});
  EXPECT_EQ(line.options.host, "127.0.0.1");
  EXPECT_EQ(line.options.port, 30000);
  EXPECT_EQ(line.options.engine.model_path, "");
  EXPECT_FALSE(line.options.temperature.has_value());
}

TEST(CommandLine, ReadsEveryCommand) {
  EXPECT_EQ(parse_command_line({"generate", "serve"}).options.prompt, "serve");
  EXPECT_EQ(parse_command_line({"generate", "[a, b]"}).options.prompt, "[a, b]");
  EXPECT_EQ(parse_command_line({"generate", "--", "-x"}).options.prompt, "-x");
  EXPECT_EQ(parse_command_line({"generate", "hi", "--temperature", "0"}).options.temperature, 0.0);
  EXPECT_EQ(parse_command_line({"chat", "--top-k", "-1"}).options.top_k, -1);
  const CommandLine latency = parse_command_line({"bench", "latency", "--decode", "8", "--json"});
  EXPECT_EQ(latency.command, Command::kBenchLatency);
  EXPECT_EQ(latency.options.bench_decode, 8);
  EXPECT_TRUE(latency.options.json);
  const CommandLine perplexity = parse_command_line({"bench", "perplexity", "text.txt"});
  EXPECT_EQ(perplexity.command, Command::kBenchPerplexity);
  EXPECT_EQ(perplexity.options.file, "text.txt");
  const CommandLine kernels = parse_command_line({"bench", "kernels", "--only", "head"});
  EXPECT_EQ(kernels.command, Command::kBenchKernels);
  EXPECT_EQ(kernels.options.bench_only, "head");
  const CommandLine throughput =
      parse_command_line({"bench", "throughput", "--new-tokens", "3", "--concurrency", "2"});
  EXPECT_EQ(throughput.command, Command::kBenchThroughput);
  EXPECT_EQ(throughput.options.bench_new_tokens, 3);
  EXPECT_EQ(throughput.options.bench_concurrency, 2);
  EXPECT_EQ(parse_command_line({"inspect", "m.gguf"}).options.engine.model_path, "m.gguf");
  EXPECT_EQ(parse_command_line({"check", "folder"}).options.engine.model_path, "folder");
}

TEST(CommandLine, ReadsTheCatalogueCommands) {
  const CommandLine explain = parse_command_line({"explain", "-", "--model", "m", "--json"});
  EXPECT_EQ(explain.command, Command::kExplain);
  EXPECT_EQ(explain.options.explain_text, "-");
  EXPECT_EQ(explain.options.engine.model_path, "m");
  EXPECT_EQ(parse_command_line({"explain", "[TP0] --a: b"}).options.explain_text, "[TP0] --a: b");
  EXPECT_EQ(parse_command_line({"explain", "--", "--a: b"}).options.explain_text, "--a: b");
  EXPECT_TRUE(parse_command_line({"explain", "--list"}).options.explain_list);
  EXPECT_EQ(parse_command_line({"explain", "--search", "page size"}).options.search, "page size");
  const CommandLine serve =
      parse_command_line({"catalog", "serve", "--host", "::1", "--port", "0"});
  EXPECT_EQ(serve.command, Command::kCatalogServe);
  EXPECT_EQ(serve.options.port, 0);
  EXPECT_EQ(parse_command_line({"catalog", "export", "d"}).options.export_folder, "d");
  EXPECT_EQ(refusal({"catalog", "export"})->id(), errors::kMissingArgument);
  EXPECT_EQ(refusal({"catalog"})->id(), errors::kMissingCommand);
  EXPECT_EQ(refusal({"explain"})->id(), errors::kMissingArgument);
  EXPECT_EQ(refusal({"catalog", "serve", "--model", "m"})->id(), errors::kUnknownFlag);
}

TEST(CommandLine, TakesSamplingFlagsOverTheDefaults) {
  const SamplingParams sampling = sampling_of(
      parse_command_line({"chat", "--temperature", "0", "--seed", "5", "--max-tokens", "9"})
          .options,
      SamplingParams{.top_k = 40});
  EXPECT_EQ(sampling.top_k, 40);
  EXPECT_EQ(sampling.temperature, 0.0);
  EXPECT_EQ(sampling.seed, 5u);
  EXPECT_EQ(sampling.max_tokens, 9);
  EXPECT_EQ(sampling.top_p, SamplingParams().top_p);
}

TEST(CommandLine, SuggestsTheNearestFlag) {
  expect_refused({"serve", "--atention-backend", "fa3"}, errors::kUnknownFlag,
                 "--atention-backend is not a flag of `quern serve`; did you mean "
                 "--attention-backend?");
  expect_refused({"bench", "latency", "--prefil=4"}, errors::kUnknownFlag,
                 "--prefil is not a flag of `quern bench latency`; did you mean --prefill?");
  expect_refused({"serve", "--zzzzzzzzzzzz"}, errors::kUnknownFlag,
                 "--zzzzzzzzzzzz is not a flag of `quern serve`.");
  expect_refused({"--port", "1"}, errors::kUnknownFlag, "--port is not a flag of `quern`.");
}

TEST(CommandLine, SuggestsTheNearestCommand) {
  expect_refused({"srve"}, errors::kUnknownCommand,
                 "'srve' is not a command of `quern`; did you mean serve?");
  expect_refused({"bench", "latncy"}, errors::kUnknownCommand,
                 "'latncy' is not a command of `quern bench`; did you mean latency?");
}

TEST(CommandLine, RefusesWhatIsMissingOrTooMuch) {
  expect_refused({"bench"}, errors::kMissingCommand,
                 "`quern bench` needs a command: latency, perplexity, throughput, kernels, scheduler, serve, tokenizer, grammar.");
  expect_refused({"generate"}, errors::kMissingArgument,
                 "`quern generate` needs a prompt in quotes.");
  expect_refused({"generate", "Hello", "there"}, errors::kUnexpectedArgument,
                 "`quern generate` does not expect the argument 'there'.");
  expect_refused({"serve", "--port"}, errors::kMissingFlagValue, "--port needs a value.");
  expect_refused({"generate", "hi", "--temperature="}, errors::kMissingFlagValue,
                 "--temperature needs a value.");
  EXPECT_EQ(refusal({})->id(), errors::kMissingCommand);
}

TEST(CommandLine, NamesTheSwitchThatGotAValue) {
  expect_refused({"generate", "--raw=foo", "hi"}, errors::kInvalidFlagValue,
                 "--raw: 'foo' is not a valid value. Allowed: no value, true or false.");
  expect_refused({"explain", "--list", "--json=q", "x"}, errors::kInvalidFlagValue,
                 "--json: 'q' is not a valid value. Allowed: no value, true or false.");
  EXPECT_TRUE(parse_command_line({"generate", "--raw=true", "hi"}).options.raw);
}

TEST(CommandLine, TakesNoFlagsBehindTheSeparator) {
  expect_refused({"generate", "--", "x", "--max-tokens", "2"}, errors::kUnexpectedArgument,
                 "`quern generate` does not expect the argument '--max-tokens'.");
  expect_refused({"chat", "--", "--top-p"}, errors::kUnexpectedArgument,
                 "`quern chat` does not expect the argument '--top-p'.");
  expect_refused({"generate", "--max-token", "--", "x"}, errors::kUnknownFlag,
                 "--max-token is not a flag of `quern generate`; did you mean --max-tokens?");
}

TEST(CommandLine, HasTheServersDefaults) {
  const Options options;
  const server::ServerOptions server;
  EXPECT_EQ(options.host, server.host);
  EXPECT_EQ(options.port, server.port);
  EXPECT_EQ(options.max_body_bytes, 32 * 1024 * 1024);
  EXPECT_EQ(server.max_body_bytes, 32u * 1024 * 1024);
  EXPECT_EQ(options.idle_timeout_s, 60);
  EXPECT_EQ(server.idle_timeout, std::chrono::seconds(60));
  EXPECT_EQ(options.drain_timeout_s, 30);
  EXPECT_EQ(server.drain_limit, std::chrono::seconds(30));
}

TEST(CommandLine, RefusesValuesOutOfRange) {
  const std::vector<std::vector<std::string>> bad = {
      {"serve", "--port", "70000"},
      {"serve", "--port", "-1"},
      {"serve", "--port", "1.5"},
      {"serve", "--port", ""},
      {"serve", "--port", "99999999999999999999"},
      {"serve", "--port", "3e4"},
      {"serve", "--threads", "0"},
      {"serve", "--page-size", "0"},
      {"serve", "--context-length", "-5"},
      {"serve", "--dtype", "int8"},
      {"serve", "--dtype", "FLOAT32"},
      {"serve", "--log-level", "loud"},
      {"serve", "--attention-backend", ""},
      {"chat", "--temperature", "-1"},
      {"chat", "--temperature", "nan"},
      {"chat", "--top-p", "0"},
      {"chat", "--top-p", "1.01"},
      {"chat", "--min-p", "2"},
      {"bench", "latency", "--prefill", "0"},
      {"bench", "throughput", "--requests", "0"},
      {"bench", "kernels", "--only", ""},
  };
  for (const auto& arguments : bad) {
    const auto error = refusal(arguments);
    ASSERT_TRUE(error) << arguments.back();
    EXPECT_EQ(error->id(), errors::kInvalidFlagValue) << error->message();
  }
  EXPECT_EQ(refusal({"serve", "--port", "70000"})->message(),
            "--port: '70000' is not a valid value. Allowed: an integer from 0 to 65535.");
}

TEST(CommandLine, LastOfRepeatedFlagsCounts) {
  EXPECT_EQ(parse_command_line({"serve", "--port", "1", "--port", "2"}).options.port, 2);
}

TEST(CommandLine, TellsHelpAndVersion) {
  EXPECT_EQ(parse_command_line({"--version"}).text.substr(0, 6), "quern ");
  EXPECT_EQ(parse_command_line({"--help"}).command, Command::kNone);
  const std::string help = parse_command_line({"serve", "--help"}).text;
  EXPECT_NE(help.find("--attention-backend"), help.npos);
  EXPECT_NE(help.find("30000"), help.npos);
}

// Sets an environment variable (null: unsets it) for the life of the object.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~Variable() { set(old_ ? old_->c_str() : nullptr); }

 private:
  void set(const char* value) {
    if (value) {
      setenv(name_, value, 1);
    } else {
      unsetenv(name_);
    }
  }
  const char* name_;
  std::optional<std::string> old_;
};

TEST(DefaultModel, TellsHowToFetchItWhereItIsMissing) {
  Variable own("QUERN_DEFAULT_MODEL", nullptr), cache("XDG_CACHE_HOME", "/nonexistent");
  try {
    default_model_path();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), errors::kDefaultModelMissing);
    EXPECT_NE(error.message().find("/nonexistent/quern/models/"), std::string::npos);
    EXPECT_NE(error.field("hint").find("make model"), std::string::npos);
  }
}

TEST(DefaultModel, NeedsNoHome) {
  Variable own("QUERN_DEFAULT_MODEL", nullptr), cache("XDG_CACHE_HOME", nullptr);
  Variable home("HOME", nullptr);
  EXPECT_THROW(default_model_path(), Error);
}

TEST(DefaultModel, IsNamedByTheEnvironment) {
  const std::string path = testing::TempDir() + "/default_model.gguf";
  std::ofstream(path) << "GGUF";
  Variable own("QUERN_DEFAULT_MODEL", path.c_str());
  EXPECT_EQ(default_model_path(), path);
  std::filesystem::remove(path);
}

TEST(Nearest, FindsMistypedNamesOnly) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(nearest("flashinfr", {"flashmla", "flashinfer"}), "flashinfer");
  EXPECT_EQ(nearest("trtllm_mla_", {"trtllm_mha", "trtllm_mla"}), "trtllm_mla");
  EXPECT_EQ(nearest("gpu", {"flashinfer", "triton"}), "");
  EXPECT_EQ(nearest("", {"a"}), "");
  EXPECT_EQ(nearest(std::string(1000, 'x'), {"x"}), "");
}

TEST(CommandLine, SettlesTheFlagsOfALoad) {
  const auto load = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"bench", "serve"});
    return parse_command_line(flags).options.load;
  };
  EXPECT_EQ(load({}).base_url, "http://127.0.0.1:30000");
  EXPECT_EQ(load({"--host", "::1", "--port", "8"}).base_url, "http://[::1]:8");
  EXPECT_EQ(load({"--base-url", "http://h:9/v1/"}).base_url, "http://h:9");
  EXPECT_EQ(load({}).workload, load::Workload::kRandom);
  EXPECT_EQ(load({"--dataset-path", "x"}).workload, load::Workload::kFile);
  EXPECT_EQ(load({"--backend", "sglang"}).api, load::Api::kGenerate);
  EXPECT_EQ(load({"--backend", "vllm"}).api, load::Api::kCompletions);
  EXPECT_FALSE(load({"--disable-ignore-eos"}).ignore_eos);
  EXPECT_EQ(load({"--request-rate", "2.5"}).request_rate, 2.5);
  EXPECT_FALSE(std::isfinite(load({"--request-rate", "inf"}).request_rate));
  EXPECT_EQ(load({"--dataset-name", "multi-turn"}).prefix_len, 0);
  const load::Options shared = load({"--dataset-name", "generated-shared-prefix",
                                     "--gsp-question-len", "7", "--gsp-output-len", "3"});
  EXPECT_EQ(shared.prefix_len, 512);
  EXPECT_EQ(shared.input_len, 7);
  EXPECT_EQ(shared.output_len, 3);
  for (const std::vector<std::string>& bad : {std::vector<std::string>{"--base-url", "https://h"},
                                              {"--request-rate", "-1"},
                                              {"--extra-request-body", "[1]"},
                                              {"--api-key", "a b"},
                                              {"--timeout", "0"}}) {
    std::vector<std::string> arguments = {"bench", "serve"};
    arguments.insert(arguments.end(), bad.begin(), bad.end());
    const auto error = refusal(arguments);
    ASSERT_TRUE(error) << bad[0];
    EXPECT_EQ(error->id(), errors::kInvalidFlagValue) << bad[0];
    EXPECT_EQ(error->field("param"), bad[0]);
  }
  EXPECT_EQ(refusal({"bench", "serve", "--dataset-name", "openai"})->id(),
            errors::kMissingArgument);
  EXPECT_EQ(refusal({"bench", "serve", "--dataset-name", "random", "--dataset-path", "x"})->id(),
            errors::kContradictoryFlags);
}

}  // namespace
}  // namespace quern::cli
