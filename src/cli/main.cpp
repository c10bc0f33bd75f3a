// The program: finds the command, runs it, and prints whatever error leaves it. Built for the
// oldest x86-64, so that it can say what a processor lacks (see CMakeLists.txt).
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/errors/base.h"
#include "base/errors/cli.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/print_error.h"

namespace quern::cli {
namespace {

// A file opened later must not become stdout or stderr because those were closed at start.
void hold_standard_streams() {
  int fd = 0;
  do {
    fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd > STDERR_FILENO) close(fd);
}

// The first thing of x86-64-v2 that is missing, or null.
const char* missing_cpu_feature() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("ssse3")) return "SSSE3";
  if (!__builtin_cpu_supports("sse4.1")) return "SSE4.1";
  if (!__builtin_cpu_supports("sse4.2")) return "SSE4.2";
  if (!__builtin_cpu_supports("popcnt")) return "POPCNT";
#endif
  return nullptr;
}

int run_command(Command command, const Options& options) {
  switch (command) {
    case Command::kNone: return 0;
    case Command::kServe: return serve_command(options);
    case Command::kGenerate: return generate_command(options);
    case Command::kChat: return chat_command(options);
    case Command::kBenchLatency: return bench_latency_command(options);
    case Command::kBenchPerplexity: return bench_perplexity_command(options);
    case Command::kBenchKernels: return bench_kernels_command(options);
    case Command::kBenchScheduler: return bench_scheduler_command(options);
    case Command::kBenchThroughput: return bench_throughput_command(options);
    case Command::kBenchServe: return bench_serve_command(options);
    case Command::kBenchTokenizer: return bench_tokenizer_command(options);
    case Command::kBenchGrammar: return bench_grammar_command(options);
    case Command::kInspect: return inspect_command(options);
    case Command::kTemplate: return template_command(options);
    case Command::kTokenize: return tokenize_command(options);
    case Command::kCheck: return check_command(options);
    case Command::kBackends: return backends_command(options);
    case Command::kExplain: return explain_command(options);
    case Command::kCatalogServe: return catalog_serve_command(options);
    case Command::kCatalogExport: return catalog_export_command(options);
  }
  return 1;
}

// The tables and the catalogue are shown where no model is.
bool wants_model(Command command, const Options& options) {
  if (command == Command::kTemplate) {
    return options.engine.chat_template.empty() || options.template_tokens;
  }
  return command != Command::kBackends && command != Command::kBenchKernels &&
         command != Command::kBenchScheduler && command != Command::kBenchServe &&
         command != Command::kExplain && command != Command::kCatalogServe &&
         command != Command::kCatalogExport;
}

int run(const std::vector<std::string>& arguments) {
  CommandLine line = parse_command_line(arguments);
  if (line.command == Command::kNone) {
    std::fputs(line.text.c_str(), stdout);
    return 0;
  }
  set_log_level(line.options.log_level);
  for (const std::string& note : line.notes) std::fprintf(stderr, "note: %s\n", note.c_str());
  Options& options = line.options;
  if (options.engine.model_path.empty() && wants_model(line.command, options)) {
    options.engine.model_path = default_model_path();
    // Nobody chose the path, so it is not the name that clients should write.
    if (options.engine.served_model_name.empty()) {
      options.engine.served_model_name =
          std::filesystem::path(options.engine.model_path).stem().string();
    }
  }
  if (!options.engine.speculative_algorithm.empty() && line.command != Command::kCheck) {
    require_fit(options);
  }
  return run_command(line.command, options);
}

int guarded(int argc, char** argv) {
  try {
    return run(std::vector<std::string>(argv + (argc > 0), argv + argc));
  } catch (const Error& error) {
    print_error(error);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "error[%s]: Not enough memory.\n", error_entry(errors::kOutOfMemory).id);
  } catch (const std::exception& failure) {
    print_error(Error(errors::kUnexpectedFailure, {{"what", failure.what()}}));
  }
  return 1;
}

}  // namespace
}  // namespace quern::cli

int main(int argc, char** argv) {
  quern::cli::hold_standard_streams();
  if (argc > 1 && std::string_view(argv[1]) == "--version") {
    return std::puts("quern " QUERN_VERSION) < 0;
  }
  if (const char* feature = quern::cli::missing_cpu_feature()) {
    std::fprintf(stderr,
                 "error[%s]: This processor is too old: quern needs x86-64-v2, and it lacks %s.\n",
                 quern::error_entry(quern::errors::kCpuTooOld).id, feature);
    return 1;
  }
  return quern::cli::guarded(argc, argv);
}
