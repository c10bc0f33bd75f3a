// `quern bench tokenizer`: MB/s of a tokenizer on a text, on one thread.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/commands.h"
#include "engine/tokenizer_benchmark.h"

namespace quern::cli {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int bench_tokenizer_command(const Options& options) {
  const engine::TokenizerBenchmark r =
      engine::measure_tokenizer(options.model, options.file, options.bench_repeats);
  const auto bytes = static_cast<double>(r.bytes);
  const double encode = median(r.encode), decode = median(r.decode);
  if (options.json) {
    const nlohmann::ordered_json report = {{"tokenizer", options.model},
                                           {"text", options.file},
                                           {"bytes", r.bytes},
                                           {"tokens", r.tokens},
                                           {"load_s", r.load_seconds},
                                           {"encode_s", r.encode},
                                           {"decode_s", r.decode},
                                           {"encode_mb_per_s", bytes / encode / 1e6},
                                           {"decode_mb_per_s", bytes / decode / 1e6},
                                           {"decodes_to_the_text", r.same},
                                           {"ids_hash", fmt::format("{:016x}", r.ids_hash)}};
    fmt::print("{}\n", report.dump(2));
    return 0;
  }
  fmt::print(
      "{} bytes, {} tokens ({:.2f} bytes each), loaded in {:.0f} ms\n"
      "encode {:8.1f} MB/s   {:.1f} Mtoken/s\n"
      "decode {:8.1f} MB/s   {}\n"
      "medians of {} on one thread\n",
      r.bytes, r.tokens, r.tokens > 0 ? bytes / static_cast<double>(r.tokens) : 0.0,
      1e3 * r.load_seconds, bytes / encode / 1e6, static_cast<double>(r.tokens) / encode / 1e6,
      bytes / decode / 1e6, r.same ? "the same text" : "another text than was encoded",
      r.encode.size());
  return 0;
}

}  // namespace quern::cli
