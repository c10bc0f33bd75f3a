#include "checkpoint/tokenizer_source.h"

#include <filesystem>
#include <utility>

#include "checkpoint/gguf_config.h"
#include "checkpoint/gguf_split.h"
#include "checkpoint/mapped_file.h"

namespace quern::checkpoint {
namespace {

// Bounds what an id in a tokenizer's file makes us allocate; no known vocabulary has a quarter.
constexpr std::int64_t kMostRows = std::int64_t{1} << 21;

}  // namespace

TokenizerOfPath read_tokenizer(const std::string& path) {
  const std::filesystem::path file(path);
  if (is_file(path) && file.extension() == ".gguf") {
    TokenizerSource source = gguf_tokenizer(joined_header(open_gguf_parts(path)));
    const auto rows = static_cast<std::int64_t>(source.tokens.size());
    return {std::move(source), rows};
  }
  const std::string name = file.filename().string();
  const bool model = name == "config.json" || file.extension() == ".safetensors";
  if (!is_file(path) || model) {
    Metadata metadata = read_metadata(path);
    return {std::move(metadata.tokenizer), metadata.config.vocab};
  }
  TokenizerOfPath found{{}, kMostRows};
  found.source.origin = path;
  const bool json = name.ends_with(".json") && !name.ends_with("tekken.json");
  (json ? found.source.tokenizer_json : found.source.model_file) = read_text_file(path);
  return found;
}

}  // namespace quern::checkpoint
