// `quern serve`: listens first, so that a port in use is known before any weight is read, then
// opens the engine and serves it.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/progress.h"
#include "server/http_server.h"
#include "server/pages.h"

namespace quern::cli {
namespace {

server::ServerOptions server_options(const Options& options) {
  server::ServerOptions made;
  made.host = options.host;
  made.port = static_cast<int>(options.port);
  made.api_key = options.api_key;
  made.max_body_bytes = static_cast<std::uint64_t>(options.max_body_bytes);
  made.idle_timeout = std::chrono::seconds(options.idle_timeout_s);
  made.drain_limit = std::chrono::seconds(options.drain_timeout_s);
  return made;
}

// SGLang's variables set the limits that no flag sets; -1 is none.
void read_timeout(const char* name, double* seconds) {
  const char* value = std::getenv(name);
  if (value == nullptr || *seconds > 0) return;
  const auto number = parse_number<double>(value);
  if (!number || !std::isfinite(*number)) refuse_value(name, value, "seconds, or -1");
  *seconds = std::max(*number, 0.0);
}

void log_facts(const EngineInfo& info, bool mapped) {
  constexpr double kMega = 1e6;
  log().info("Model: {} ({}), {:.0f} MB of weights{}, context {}", info.served_model_name,
             info.architecture, static_cast<double>(info.weight_bytes) / kMega,
             mapped ? " in the mapped file" : "", info.context_length);
  log().info("Attention backend: {} ({})", info.attention_backend, info.attention_backend_reason);
  log().info("KV cache: {}, {} pages of {} tokens, {} bytes a token", info.kv_cache_dtype,
             info.pages_total, info.page_size, info.kv_bytes_per_token);
  log().info("Runs on: {}, isa {}, threads {}, activations {}", info.hardware, info.isa,
             info.threads, info.dtype);
  log().info("Loaded in {:.2f} s", info.load_seconds);
}

}  // namespace

int serve_command(const Options& options) {
  // A reader of stdout that went away must not end the server.
  std::signal(SIGPIPE, SIG_IGN);
  server::HttpServer server(server_options(options));
  EngineOptions engine_options = options.engine;
  read_timeout("SGLANG_REQ_WAITING_TIMEOUT", &engine_options.request_waiting_timeout);
  read_timeout("SGLANG_REQ_RUNNING_TIMEOUT", &engine_options.request_running_timeout);
  Progress progress("Loading");
  engine_options.on_progress = progress.callback();
  const std::unique_ptr<Engine> engine = Engine::open(engine_options);
  progress.finish();
  // Not earlier: where the engine refuses to open, its error is the first line of the log.
  log().info("Listening on {}", server.url());
  log_facts(engine->info(), engine_options.no_repack);
  const server::ServerFacts facts{server.url(), false, !options.api_key.empty()};
  std::printf("quern is ready at %s\n%s\n", server.url().c_str(),
              server::curl_command(engine->info(), facts).c_str());
  std::fflush(stdout);
  server.serve(*engine, true);
  log().info("Stopped.");
  return 0;
}

}  // namespace quern::cli
