// GGUF metadata to TokenizerSpec. The file names its pre-tokenizer (tokenizer.ggml.pre) without
// saying what it does, so that the splits stand here by name.
#include <fmt/ranges.h>

#include <array>
#include <string_view>

#include "base/error.h"
#include "base/errors/text.h"
#include "base/log.h"
#include "text/tokenizer_spec.h"

namespace quern::text {
namespace {

constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepseekWords =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

PreTokenizerStep isolate(std::string_view pattern) {
  return SplitStep{Regex(pattern, false, "quern"), SplitBehavior::kIsolated, false};
}

std::vector<PreTokenizerStep> gpt2_steps() { return {ByteLevelStep{false, true}}; }

std::vector<PreTokenizerStep> digits_then_gpt2_steps() {
  return {digits_split(true), ByteLevelStep{false, true}};
}

std::vector<PreTokenizerStep> llama3_steps() {
  return {isolate(kLlama3Pattern), ByteLevelStep{false, false}};
}

std::vector<PreTokenizerStep> deepseek_v3_steps() {
  return {isolate(R"(\p{N}{1,3})"), isolate(R"([一-龥぀-ゟ゠-ヿ]+)"), isolate(kDeepseekWords),
          ByteLevelStep{false, false}};
}

std::vector<PreTokenizerStep> falcon_steps() {
  return {punctuation_split(SplitBehavior::kContiguous), ByteLevelStep{false, true},
          digits_split(false), isolate("[0-9][0-9][0-9]")};
}

struct Known {
  std::string_view name;
  std::vector<PreTokenizerStep> (*steps)();
  bool whole_words;
};

constexpr std::array<Known, 10> kKnown = {{
    {"gpt-2", gpt2_steps, false},
    {"gpt2", gpt2_steps, false},
    {"default", gpt2_steps, false},
    {"smollm", digits_then_gpt2_steps, false},
    {"starcoder", digits_then_gpt2_steps, false},
    {"llama-bpe", llama3_steps, true},
    {"llama3", llama3_steps, true},
    {"llama-v3", llama3_steps, true},
    {"deepseek-v3", deepseek_v3_steps, false},
    {"falcon", falcon_steps, false},
}};

const Known& known_pre(const checkpoint::TokenizerSource& source) {
  const std::string_view name = source.pre.empty() ? "default" : std::string_view(source.pre);
  std::vector<std::string_view> served;
  for (const Known& known : kKnown) {
    if (known.name == name) return known;
    served.push_back(known.name);
  }
  throw Error(errors::kTokenizerUnsupported,
              {{"component", "tokenizer.ggml.pre (the pre-tokenizer)"},
               {"origin", source.origin},
               {"value", shown(name)},
               {"allowed", fmt::format("{}", fmt::join(served, ", "))}});
}

TokenKind kind_of(std::int32_t type, std::size_t id, const Vocabulary& vocabulary) {
  switch (type) {
    case 1: return TokenKind::kNormal;
    case 2:
    case 3: return TokenKind::kControl;
    case 4: return TokenKind::kUserDefined;
    case 5: return TokenKind::kUnused;
    case 6: return TokenKind::kByte;
    default:
      vocabulary.fail(fmt::format("tokenizer.ggml.token_type[{}] is {}, not 1 to 6", id, type));
  }
}

void read_tokens(const checkpoint::TokenizerSource& source, std::int64_t rows,
                 TokenizerSpec& spec) {
  Vocabulary& vocabulary = spec.vocabulary;
  const std::size_t count = source.tokens.size();
  if (count == 0) vocabulary.fail("tokenizer.ggml.tokens is missing or empty");
  if (static_cast<std::int64_t>(count) > rows) {
    vocabulary.fail(fmt::format("{} tokens for {} vocabulary rows", count, rows));
  }
  if (!source.token_types.empty() && source.token_types.size() != count) {
    vocabulary.fail(fmt::format("{} tokens but {} token types", count, source.token_types.size()));
  }
  for (std::size_t id = 0; id < count; ++id) {
    const TokenKind kind = source.token_types.empty()
                               ? TokenKind::kNormal
                               : kind_of(source.token_types[id], id, vocabulary);
    const std::string& text = source.tokens[id];
    vocabulary.add(text, static_cast<std::int64_t>(id), kind);
    if (kind == TokenKind::kControl || kind == TokenKind::kUserDefined) {
      AddedToken added;
      added.text = text;
      added.id = static_cast<std::int32_t>(id);
      added.special = kind == TokenKind::kControl;
      spec.added_tokens.push_back(std::move(added));
    }
  }
}

void read_merges(const checkpoint::TokenizerSource& source, TokenizerSpec& spec) {
  std::size_t without_result = 0;
  spec.merges.reserve(source.merges.size());
  for (const std::string& line : source.merges) {
    const std::size_t blank = line.find(' ');
    if (blank == std::string::npos || line.find(' ', blank + 1) != std::string::npos) {
      spec.vocabulary.fail(fmt::format("the merge {} is not two tokens", shown(line)));
    }
    const std::string_view view = line;
    const Merge merge =
        spec.vocabulary.merge_of(view.substr(0, blank), view.substr(blank + 1), true);
    without_result += merge.result < 0;
    spec.merges.push_back(merge);
  }
  if (without_result > 0) {
    log().warn("{}: {} of {} merges give no token of the vocabulary and are left out",
               source.origin, without_result, source.merges.size());
  }
}

}  // namespace

TokenizerSpec read_tokenizer_gguf(const checkpoint::TokenizerSource& source, std::int64_t rows) {
  if (source.model != "gpt2") {
    throw Error(errors::kTokenizerUnsupported, {{"component", "tokenizer.ggml.model"},
                                                {"origin", source.origin},
                                                {"value", shown(source.model)},
                                                {"allowed", "gpt2 (byte-level BPE)"}});
  }
  const Known& known = known_pre(source);
  TokenizerSpec spec{Vocabulary(source.origin, rows), {}, {}, known.steps(), known.whole_words, -1};
  read_tokens(source, rows, spec);
  read_merges(source, spec);
  if (source.add_bos) spec.bos_id = source.bos_token_id;
  return spec;
}

}  // namespace quern::text
