#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <system_error>

#include "base/error.h"
#include "base/errors/base.h"
#include "base/errors/cli.h"
#include "base/nearest.h"

namespace quern::cli {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

[[noreturn]] void refuse(const std::string& flag, const std::string& value,
                         const std::string& allowed) {
  throw Error(errors::kInvalidFlagValue,
              {{"flag", flag}, {"value", value}, {"allowed", allowed}, {"param", flag}});
}

template <typename T>
std::optional<T> parse_number(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc() || stop != end) return std::nullopt;
  return value;
}

// Declares flags on one command. Values are parsed and checked here and not by CLI11, so that a bad
// one is an error of the catalogue.
class Flags {
 public:
  explicit Flags(CLI::App* app) : app_(app) {}

  void text(const std::string& names, std::string* target, const std::string& help,
            const std::string& word = "TEXT") {
    declare(names, help, word, target->empty() ? "" : *target,
            [target, flag = first_of(names)](const std::string& value) {
              if (value.empty()) refuse(flag, value, "a text that is not empty");
              *target = value;
            });
  }

  void choice(const std::string& names, std::string* target, std::vector<std::string> allowed,
              const std::string& help) {
    std::string list;
    for (const std::string& word : allowed) list += (list.empty() ? "" : ", ") + word;
    declare(names, help + " (" + list + ")", "WORD", *target,
            [target, allowed, list, flag = first_of(names)](const std::string& value) {
              for (const std::string& word : allowed) {
                if (word != value) continue;
                *target = value;
                return;
              }
              refuse(flag, value, list);
            });
  }

  // Target: std::int64_t, int, std::uint64_t or an optional of these.
  template <typename Target>
  void integer(const std::string& names, Target* target, std::int64_t low, std::int64_t high,
               const std::string& help, const std::string& shown_default = "") {
    declare(names, help, "N", shown_default,
            [target, low, high, flag = first_of(names)](const std::string& value) {
              const auto number = parse_number<std::int64_t>(value);
              if (!number || *number < low || *number > high) {
                refuse(flag, value,
                       high == kNoLimit ? fmt::format("an integer of {} or more", low)
                                        : fmt::format("an integer from {} to {}", low, high));
              }
              *target = *number;
            });
  }

  // A number in [low, high], or in (low, high] with `open`.
  void real(const std::string& names, std::optional<double>* target, bool open, double low,
            double high, const std::string& help) {
    declare(names, help, "X", "",
            [target, open, low, high, flag = first_of(names)](const std::string& value) {
              const auto number = parse_number<double>(value);
              if (!number || !std::isfinite(*number) || *number > high || *number < low ||
                  (open && *number == low)) {
                refuse(flag, value,
                       fmt::format("a number {} {} and at most {}", open ? "above" : "from", low,
                                   high));
              }
              *target = *number;
            });
  }

  void on(const std::string& name, bool* target, const std::string& help) {
    app_->add_flag(name, *target, help);
  }

  void positional(const std::string& name, std::string* target, const std::string& help) {
    app_->add_option(name, *target, help);
  }

 private:
  static std::string first_of(const std::string& names) { return names.substr(0, names.find(',')); }

  template <typename F>
  void declare(const std::string& names, const std::string& help, const std::string& word,
               const std::string& shown_default, F set) {
    app_->add_option_function<std::string>(names, set, help)
        ->type_name(word)
        ->default_str(shown_default)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }

  CLI::App* app_;
};

void add_model(Flags flags, Options* o) {
  flags.text("--model,--model-path", &o->engine.model_path,
             "GGUF file or Hugging Face folder; without it the default model", "PATH");
  flags.choice("--log-level", &o->log_level, {"debug", "info", "warning", "error"},
               "What is logged to stderr");
}

void add_engine(Flags flags, Options* o) {
  EngineOptions& e = o->engine;
  flags.choice("--dtype", &e.dtype, {"auto", "bfloat16", "float32"}, "Type of the activations");
  flags.text("--kv-cache-dtype", &e.kv_cache_dtype, "Type of the KV cache, e.g. bf16, float32",
             "WORD");
  flags.text("--attention-backend", &e.attention_backend,
             "Attention backend; without it the first that fits (`quern check` shows them)",
             "NAME");
  flags.integer("--context-length", &e.context_length, 1, kNoLimit,
                "Tokens of prompt and answer together", "the model's");
  flags.integer("--page-size", &e.page_size, 1, 65536, "Tokens in a page of the KV cache",
                "the backend's");
  flags.integer("--max-running-requests", &e.max_running_requests, 1, 1'000'000,
                "Requests that run at once", "by memory");
  flags.integer("--max-total-tokens", &e.max_total_tokens, 1, kNoLimit, "Tokens in the KV cache",
                "by memory");
  flags.integer("--chunked-prefill-size", &e.chunked_prefill_size, 1, 1 << 24,
                "Prompt tokens in one step", "by model");
  flags.integer("--random-seed", &e.random_seed, 0, kNoLimit,
                "Seed of requests that bring none; 0: from the clock", "0");
  flags.integer("--threads", &e.threads, 1, 4096, "Compute threads", "the usable CPUs");
  flags.text("--speculative-algorithm", &e.speculative_algorithm,
             "Speculative decoding, e.g. NGRAM, EAGLE", "WORD");
  flags.integer("--speculative-eagle-topk", &e.speculative_eagle_topk, 1, 1 << 16,
                "Branches of speculative decoding");
}

void add_sampling(Flags flags, Options* o) {
  flags.integer("--max-tokens", &o->max_tokens, 1, kNoLimit, "Most new tokens",
                "as the context holds; 512 in generate");
  flags.real("--temperature", &o->temperature, false, 0, 1e6, "0 is greedy");
  flags.integer("--top-k", &o->top_k, -1, kNoLimit, "Only the k likeliest tokens; 0 and -1: all");
  flags.real("--top-p", &o->top_p, true, 0, 1, "Only the likeliest tokens of this mass");
  flags.real("--min-p", &o->min_p, false, 0, 1,
             "Only tokens at least this likely, as a share of the likeliest");
  flags.integer("--seed", &o->seed, 0, kNoLimit, "Equal seeds give equal texts");
  flags.text("--system", &o->system_prompt, "System prompt in place of the template's own");
}

void add_address(Flags flags, Options* o) {
  flags.text("--host", &o->host, "Address to listen on", "ADDRESS");
  flags.integer("--port", &o->port, 0, 65535, "Port to listen on; 0: any free one", "30000");
}

void add_serve(Flags flags, Options* o) {
  flags.text("--served-model-name", &o->engine.served_model_name, "The model's name in the API");
  add_address(flags, o);
  flags.text("--api-key", &o->api_key, "Key that every request but /health must bring", "KEY");
  flags.integer("--max-body-bytes", &o->max_body_bytes, 1, std::int64_t{1} << 31,
                "Largest HTTP request", std::to_string(o->max_body_bytes));
  flags.integer("--idle-timeout", &o->idle_timeout_s, 1, 86400,
                "Seconds an idle connection may stay", std::to_string(o->idle_timeout_s));
  flags.integer("--drain-timeout", &o->drain_timeout_s, 0, 86400,
                "Seconds that running requests get after SIGTERM",
                std::to_string(o->drain_timeout_s));
}

void add_latency(Flags flags, Options* o) {
  flags.integer("--prefill", &o->bench_prefill, 1, 1 << 24, "Prompt tokens", "512");
  flags.integer("--decode", &o->bench_decode, 1, 1 << 24, "New tokens", "128");
  flags.integer("--depth", &o->bench_depth, 0, 1 << 24, "Tokens in the cache before the prompt",
                "0");
  flags.integer("--batch", &o->bench_batch, 1, 4096, "Equal requests at once", "1");
  flags.integer("--repeats", &o->bench_repeats, 1, 10000, "Measured runs; the median counts", "3");
}

void add_explain(Flags flags, Options* o) {
  flags.positional("text", &o->explain_text,
                   "An id, a slug or a pasted log line or traceback; -: standard input");
  flags.text("--search", &o->search, "List the entries that hold these words", "WORDS");
  flags.on("--list", &o->explain_list, "List every entry");
  flags.on("--json", &o->json, "Print one JSON object");
  flags.text("--hardware", &o->hardware, "With --model: a named machine in place of this one",
             "NAME");
}

struct Declared {
  Command command;
  CLI::App* app;
};

std::vector<Declared> declare_commands(CLI::App* program, Options* o) {
  std::vector<Declared> all;
  const auto add = [&](CLI::App* parent, const char* name, const char* help, Command command) {
    CLI::App* app = parent->add_subcommand(name, help)->allow_extras();
    add_model(Flags(app), o);
    all.push_back({command, app});
    return app;
  };
  CLI::App* serve =
      add(program, "serve", "Serve the model over an OpenAI-compatible HTTP API", Command::kServe);
  add_engine(Flags(serve), o);
  add_serve(Flags(serve), o);

  CLI::App* generate = add(program, "generate", "Answer one prompt on stdout", Command::kGenerate);
  Flags(generate).positional("prompt", &o->prompt, "The prompt");
  Flags(generate).on("--raw", &o->raw, "Continue the prompt as it is, without the chat template");
  add_engine(Flags(generate), o);
  add_sampling(Flags(generate), o);
  Flags(generate).on("--json", &o->json, "Print one JSON object");

  CLI::App* chat = add(program, "chat", "Chat in the terminal", Command::kChat);
  add_engine(Flags(chat), o);
  add_sampling(Flags(chat), o);

  CLI::App* bench = program->add_subcommand("bench", "Measure speed or quality")->allow_extras();
  bench->require_subcommand(0, 1);
  all.push_back({Command::kNone, bench});
  CLI::App* latency = add(bench, "latency", "Tokens per second and share of the memory bandwidth",
                          Command::kBenchLatency);
  CLI::App* perplexity =
      add(bench, "perplexity", "Perplexity of a text, teacher-forced", Command::kBenchPerplexity);
  for (CLI::App* app : {latency, perplexity}) {
    add_engine(Flags(app), o);
    Flags(app).on("--json", &o->json, "Print one JSON object");
  }
  add_latency(Flags(latency), o);
  Flags(perplexity).positional("file", &o->file, "A text file");

  CLI::App* inspect =
      add(program, "inspect", "Show a model's architecture, shapes, types and sizes",
          Command::kInspect);
  Flags(inspect).on("--json", &o->json, "Print one JSON object");

  CLI::App* check = add(program, "check",
                        "Tell which attention backends fit a model and a machine, and why others "
                        "do not; reads no weights",
                        Command::kCheck);
  add_engine(Flags(check), o);
  Flags(check).text("--hardware", &o->hardware, "Answer for a named machine, e.g. h100, b200",
                    "NAME");
  Flags(check).on("--json", &o->json, "Print one JSON object");
  for (CLI::App* app : {inspect, check}) {
    Flags(app).positional("model", &o->engine.model_path, "The model, as --model");
  }
  CLI::App* backends = program->add_subcommand(
      "backends", "Show what every attention backend serves; needs no model");
  Flags(backends->allow_extras())
      .text("--hardware", &o->hardware, "Tell which of them a named machine has", "NAME");
  Flags(backends).on("--markdown", &o->markdown, "Print docs/backends.md");
  Flags(backends).on("--json", &o->json, "Print one JSON array");
  all.push_back({Command::kBackends, backends});

  CLI::App* explain = add(program, "explain",
                          "Tell what an error means and how to fix it, from its id or from a log",
                          Command::kExplain);
  add_explain(Flags(explain), o);

  CLI::App* catalog = program->add_subcommand("catalog", "The error catalogue for a browser");
  catalog->allow_extras()->require_subcommand(0, 1);
  all.push_back({Command::kNone, catalog});
  CLI::App* pages = catalog->add_subcommand("serve", "Serve the catalogue; needs no model");
  add_address(Flags(pages->allow_extras()), o);
  all.push_back({Command::kCatalogServe, pages});
  CLI::App* files = catalog->add_subcommand("export", "Write the catalogue as static files");
  Flags(files->allow_extras()).positional("folder", &o->export_folder, "Where the files go");
  all.push_back({Command::kCatalogExport, files});
  return all;
}

std::string full_name(const CLI::App* app) {
  return app->get_parent() ? full_name(app->get_parent()) + " " + app->get_name() : "quern";
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& names) {
  const std::string name = nearest(word, names);
  return name.empty() ? "." : "; did you mean " + name + "?";
}

std::vector<std::string> flags_of(const CLI::App* app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app->get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> commands_of(const CLI::App* app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app->get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// Refuses what CLI11 could not place: a mistyped flag, a mistyped command, one word too many.
void refuse_extras(const CLI::App* app) {
  std::vector<std::string> extras = app->remaining();
  std::erase(extras, "--");  // CLI11 keeps the separator among them
  if (extras.empty()) return;
  const std::string help = "see `" + full_name(app) + " --help`";
  for (const std::string& extra : extras) {
    if (extra.size() < 2 || extra[0] != '-') continue;
    const std::string flag = extra.substr(0, extra.find('='));
    throw Error(errors::kUnknownFlag, {{"flag", flag},
                                       {"command", full_name(app)},
                                       {"suggestion", did_you_mean(flag, flags_of(app))},
                                       {"param", flag},
                                       {"hint", help}});
  }
  const std::vector<std::string> commands = commands_of(app);
  if (!commands.empty()) {
    throw Error(errors::kUnknownCommand, {{"word", extras[0]},
                                          {"command", full_name(app)},
                                          {"suggestion", did_you_mean(extras[0], commands)},
                                          {"hint", help}});
  }
  throw Error(errors::kUnexpectedArgument,
              {{"argument", extras[0]},
               {"command", full_name(app)},
               {"hint", "words that belong together stand in quotes; " + help}});
}

// What must be there beside the flags.
void require_arguments(Command command, const CLI::App* app, const Options& options) {
  const auto need = [&](const std::string& value, const char* what) {
    if (value.empty()) {
      throw Error(errors::kMissingArgument, {{"command", full_name(app)}, {"what", what}});
    }
  };
  if (command == Command::kGenerate) need(options.prompt, "a prompt in quotes");
  if (command == Command::kExplain && !options.explain_list && options.search.empty()) {
    need(options.explain_text, "an id, a slug or a pasted text in quotes (-: standard input)");
  }
  if (command == Command::kCatalogExport) need(options.export_folder, "a folder");
  if (command == Command::kBenchPerplexity) need(options.file, "a text file");
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  CommandLine line;
  CLI::App program("quern: a native serving engine for large language models", "quern");
  program.set_version_flag("--version", "quern " QUERN_VERSION, "Print the version");
  program.allow_extras();
  program.require_subcommand(0, 1);
  const std::vector<Declared> commands = declare_commands(&program, &line.options);
  try {
    program.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    line.text = program.help();
    return line;
  } catch (const CLI::CallForVersion&) {
    line.text = "quern " QUERN_VERSION "\n";
    return line;
  } catch (const CLI::ParseError&) {
    // Values are ours to check, so what is left is a flag at the end without its value.
    throw Error(errors::kMissingFlagValue,
                {{"flag", arguments.empty() ? "the last flag" : arguments.back()}});
  }
  const CLI::App* chosen = &program;
  for (const Declared& declared : commands) {
    if (!declared.app->parsed()) continue;
    chosen = declared.app;
    line.command = declared.command;
  }
  for (const CLI::App* app = chosen; app != nullptr; app = app->get_parent()) refuse_extras(app);
  if (line.command == Command::kNone) {
    throw Error(errors::kMissingCommand, {{"command", full_name(chosen)},
                                          {"commands", join(commands_of(chosen))},
                                          {"hint", "see `" + full_name(chosen) + " --help`"}});
  }
  require_arguments(line.command, chosen, line.options);
  return line;
}

SamplingParams sampling_of(const Options& options, SamplingParams defaults) {
  SamplingParams sampling = std::move(defaults);
  sampling.temperature = options.temperature.value_or(sampling.temperature);
  sampling.top_k = options.top_k.value_or(sampling.top_k);
  sampling.top_p = options.top_p.value_or(sampling.top_p);
  sampling.min_p = options.min_p.value_or(sampling.min_p);
  sampling.seed = options.seed;
  sampling.max_tokens = options.max_tokens;
  return sampling;
}

std::string default_model_path() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  std::string path = variable("QUERN_DEFAULT_MODEL");
  if (path.empty()) {
    std::string cache = variable("XDG_CACHE_HOME");
    if (cache.empty() && !variable("HOME").empty()) cache = variable("HOME") + "/.cache";
    if (!cache.empty()) path = cache + "/quern/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  }
  std::error_code failed;
  if (path.empty() || !std::filesystem::exists(path, failed)) {
    throw Error(
        errors::kDefaultModelMissing,
        {{"path", path.empty() ? "neither HOME nor XDG_CACHE_HOME is set" : path},
         {"param", "--model"},
         {"hint",
          "fetch it with `make model` (or scripts/fetch_model.sh) in quern's source folder, "
          "or name another with --model"}});
  }
  return path;
}

}  // namespace quern::cli
