#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/errors/base.h"
#include "base/errors/cli.h"
#include "base/nearest.h"
#include "cli/engine_flags.h"
#include "cli/launch_flags.h"
#include "cli/launch_line.h"
#include "cli/load_flags.h"

namespace quern::cli {
namespace {

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
  CLI::App* throughput =
      add(bench, "throughput", "Many requests through the whole engine", Command::kBenchThroughput);
  for (CLI::App* app : {latency, perplexity, throughput}) {
    add_engine(Flags(app), o);
    Flags(app).on("--json", &o->json, "Print one JSON object");
  }
  add_throughput(Flags(throughput), o);
  CLI::App* kernels = bench->add_subcommand(
      "kernels", "Each kernel against what this machine can do; needs no model");
  add_kernels(Flags(kernels->allow_extras()), o);
  Flags(kernels).on("--json", &o->json, "Print one JSON object");
  all.push_back({Command::kBenchKernels, kernels});
  CLI::App* scheduler = bench->add_subcommand(
      "scheduler", "What scheduling and the prefix cache cost a step; needs no model");
  Flags(scheduler->allow_extras())
      .integer("--repeats", &o->bench_scheduler_repeats, 1, 100'000, "Runs of each operation",
               "1000");
  Flags(scheduler).on("--json", &o->json, "Print one JSON array");
  all.push_back({Command::kBenchScheduler, scheduler});
  CLI::App* load =
      bench->add_subcommand("serve", "Load on a running server, quern's or any with OpenAI's API");
  add_load(Flags(load->allow_extras()), o);
  all.push_back({Command::kBenchServe, load});
  CLI::App* tokenizer = add(bench, "tokenizer", "MB/s of a tokenizer on a text, on one thread",
                            Command::kBenchTokenizer);
  Flags(tokenizer).positional("tokenizer", &o->model, "A model or a tokenizer's file");
  Flags(tokenizer).positional("file", &o->file, "A text file");
  Flags(tokenizer).integer("--repeats", &o->bench_repeats, 1, 1'000'000, "Measured repeats", "3");
  Flags(tokenizer).on("--json", &o->json, "Print one JSON object");
  CLI::App* grammar = add(bench, "grammar", "Compile and mask times of JSON schemas",
                          Command::kBenchGrammar);
  Flags(grammar).positional("tokenizer", &o->model, "A model or a tokenizer's file");
  Flags(grammar).positional("file", &o->file, "A JSON object of schemas by name");
  Flags(grammar).integer("--repeats", &o->bench_repeats, 1, 1'000'000, "Answers of each", "3");
  Flags(grammar).on("--json", &o->json, "Print one JSON object");
  add_latency(Flags(latency), o);
  Flags(perplexity).positional("file", &o->file, "A text file");

  CLI::App* inspect =
      add(program, "inspect", "Show a model's architecture, shapes, types and sizes",
          Command::kInspect);
  Flags(inspect).on("--json", &o->json, "Print one JSON object");

  CLI::App* rendered =
      add(program, "template", "Print the prompt that a chat template makes of a conversation",
          Command::kTemplate);
  Flags(rendered).positional("file", &o->file,
                             "JSON of a chat request or of its messages; -: standard input");
  add_chat_template(Flags(rendered), o);
  Flags(rendered).on("--tokens", &o->template_tokens, "Print the token ids too");
  Flags(rendered).integer("--repeats", &o->template_repeats, 1, 1'000'000,
                          "Render so often again and tell the CPU time on stderr");
  Flags(rendered).on("--json", &o->json, "Print one JSON object");

  CLI::App* tokenized =
      add(program, "tokenize", "Print the token ids of a text, or the text of token ids",
          Command::kTokenize);
  Flags(tokenized).positional("model", &o->model, "A model or a tokenizer's file");
  Flags(tokenized).positional("text", &o->text, "The text; -: standard input, as without it");
  Flags(tokenized).optional_text("--decode", &o->decode_ids,
                                 "The other way round, e.g. 1,2,3; -: from standard input", "IDS");
  Flags(tokenized).on("--no-special-tokens", &o->no_special_tokens,
                      "Put no tokens around the text; with --decode write no control tokens");
  add_special_tokens(Flags(tokenized), o);
  Flags(tokenized).on("--json", &o->json, "Print one JSON object");

  CLI::App* check = add(program, "check",
                        "Tell which attention backends fit a model and a machine, and why others "
                        "do not; reads no weights",
                        Command::kCheck);
  add_engine(Flags(check), o);
  Flags(check).text("--hardware", &o->hardware, "Answer for a named machine, e.g. h100, b200",
                    "NAME");
  Flags(check).on("--json", &o->json, "Print one JSON object");
  for (CLI::App* app : {inspect, check}) {
    Flags(app).positional("model", &o->model, "The model, as --model");
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
// Words behind the separator `--` are no flags and no commands, and mean the `chosen` command.
void refuse_extras(const CLI::App* app, const CLI::App* chosen,
                   const std::vector<std::string>& behind_separator) {
  std::vector<std::string> extras = app->remaining();
  std::erase(extras, "--");  // CLI11 keeps the separator among them
  if (extras.empty()) return;
  const std::string help = "see `" + full_name(app) + " --help`";
  const auto is_behind = [&](const std::string& word) {
    return std::find(behind_separator.begin(), behind_separator.end(), word) !=
           behind_separator.end();
  };
  for (const std::string& extra : extras) {
    if (extra.size() < 2 || extra[0] != '-' || is_behind(extra)) continue;
    const std::string flag = extra.substr(0, extra.find('='));
    throw Error(errors::kUnknownFlag, {{"flag", flag},
                                       {"command", full_name(app)},
                                       {"suggestion", did_you_mean(flag, flags_of(app))},
                                       {"param", flag},
                                       {"hint", help}});
  }
  const std::vector<std::string> commands = commands_of(app);
  const bool behind = is_behind(extras[0]);
  if (!commands.empty() && !behind) {
    throw Error(errors::kUnknownCommand, {{"word", extras[0]},
                                          {"command", full_name(app)},
                                          {"suggestion", did_you_mean(extras[0], commands)},
                                          {"hint", help}});
  }
  const bool late_flag = behind && extras[0].starts_with('-');
  throw Error(errors::kUnexpectedArgument,
              {{"argument", extras[0]},
               {"command", full_name(behind ? chosen : app)},
               {"hint", (late_flag ? "flags stand before the `--`; "
                                   : "words that belong together stand in quotes; ") +
                            help}});
}

// The parser's own refusals, since values are checked here: a switch that got a value which is not
// true or false, or a flag at the end without its value.
[[noreturn]] void refuse_unparsed(const std::vector<std::string>& arguments,
                                  const std::vector<Declared>& commands) {
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  for (auto it = arguments.begin(); it != end; ++it) {
    const size_t equals = it->find('=');
    if (equals == it->npos || equals + 1 == it->size()) continue;
    const std::string flag = it->substr(0, equals);
    for (const Declared& declared : commands) {
      const CLI::Option* option =
          declared.app->parsed() ? declared.app->get_option_no_throw(flag) : nullptr;
      if (option == nullptr || option->get_expected_max() > 0) continue;
      refuse_value(flag, it->substr(equals + 1), "no value, true or false");
    }
  }
  const std::string last = end == arguments.begin() ? "the last flag" : *std::prev(end);
  throw Error(errors::kMissingFlagValue, {{"flag", last.substr(0, last.find('='))}});
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

// What CLI11 is to read: for serve and check the flags of SGLang are taken out or renamed first,
// and a pasted launcher is left out. Adds to `line`.
std::vector<std::string> own_arguments(const std::vector<std::string>& arguments,
                                       CommandLine* line) {
  if (arguments.empty() || (arguments[0] != "serve" && arguments[0] != "check")) return arguments;
  LaunchLine pasted = strip_launcher({arguments.begin() + 1, arguments.end()});
  LaunchArguments launch = read_launch_flags(pasted.arguments);
  line->notes = std::move(pasted.notes);
  line->notes.insert(line->notes.end(), launch.notes.begin(), launch.notes.end());
  if (launch.refused && arguments[0] == "serve") throw Error(*std::move(launch.refused));
  line->options.refused_flag = std::move(launch.refused);
  launch.arguments.insert(launch.arguments.begin(), arguments[0]);
  return std::move(launch.arguments);
}

// The model may stand alone or behind --model, but not twice and differently.
void settle_model(Options* options) {
  std::string& path = options->engine.model_path;
  const std::string& alone = options->model;
  if (alone.empty()) return;
  if (!path.empty() && path != alone) {
    throw Error(errors::kContradictoryFlags, {{"first", "--model " + path},
                                              {"second", "the argument " + alone},
                                              {"reason", "both name the model"},
                                              {"param", "--model"}});
  }
  path = alone;
}

// Behind --model a word alone is the text.
void settle_text(Options* options) {
  if (!options->engine.model_path.empty() && !options->text && !options->model.empty()) {
    options->text = std::exchange(options->model, "");
  }
  if (!options->text || !options->decode_ids) return;
  throw Error(errors::kContradictoryFlags, {{"first", "--decode"},
                                            {"second", "a text"},
                                            {"reason", "one goes to text, the other comes from it"},
                                            {"param", "--decode"}});
}

void settle_hardware(const Options& options) {
  const std::string& simulated = options.engine.simulate_hardware;
  if (options.hardware.empty() || simulated.empty() || options.hardware == simulated) return;
  throw Error(errors::kContradictoryFlags, {{"first", "--hardware " + options.hardware},
                                            {"second", "--simulate-hardware " + simulated},
                                            {"reason", "both name the machine"},
                                            {"param", "--hardware"}});
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& given) {
  CommandLine line;
  const std::vector<std::string> arguments = own_arguments(given, &line);
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
    refuse_unparsed(arguments, commands);
  }
  const CLI::App* chosen = &program;
  for (const Declared& declared : commands) {
    if (!declared.app->parsed()) continue;
    chosen = declared.app;
    line.command = declared.command;
  }
  const auto separator = std::find(arguments.begin(), arguments.end(), "--");
  const std::vector<std::string> behind(separator, arguments.end());
  for (const CLI::App* app = chosen; app != nullptr; app = app->get_parent()) {
    refuse_extras(app, chosen, behind);
  }
  if (line.command == Command::kNone) {
    throw Error(errors::kMissingCommand, {{"command", full_name(chosen)},
                                          {"commands", join(commands_of(chosen))},
                                          {"hint", "see `" + full_name(chosen) + " --help`"}});
  }
  require_arguments(line.command, chosen, line.options);
  if (line.command == Command::kBenchServe) settle_load(&line.options);
  if (line.command == Command::kTokenize) settle_text(&line.options);
  settle_model(&line.options);
  settle_hardware(line.options);
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
