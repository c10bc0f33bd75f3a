// Files of byte pairs by rank to TokenizerSpec: tiktoken's (lines of base64 and rank; Llama 3's
// tokenizer.model is one) and Mistral's tekken.json. The former hold neither pattern nor special
// tokens: both are known for the encodings that their number of ranks tells.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "base/errors/text.h"
#include "text/base64.h"
#include "text/byte_alphabet.h"
#include "text/json_fields.h"
#include "text/tokenizer_spec.h"

namespace quern::text {
namespace {

using checkpoint::TokenizerSource;
using Specials = std::vector<std::pair<std::string, std::int64_t>>;

// The most tokens that a file may hold; bounds what it makes us allocate.
constexpr std::int64_t kMaxRanks = std::int64_t{1} << 20;

Specials cl100k_specials() {
  return {{"<|endoftext|>", 100257},
          {"<|fim_prefix|>", 100258},
          {"<|fim_middle|>", 100259},
          {"<|fim_suffix|>", 100260},
          {"<|endofprompt|>", 100276}};
}

Specials o200k_specials() { return {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}; }

Specials qwen_specials() {
  return {{"<|endoftext|>", 151643}, {"<|im_start|>", 151644}, {"<|im_end|>", 151645}};
}

Specials llama3_specials() {
  Specials out;
  int reserved = 0;
  for (std::int64_t id = 128000; id < 128256; ++id) {
    std::string text;
    switch (id) {
      case 128000: text = "<|begin_of_text|>"; break;
      case 128001: text = "<|end_of_text|>"; break;
      case 128006: text = "<|start_header_id|>"; break;
      case 128007: text = "<|end_header_id|>"; break;
      case 128009: text = "<|eot_id|>"; break;
      default: text = fmt::format("<|reserved_special_token_{}|>", reserved++);
    }
    out.emplace_back(std::move(text), id);
  }
  return out;
}

// The names of those in use stand in the tokenizer_config.json of the models.
Specials kimi_specials() {
  Specials out;
  for (std::int64_t id = 163584; id < 163842; ++id) {
    out.emplace_back(fmt::format("<|reserved_token_{}|>", id), id);
  }
  return out;
}

struct Encoding {
  std::size_t ranks;
  std::string_view split;
  Specials (*specials)();
};

constexpr std::array<Encoding, 5> kEncodings = {{{100256, "cl100k", cl100k_specials},
                                                 {128000, "llama3", llama3_specials},
                                                 {151643, "qwen2", qwen_specials},
                                                 {163584, "kimi-k2", kimi_specials},
                                                 {199998, "o200k", o200k_specials}}};

void add_special(std::string_view text, std::int64_t id, TokenizerSpec& spec) {
  spec.vocabulary.add(text, id, TokenKind::kControl);
  AddedToken token;
  token.text = text;
  token.id = static_cast<std::int32_t>(id);
  token.special = true;
  spec.added_tokens.push_back(std::move(token));
}

// Makes the model of the vocabulary's tokens from `first` on, whose ids are in order of rank.
void make_model(TokenizerSpec& spec) {
  std::vector<double> scores(static_cast<std::size_t>(spec.vocabulary.size()));
  for (std::size_t id = 0; id < scores.size(); ++id) scores[id] = -static_cast<double>(id);
  BpeSpec bpe;
  bpe.options.whole_words = true;
  bpe.merges = implied_merges(spec.vocabulary, scores);
  spec.model = std::move(bpe);
  spec.decoder.emplace_back(ByteLevelDecode{});
}

}  // namespace

TokenizerSpec read_tiktoken(const TokenizerSource& source, std::int64_t rows) {
  TokenizerSpec spec(source, rows);
  std::string_view rest = source.model_file;
  std::int64_t line_number = 0;
  std::size_t ranks = 0;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::size_t blank = line.find(' ');
    std::int64_t rank = -1;
    const std::string_view number = blank == std::string_view::npos ? "" : line.substr(blank + 1);
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), rank);
    const auto bytes = from_base64(line.substr(0, blank));
    if (!bytes || bytes->empty() || error != std::errc() || stop != number.data() + number.size()) {
      spec.vocabulary.fail(fmt::format("line {} is not base64 and a rank", line_number));
    }
    if (rank < 0 || rank >= kMaxRanks) {
      spec.vocabulary.fail(fmt::format("line {} has rank {}", line_number, rank));
    }
    spec.vocabulary.add(to_alphabet(*bytes), rank, TokenKind::kNormal);
    ++ranks;
  }
  const auto known = std::find_if(kEncodings.begin(), kEncodings.end(),
                                  [&](const Encoding& e) { return e.ranks == ranks; });
  if (known == kEncodings.end()) {
    throw Error(
        errors::kTokenizerUnsupported,
        {{"component", "The encoding"},
         {"origin", source.origin},
         {"value", fmt::format("one of {} ranks", ranks)},
         {"allowed",
          "cl100k (100256), Llama 3 (128000), Qwen (151643), Kimi (163584), o200k (199998)"}});
  }
  make_model(spec);
  NamedSplit split = split_named(known->split, "The encoding", source.origin);
  spec.normalizer = std::move(split.normalizer);
  spec.pre_tokenizer = std::move(split.steps);
  for (const auto& [text, id] : known->specials()) {
    const bool renamed = std::any_of(source.added_tokens.begin(), source.added_tokens.end(),
                                     [&](const auto& token) { return token.id == id; });
    if (!renamed && id < rows) add_special(text, id, spec);
  }
  add_tokens(source, spec);
  put_around(source, spec);
  return spec;
}

namespace {

// What tekken.json files without a list of their own mean by their first ids.
constexpr std::array<std::string_view, 20> kTekkenSpecials = {"<unk>",
                                                              "<s>",
                                                              "</s>",
                                                              "[INST]",
                                                              "[/INST]",
                                                              "[AVAILABLE_TOOLS]",
                                                              "[/AVAILABLE_TOOLS]",
                                                              "[TOOL_RESULTS]",
                                                              "[/TOOL_RESULTS]",
                                                              "[TOOL_CALLS]",
                                                              "[IMG]",
                                                              "<pad>",
                                                              "[IMG_BREAK]",
                                                              "[IMG_END]",
                                                              "[PREFIX]",
                                                              "[MIDDLE]",
                                                              "[SUFFIX]",
                                                              "[SYSTEM_PROMPT]",
                                                              "[/SYSTEM_PROMPT]",
                                                              "[TOOL_CONTENT]"};

void read_tekken_specials(const JsonFields& json, const JsonFields::object& root,
                          std::int64_t count, TokenizerSpec& spec) {
  if (const auto list = json.member(root, "special_tokens")) {
    for (const auto& item : json.array_of(*list, "special_tokens")) {
      const auto entry = json.object_of(item, "a special token");
      const std::int64_t id =
          json.integer_of(json.required(entry, "rank", "a special token"), "rank");
      if (id < 0 || id >= count) json.fail(fmt::format("a special token has rank {}", id));
      add_special(json.string_of(json.required(entry, "token_str", "a special token"), "token_str"),
                  id, spec);
    }
  } else {
    for (std::size_t id = 0; id < kTekkenSpecials.size(); ++id) {
      if (static_cast<std::int64_t>(id) < count) {
        add_special(kTekkenSpecials[id], static_cast<std::int64_t>(id), spec);
      }
    }
  }
  for (std::int64_t id = 0; id < count; ++id) {
    if (spec.vocabulary.kind(static_cast<std::int32_t>(id)) != TokenKind::kNone) continue;
    add_special(fmt::format("<SPECIAL_{}>", id), id, spec);
  }
}

}  // namespace

TokenizerSpec read_tekken(const TokenizerSource& source, std::int64_t rows) {
  const JsonFields json(source.origin);
  simdjson::dom::parser parser;
  const auto root = json.parse(source.model_file, "tekken.json", parser);
  const auto config = json.object_of(json.required(root, "config", "tekken.json"), "config");
  TokenizerSpec spec(source, rows);
  const std::string_view pattern = json.text(config, "pattern", "");
  if (pattern.empty()) json.fail("config.pattern is missing");
  // Its dialect has no lines to end at a $ or begin at a ^.
  if (pattern.find('$') != std::string_view::npos) {
    json.refuse("config.pattern", "one with $", "patterns without it");
  }
  const std::int64_t size = json.integer(config, "default_vocab_size", -1, 1, kMaxRanks);
  if (size < 0) json.fail("config lacks default_vocab_size");
  const std::int64_t specials = json.integer(config, "default_num_special_tokens", -1, 0, size);
  if (specials < 0) json.fail("config lacks default_num_special_tokens");
  for (const auto& item : json.array_of(json.required(root, "vocab", "tekken.json"), "vocab")) {
    const auto entry = json.object_of(item, "a token");
    const std::int64_t rank = json.integer_of(json.required(entry, "rank", "a token"), "rank");
    if (rank < 0 || rank > kMaxRanks) json.fail(fmt::format("a token has rank {}", rank));
    if (rank >= size - specials) continue;  // the file lists more tokens than the model uses
    const auto bytes = from_base64(json.text(entry, "token_bytes", ""));
    if (!bytes || bytes->empty())
      json.fail(fmt::format("the bytes of token {} are not base64", rank));
    spec.vocabulary.add(to_alphabet(*bytes), rank + specials, TokenKind::kNormal);
  }
  make_model(spec);
  read_tekken_specials(json, root, specials, spec);
  spec.pre_tokenizer = {
      SplitStep{Regex(pattern, false, source.origin), SplitBehavior::kIsolated, false},
      ByteLevelStep{false, false}};
  put_around(source, spec);
  return spec;
}

}  // namespace quern::text
