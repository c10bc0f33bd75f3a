#include "engine/tokenizer_benchmark.h"

#include <chrono>
#include <memory>

#include "checkpoint/checkpoint.h"
#include "checkpoint/mapped_file.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace quern::engine {
namespace {

constexpr std::int64_t kAnyRows = std::int64_t{1} << 21;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::unique_ptr<text::Tokenizer> open(const std::string& path) {
  const bool file = checkpoint::is_file(path);
  if (!file || path.ends_with(".gguf") || path.ends_with("config.json")) {
    const checkpoint::Metadata metadata = checkpoint::read_metadata(path);
    return text::Tokenizer::create(metadata.tokenizer, metadata.config.vocab);
  }
  checkpoint::TokenizerSource source;
  source.origin = path;
  (path.ends_with("tokenizer.json") ? source.tokenizer_json : source.model_file) =
      checkpoint::read_text_file(path);
  return text::Tokenizer::create(source, kAnyRows);
}

}  // namespace

TokenizerBenchmark measure_tokenizer(const std::string& path, const std::string& text_file,
                                     std::int64_t repeats) {
  const std::string text = checkpoint::read_text_file(text_file);
  TokenizerBenchmark result;
  const double begin = now();
  const auto tokenizer = open(path);
  result.load_seconds = now() - begin;
  result.bytes = static_cast<std::int64_t>(text.size());
  const text::EncodeOptions bare{.add_special_tokens = false};
  for (std::int64_t i = 0; i < repeats; ++i) {
    const double start = now();
    const auto ids = tokenizer->encode(text, false, bare);
    const double middle = now();
    const std::string back = text::decode(*tokenizer, ids);
    result.decode.push_back(now() - middle);
    result.encode.push_back(middle - start);
    result.tokens = static_cast<std::int64_t>(ids.size());
    result.same = back == text;
  }
  return result;
}

}  // namespace quern::engine
