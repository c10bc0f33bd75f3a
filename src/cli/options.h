// Every flag of the program, once: name, default and help stand in options.cpp, the value here.
// main.cpp fills an Options and hands it to the command's function (commands.h). Flag names and
// defaults are SGLang's.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "load/options.h"
#include "quern/engine.h"
#include "server/http_server.h"

namespace quern::cli {

constexpr std::int64_t whole_seconds(std::chrono::milliseconds time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time).count();
}

// Flags of `bench serve` before settle_load() makes load::Options of them.
struct LoadFlags {
  std::string base_url;  // "": from host and port
  std::string backend = "sglang-oai-chat";
  std::string dataset;  // "": random, or openai where a file is given
  std::string rate;     // "": inf
  bool disable_stream = false, disable_ignore_eos = false, details = false;
  std::int64_t timeout_s = 600;
  std::optional<double> range_ratio;
  std::optional<std::int64_t> groups, prefix_len, question_len, answer_len;
  std::string json_file, plot_file;
};

struct Options {
  EngineOptions engine;  // --model … --threads

  // serve
  std::string host = server::ServerOptions().host;
  std::int64_t port = server::ServerOptions().port;  // 0: any free one
  std::string api_key;                               // "": every route is open
  // Of one HTTP request.
  std::int64_t max_body_bytes = static_cast<std::int64_t>(server::ServerOptions().max_body_bytes);
  std::int64_t idle_timeout_s = whole_seconds(server::ServerOptions().idle_timeout);
  // For running requests after SIGTERM.
  std::int64_t drain_timeout_s = whole_seconds(server::ServerOptions().drain_limit);

  // every command
  std::string model;  // as an argument without a flag; ends in engine.model_path
  std::string log_level = "info";
  bool json = false;

  // generate and chat. Unset sampling values: the model's generation_config.json, else quern's.
  std::string prompt;         // the user's words
  std::string system_prompt;  // "": the chat template's own
  bool raw = false;           // the prompt as it is, without the chat template
  std::int64_t max_tokens = -1;
  std::optional<double> temperature, top_p, min_p;
  std::optional<std::int64_t> top_k;
  std::optional<std::uint64_t> seed;

  // bench
  std::int64_t bench_prefill = 512;  // prompt tokens
  std::int64_t bench_decode = 128;   // new tokens
  std::int64_t bench_depth = 0;      // tokens in the cache before the measured prompt
  std::int64_t bench_batch = 1;      // equal requests at once
  std::int64_t bench_repeats = 3;
  std::int64_t bench_kernel_repeats = 15;
  std::int64_t bench_scheduler_repeats = 1000;
  std::string bench_only;  // part of a kernel's name; "": all
  std::int64_t bench_requests = 64;
  std::int64_t bench_prompt_tokens = 128, bench_new_tokens = 128;  // of each request
  std::int64_t bench_concurrency = 0;                              // 0: all at once
  load::Options load;                                              // bench serve
  LoadFlags load_flags;
  std::string file;  // the text of bench perplexity, the conversation of template

  // template
  bool template_tokens = false;       // print the token ids too
  std::int64_t template_repeats = 0;  // render so often, to tell the time

  // tokenize
  std::optional<std::string> text;        // unset and "-": standard input
  std::optional<std::string> decode_ids;  // the other way round: these to a text
  bool no_special_tokens = false;         // none put around, none written

  // explain and catalog
  std::string explain_text;  // an id, a slug or a pasted text; "-": standard input
  std::string search;        // words
  bool explain_list = false;
  std::string export_folder;

  // check
  std::string hardware;  // a named machine; "": this one
  // A flag of SGLang's that asks for what this build lacks: `check` answers, then tells of it.
  std::optional<Error> refused_flag;

  // backends
  bool markdown = false;
};

enum class Command {
  kNone,  // only `text` is to be printed
  kServe,
  kGenerate,
  kChat,
  kBenchLatency,
  kBenchPerplexity,
  kBenchKernels,
  kBenchScheduler,
  kBenchThroughput,
  kBenchServe,
  kBenchTokenizer,
  kBenchGrammar,
  kInspect,
  kTemplate,
  kTokenize,
  kCheck,
  kBackends,
  kExplain,
  kCatalogServe,
  kCatalogExport,
};

struct CommandLine {
  Command command = Command::kNone;
  Options options;
  std::string text;                // of --help and --version
  std::vector<std::string> notes;  // one line each, on flags of SGLang's that were left out
};

// `arguments` without the program's name. Every value is range-checked; the model path stays empty
// where none was given. Throws: the ids of catalog/entries/cli, kInvalidFlagValue.
CommandLine parse_command_line(const std::vector<std::string>& arguments);

// The sampling flags of generate and chat; what was not given keeps the engine's default.
SamplingParams sampling_of(const Options& options, SamplingParams defaults);

// Where the default model stands: QUERN_DEFAULT_MODEL, else below XDG_CACHE_HOME or ~/.cache.
// Throws: kDefaultModelMissing where no file is there, with the command that fetches it.
std::string default_model_path();

}  // namespace quern::cli
