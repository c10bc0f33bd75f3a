// `quern bench serve`: puts a load on a running server, quern's or any with OpenAI's API, and tells
// the latencies and the throughput.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/errors/cli.h"
#include "base/errors/load.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "load/report.h"
#include "load/runner.h"

namespace quern::cli {
namespace {

void write_file(const std::string& path, const std::string& text) {
  std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "wb");
  bool written = file != nullptr;
  if (written) {
    written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    written = (file == stdout ? std::fflush(file) : std::fclose(file)) == 0 && written;
  }
  if (!written) {
    throw Error(errors::kReportNotWritten, {{"path", path}, {"reason", std::strerror(errno)}});
  }
}

std::string title_of(const load::Options& options, const load::Result& result,
                     const load::Summary& summary) {
  return fmt::format(
      "{} at {}: {} requests, {:.2f} requests/s, {:.1f} tokens/s out", result.model,
      options.base_url, summary.completed,
      summary.seconds > 0 ? static_cast<double>(summary.completed) / summary.seconds : 0,
      summary.seconds > 0 ? static_cast<double>(summary.output_tokens) / summary.seconds : 0);
}

}  // namespace

int bench_serve_command(const Options& given) {
  load::Options options = given.load;
  const std::vector<load::Conversation> workload = load::make_workload(options);
  Progress progress("Requests");
  options.on_progress = progress.callback();
  const load::Result result = load::run_load(options, workload);
  progress.finish();
  const load::Summary summary = load::summarize(result);
  const LoadFlags& flags = given.load_flags;
  if (flags.json_file != "-") fmt::print("{}", load::text_of(summary));
  if (!flags.json_file.empty()) {
    const load::Json json = load::json_of(summary, options, result, flags.details);
    write_file(flags.json_file,
               json.dump(2, ' ', false, load::Json::error_handler_t::replace) + "\n");
  }
  if (!flags.plot_file.empty()) {
    write_file(flags.plot_file, load::plot_of(result, title_of(options, result, summary)));
  }
  if (summary.completed == 0 && summary.failed > 0) {
    throw Error(errors::kLoadAllFailed, {{"count", summary.failed},
                                         {"url", options.base_url},
                                         {"reason", summary.failures.front().first}});
  }
  return 0;
}

}  // namespace quern::cli
