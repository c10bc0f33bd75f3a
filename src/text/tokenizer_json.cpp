// tokenizer.json to TokenizerSpec. Whatever the file asks for is either done or refused by name;
// what does not touch the encoding of a prompt (truncation, padding) is not read.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "text/json_fields.h"
#include "text/tokenizer_json_steps.h"
#include "text/tokenizer_spec.h"

namespace quern::text {
namespace {

using array = JsonFields::array;
using element = JsonFields::element;
using object = JsonFields::object;

class Reader {
 public:
  Reader(const checkpoint::TokenizerSource& source, std::int64_t rows)
      : source_(source), json_(source.origin), spec_(source, rows) {}

  TokenizerSpec run();

 private:
  std::string_view kind_of(const object& model) const;
  void check_bpe_options(const object& model) const;
  void read_vocab(const object& model);
  void read_bpe(const object& model);
  void read_merges(const object& model, BpeSpec& bpe);
  void read_unigram(const object& model);
  void read_wordpiece(const object& model);
  std::int32_t unknown_id(const object& model) const;
  void read_added_tokens(const element& value);

  const checkpoint::TokenizerSource& source_;
  JsonFields json_;
  TokenizerSpec spec_;
};

// Old files name no type; then the members tell.
std::string_view Reader::kind_of(const object& model) const {
  const std::optional<element> type = json_.member(model, "type");
  if (type) return json_.string_of(*type, "model.type");
  if (json_.member(model, "merges")) return "BPE";
  const std::optional<element> vocab = json_.member(model, "vocab");
  if (vocab && vocab->is_array()) return "Unigram";
  return json_.member(model, "continuing_subword_prefix") ? "WordPiece" : "";
}

void Reader::check_bpe_options(const object& model) const {
  double dropout = 0;
  const std::optional<element> value = json_.member(model, "dropout");
  if (value && (value->get(dropout) != simdjson::SUCCESS || dropout != 0)) {
    json_.refuse("model.dropout", "set", "null");
  }
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!json_.text(model, key, "").empty()) {
      json_.refuse(fmt::format("model.{}", key), "set", "null or empty");
    }
  }
}

void Reader::read_vocab(const object& model) {
  for (const auto& [text, id] :
       json_.object_of(json_.required(model, "vocab", "model"), "model.vocab")) {
    spec_.vocabulary.add(text, json_.integer_of(id, fmt::format("the id of token {}", shown(text))),
                         TokenKind::kNormal);
  }
}

std::int32_t Reader::unknown_id(const object& model) const {
  const std::string_view text = json_.text(model, "unk_token", "");
  if (text.empty()) return -1;
  const std::int32_t id = spec_.vocabulary.id_of(text);
  if (id < 0) json_.fail(fmt::format("unk_token {} is not in the vocabulary", shown(text)));
  return id;
}

void Reader::read_bpe(const object& model) {
  check_bpe_options(model);
  read_vocab(model);
  BpeSpec bpe;
  bpe.options.byte_level = false;
  for (const PreTokenizerStep& step : spec_.pre_tokenizer) {
    bpe.options.byte_level |= std::holds_alternative<ByteLevelStep>(step);
  }
  bpe.options.whole_words = json_.flag(model, "ignore_merges", false);
  bpe.options.byte_fallback = json_.flag(model, "byte_fallback", false);
  bpe.options.fuse_unk = json_.flag(model, "fuse_unk", false);
  bpe.options.unk_id = unknown_id(model);
  if (bpe.options.byte_level && bpe.options.byte_fallback) {
    json_.refuse("model.byte_fallback", "true beside a ByteLevel pre_tokenizer", "false");
  }
  spec_.model = std::move(bpe);
}

// A score as the reference holds it: its reader makes a double of the digits and then divides by a
// power of ten, which rounds twice. One score in four of a real file is a step away from the
// nearest double, and that decides between cuts of the same sum, such as of a line of dashes.
double rounded_twice(double score) {
  std::array<char, 40> text{};
  const auto written =
      std::to_chars(text.data(), text.data() + text.size(), score, std::chars_format::scientific);
  const std::string_view all(text.data(), static_cast<std::size_t>(written.ptr - text.data()));
  const std::size_t power = std::min(all.find('e'), all.size());
  int exponent = 0;
  if (power < all.size()) {
    const char* begin = all.data() + power + (all[power + 1] == '+' ? 2 : 1);
    std::from_chars(begin, all.data() + all.size(), exponent);
  }
  std::uint64_t whole = 0;  // at most 17 digits
  bool behind = false;
  for (const char c : all.substr(0, power)) {
    behind |= c == '.';
    if (c < '0' || c > '9') continue;
    whole = whole * 10 + static_cast<std::uint64_t>(c - '0');
    exponent -= behind;
  }
  const double digits = static_cast<double>(whole), step = std::pow(10.0, std::abs(exponent));
  return std::copysign(exponent < 0 ? digits / step : digits * step, score);
}

void Reader::read_unigram(const object& model) {
  UnigramSpec unigram;
  unigram.options.byte_fallback = json_.flag(model, "byte_fallback", false);
  std::int64_t id = 0;
  for (const element& item :
       json_.array_of(json_.required(model, "vocab", "model"), "model.vocab")) {
    const array entry = json_.array_of(item, "a token of model.vocab");
    double score = 0;
    if (entry.size() != 2 || entry.at(1).value_unsafe().get(score) != simdjson::SUCCESS) {
      json_.fail(fmt::format("token {} is not a text and a score", id));
    }
    spec_.vocabulary.add(json_.string_of(entry.at(0).value_unsafe(), "the text of a token"), id++,
                         TokenKind::kNormal);
    unigram.scores.push_back(rounded_twice(score));
  }
  unigram.options.unk_id = static_cast<std::int32_t>(
      json_.integer(model, "unk_id", -1, 0, std::max<std::int64_t>(0, id - 1)));
  spec_.model = std::move(unigram);
}

void Reader::read_wordpiece(const object& model) {
  read_vocab(model);
  WordPieceOptions pieces;
  pieces.prefix = json_.text(model, "continuing_subword_prefix", "##");
  pieces.unk_id = unknown_id(model);
  pieces.max_chars = json_.integer(model, "max_input_chars_per_word", 100, 0, 1 << 20);
  spec_.model = std::move(pieces);
}

void Reader::read_added_tokens(const element& value) {
  for (const element& item : json_.array_of(value, "added_tokens")) {
    const object entry = json_.object_of(item, "an added token");
    const std::optional<element> content = json_.member(entry, "content"),
                                 id = json_.member(entry, "id");
    if (!content || !id) json_.fail("an added token lacks content or id");
    AddedToken token;
    token.text = json_.string_of(*content, "the content of an added token");
    const std::int64_t wanted = json_.integer_of(*id, "the id of an added token");
    token.special = json_.flag(entry, "special", false);
    token.normalized = json_.flag(entry, "normalized", !token.special);
    token.lstrip = json_.flag(entry, "lstrip", false);
    token.rstrip = json_.flag(entry, "rstrip", false);
    token.single_word = json_.flag(entry, "single_word", false);
    const TokenKind kind = token.special ? TokenKind::kControl : TokenKind::kUserDefined;
    token.id = spec_.vocabulary.id_of(token.text);
    if (token.id < 0) {
      spec_.vocabulary.add(token.text, wanted, kind);
      token.id = static_cast<std::int32_t>(wanted);
    } else if (token.id != wanted) {
      json_.fail(
          fmt::format("token {} has two ids, {} and {}", shown(token.text), token.id, wanted));
    } else if (spec_.vocabulary.kind(token.id) != TokenKind::kNormal) {
      json_.fail(fmt::format("the added token {} stands twice", shown(token.text)));
    } else {
      spec_.vocabulary.set_kind(token.id, kind);
    }
    spec_.added_tokens.push_back(std::move(token));
  }
}

void Reader::read_merges(const object& model, BpeSpec& bpe) {
  const array list = json_.array_of(json_.required(model, "merges", "model"), "model.merges");
  bpe.merges.reserve(list.size());
  for (const element& item : list) {
    std::string_view left, right;
    if (item.is_string()) {
      const std::string_view line = json_.string_of(item, "a merge");
      const std::size_t blank = line.find(' ');
      if (blank == std::string_view::npos || line.find(' ', blank + 1) != std::string_view::npos) {
        json_.fail(fmt::format("the merge {} is not two tokens", shown(line)));
      }
      left = line.substr(0, blank);
      right = line.substr(blank + 1);
    } else {
      const array pair = json_.array_of(item, "a merge");
      if (pair.size() != 2) json_.fail("a merge is not two tokens");
      left = json_.string_of(pair.at(0).value_unsafe(), "a token of a merge");
      right = json_.string_of(pair.at(1).value_unsafe(), "a token of a merge");
    }
    bpe.merges.push_back(spec_.vocabulary.merge_of(left, right, bpe.merges.size(), false));
  }
}

TokenizerSpec Reader::run() {
  simdjson::dom::parser parser;
  const object root = json_.parse(source_.tokenizer_json, "tokenizer.json", parser);
  const object model = json_.object_of(json_.required(root, "model", "tokenizer.json"), "model");
  if (const auto value = json_.member(root, "normalizer")) read_normalizer(json_, *value, spec_);
  if (const auto value = json_.member(root, "pre_tokenizer")) {
    read_pre_tokenizer(json_, *value, spec_);
  }
  const std::string_view kind = kind_of(model);
  if (kind == "BPE") {
    read_bpe(model);
  } else if (kind == "Unigram") {
    read_unigram(model);
  } else if (kind == "WordPiece") {
    read_wordpiece(model);
  } else {
    json_.refuse("model.type", shown(kind), "BPE, Unigram, WordPiece");
  }
  for (const PreTokenizerStep& step : spec_.pre_tokenizer) {
    if (kind != "BPE" && std::holds_alternative<ByteLevelStep>(step)) {
      json_.refuse("pre_tokenizer", fmt::format("ByteLevel beside {}", kind), "ByteLevel with BPE");
    }
  }
  if (const auto value = json_.member(root, "added_tokens")) read_added_tokens(*value);
  if (auto* bpe = std::get_if<BpeSpec>(&spec_.model)) read_merges(model, *bpe);
  if (const auto value = json_.member(root, "post_processor")) {
    read_post_processor(json_, *value, spec_);
  }
  if (const auto value = json_.member(root, "decoder")) {
    read_decoder(json_, *value, spec_);
  } else {
    const auto* bpe = std::get_if<BpeSpec>(&spec_.model);
    if (bpe != nullptr && bpe->options.byte_level) {
      spec_.decoder.emplace_back(ByteLevelDecode{});
    } else {
      spec_.decoder.emplace_back(JoinDecode{});
    }
  }
  put_around(source_, spec_);
  return std::move(spec_);
}

}  // namespace

TokenizerSpec read_tokenizer_json(const checkpoint::TokenizerSource& source, std::int64_t rows) {
  return Reader(source, rows).run();
}

}  // namespace quern::text
