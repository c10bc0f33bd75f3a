#include "cli/load_flags.h"

#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/errors/cli.h"
#include "load/http_client.h"

namespace quern::cli {
namespace {

void add_target(Flags flags, LoadFlags* f, load::Options* o) {
  flags.text("--base-url", &f->base_url,
             "Address of the server, without /v1; else --host and --port", "URL");
  flags.text("--model", &o->model, "Model that requests name; without it the server's first",
             "NAME");
  flags.choice("--backend", &f->backend,
               {"sglang-oai-chat", "sglang-oai", "sglang", "vllm-chat", "vllm"},
               "API: /v1/chat/completions, /v1/completions or SGLang's /generate");
  flags.text("--api-key", &o->api_key,
             "Key of the server; without it OPENAI_API_KEY, if that is set", "KEY");
  flags.on("--disable-stream", &f->disable_stream, "Answers in one piece");
  flags.on("--disable-ignore-eos", &f->disable_ignore_eos, "Answers may end before their length");
  flags.text("--extra-request-body", &o->extra_body,
             "JSON object whose members go into every request", "JSON");
  flags.integer("--timeout", &f->timeout_s, 1, 86400, "Seconds that a request may take", "600");
  flags.integer("--warmup-requests", &o->warmup_requests, 0, 1'000'000,
                "Requests before the clock starts", "1");
  flags.on("--flush-cache", &o->flush_cache, "Empty the server's prefix cache after them");
}

void add_shape(Flags flags, LoadFlags* f, load::Options* o) {
  flags.choice(
      "--dataset-name", &f->dataset, {"random", "generated-shared-prefix", "multi-turn", "openai"},
      "Workload: prompts of random words, groups that share a beginning, conversations whose "
      "answers come back as history, or a file");
  flags.text("--dataset-path", &o->file, "File of JSON lines with messages or prompt", "FILE");
  flags.integer("--num-prompts", &o->num_prompts, 1, 1'000'000, "Requests, or conversations",
                "100, of a file all");
  flags.integer("--random-input-len,--random-input", &o->input_len, 1, 1 << 20,
                "Words of a prompt, or of a turn", "128");
  flags.integer("--random-output-len,--random-output", &o->output_len, 1, 1 << 24,
                "Tokens of an answer", "128");
  flags.real("--random-range-ratio", &f->range_ratio, false, 0, 1,
             "Lengths are drawn from this share up to the whole");
  flags.integer("--num-turns", &o->num_turns, 1, 10'000, "Turns of a conversation (multi-turn)",
                "8");
  flags.integer("--gsp-num-groups", &f->groups, 1, 100'000,
                "Beginnings (shared-prefix, multi-turn)", "4; of multi-turn 1");
  flags.integer("--gsp-prompts-per-group", &o->prompts_per_group, 1, 1'000'000,
                "Requests of each group (shared-prefix)", "16");
  flags.integer("--gsp-system-prompt-len", &f->prefix_len, 0, 1 << 20,
                "Words of the shared beginning (shared-prefix, multi-turn)",
                "512; of multi-turn 0");
  flags.integer("--gsp-question-len", &f->question_len, 1, 1 << 20, "As --random-input-len");
  flags.integer("--gsp-output-len", &f->answer_len, 1, 1 << 24, "As --random-output-len");
  flags.text("--request-rate", &f->rate, "Arrivals a second (Poisson), or inf: all at once", "X");
  flags.integer("--max-concurrency", &o->max_concurrency, 1, 100'000,
                "Users: requests or conversations under way at once", "no limit");
  flags.integer("--seed", &o->seed, 0, kNoLimit, "Equal seeds give equal loads", "1");
}

load::Workload workload_of(const std::string& name) {
  if (name == "generated-shared-prefix") return load::Workload::kSharedPrefix;
  if (name == "multi-turn") return load::Workload::kMultiTurn;
  return name == "openai" ? load::Workload::kFile : load::Workload::kRandom;
}

void settle_target(const LoadFlags& f, const Options& options, load::Options* o) {
  std::string url = f.base_url;
  if (url.empty()) {
    const bool v6 = options.host.find(':') != std::string::npos;
    url = v6 ? fmt::format("http://[{}]:{}", options.host, options.port)
             : fmt::format("http://{}:{}", options.host, options.port);
  }
  while (url.ends_with('/')) url.pop_back();
  if (url.ends_with("/v1")) url.resize(url.size() - 3);
  if (!load::parse_url(url)) {
    refuse_value(
        f.base_url.empty() ? "--host" : "--base-url", url,
        "an address such as http://127.0.0.1:30000 (for https put a local proxy before it)");
  }
  o->base_url = url;
  const char* key = std::getenv("OPENAI_API_KEY");
  if (o->api_key.empty() && key) o->api_key = key;
  for (const char c : o->api_key) {
    if (static_cast<unsigned char>(c) <= ' ')
      refuse_value("--api-key", "…", "a key without blanks");
  }
  if (f.backend == "sglang") o->api = load::Api::kGenerate;
  if (f.backend == "sglang-oai" || f.backend == "vllm") o->api = load::Api::kCompletions;
  o->stream = !f.disable_stream;
  o->ignore_eos = !f.disable_ignore_eos;
  o->timeout = std::chrono::seconds(f.timeout_s);
  if (!o->extra_body.empty() && !nlohmann::json::parse(o->extra_body, nullptr, false).is_object()) {
    refuse_value("--extra-request-body", o->extra_body, "a JSON object");
  }
}

}  // namespace

void add_load(Flags flags, Options* options) {
  flags.text("--host", &options->host, "Host of the server", "ADDRESS");
  flags.integer("--port", &options->port, 1, 65535, "Port of the server", "30000");
  add_target(flags, &options->load_flags, &options->load);
  add_shape(flags, &options->load_flags, &options->load);
  flags.text("--json,--output-file", &options->load_flags.json_file,
             "Write the figures as one JSON object", "FILE");
  flags.on("--output-details", &options->load_flags.details, "With every request's figures");
  flags.text("--plot", &options->load_flags.plot_file, "Draw the latencies as SVG", "FILE");
  flags.choice("--log-level", &options->log_level, {"debug", "info", "warning", "error"},
               "What is logged to stderr");
}

void settle_load(Options* options) {
  const LoadFlags& f = options->load_flags;
  load::Options* o = &options->load;
  settle_target(f, *options, o);
  o->workload = workload_of(f.dataset);
  if (f.dataset.empty() && !o->file.empty()) o->workload = load::Workload::kFile;
  if (o->workload == load::Workload::kFile && o->file.empty()) {
    throw Error(errors::kMissingArgument,
                {{"command", "quern bench serve"}, {"what", "--dataset-path FILE"}});
  }
  if (o->workload != load::Workload::kFile && !o->file.empty()) {
    throw Error(errors::kContradictoryFlags, {{"first", "--dataset-name " + f.dataset},
                                              {"second", "--dataset-path " + o->file},
                                              {"reason", "only the workload openai reads a file"},
                                              {"param", "--dataset-path"}});
  }
  const bool turns = o->workload == load::Workload::kMultiTurn;
  o->prefix_groups = f.groups.value_or(turns ? 1 : 4);
  o->prefix_len = f.prefix_len.value_or(turns ? 0 : 512);
  o->input_len = f.question_len.value_or(o->input_len);
  o->output_len = f.answer_len.value_or(o->output_len);
  o->range_ratio = f.range_ratio.value_or(1.0);
  if (!f.rate.empty() && f.rate != "inf") {
    const auto rate = parse_number<double>(f.rate);
    if (!rate || !(*rate > 0) || *rate > 1e6) {
      refuse_value("--request-rate", f.rate, "a number above 0 and at most 1e6, or inf");
    }
    o->request_rate = *rate;
  }
}

}  // namespace quern::cli
