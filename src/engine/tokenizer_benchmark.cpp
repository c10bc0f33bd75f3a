#include "engine/tokenizer_benchmark.h"

#include <chrono>

#include "checkpoint/mapped_file.h"
#include "engine/open_tokenizer.h"
#include "text/detokenizer.h"

namespace quern::engine {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::uint64_t hash_of(const std::vector<std::int32_t>& ids) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const std::int32_t id : ids) hash = (hash ^ static_cast<std::uint32_t>(id)) * 0x100000001B3;
  return hash;
}

}  // namespace

TokenizerBenchmark measure_tokenizer(const std::string& path, const std::string& text_file,
                                     std::int64_t repeats) {
  const std::string text = checkpoint::read_text_file(text_file);
  TokenizerBenchmark result;
  const double begin = now();
  const auto tokenizer = open_tokenizer(path).tokenizer;
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
    result.ids_hash = hash_of(ids);
  }
  return result;
}

}  // namespace quern::engine
