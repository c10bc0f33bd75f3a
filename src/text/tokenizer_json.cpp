// tokenizer.json to TokenizerSpec. Whatever the file asks for is either done or refused by name;
// what does not touch the encoding of a prompt (truncation, padding, decoder) is not read.
#include <simdjson.h>

#include <optional>

#include "base/error.h"
#include "base/errors/text.h"
#include "text/tokenizer_spec.h"

namespace quern::text {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::size_t kMaxBytes = std::size_t{128} << 20;
constexpr std::size_t kMaxDepth = 32;
constexpr std::size_t kMaxSteps = 32;

class Reader {
 public:
  Reader(const checkpoint::TokenizerSource& source, std::int64_t rows)
      : source_(source), spec_{Vocabulary(source.origin, rows), {}, {}, {}, false, -1} {}

  TokenizerSpec run();

 private:
  [[noreturn]] void fail(std::string what) const { spec_.vocabulary.fail(std::move(what)); }
  [[noreturn]] void refuse(std::string_view component, std::string_view value,
                           std::string_view allowed) const;

  // Typed access; an absent or null member is nullopt, one of another type an error.
  std::optional<element> member(const object& from, std::string_view key) const;
  object object_of(const element& value, std::string_view what) const;
  array array_of(const element& value, std::string_view what) const;
  std::string_view string_of(const element& value, std::string_view what) const;
  std::int64_t integer_of(const element& value, std::string_view what) const;
  bool flag(const object& from, std::string_view key, std::optional<bool> absent) const;
  std::string_view type_of(const object& from, std::string_view what) const;

  void read_normalizer(const std::optional<element>& value);
  void read_model(const object& model);
  void check_model_options(const object& model) const;
  void read_added_tokens(const std::optional<element>& value);
  void read_merges(const object& model);
  void read_pre_tokenizer(const element& value, bool nested);
  void read_split(const object& step);
  SplitBehavior behavior_of(const object& step) const;
  void read_post_processor(const element& value, bool nested);
  void read_template(const object& processor);

  const checkpoint::TokenizerSource& source_;
  TokenizerSpec spec_;
};

void Reader::refuse(std::string_view component, std::string_view value,
                    std::string_view allowed) const {
  throw Error(errors::kTokenizerUnsupported, {{"component", component},
                                              {"origin", source_.origin},
                                              {"value", value},
                                              {"allowed", allowed}});
}

std::optional<element> Reader::member(const object& from, std::string_view key) const {
  element value;
  if (from.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

object Reader::object_of(const element& value, std::string_view what) const {
  object out;
  if (value.get(out) != simdjson::SUCCESS) fail(fmt::format("{} is not an object", what));
  return out;
}

array Reader::array_of(const element& value, std::string_view what) const {
  array out;
  if (value.get(out) != simdjson::SUCCESS) fail(fmt::format("{} is not a list", what));
  return out;
}

std::string_view Reader::string_of(const element& value, std::string_view what) const {
  std::string_view out;
  if (value.get(out) != simdjson::SUCCESS) fail(fmt::format("{} is not a string", what));
  return out;
}

std::int64_t Reader::integer_of(const element& value, std::string_view what) const {
  std::int64_t out = 0;
  if (value.get(out) != simdjson::SUCCESS) fail(fmt::format("{} is not an integer", what));
  return out;
}

bool Reader::flag(const object& from, std::string_view key, std::optional<bool> absent) const {
  const std::optional<element> value = member(from, key);
  if (!value && absent) return *absent;
  bool out = false;
  if (!value || value->get(out) != simdjson::SUCCESS) {
    fail(fmt::format("{} is missing or not true or false", key));
  }
  return out;
}

std::string_view Reader::type_of(const object& from, std::string_view what) const {
  const std::optional<element> value = member(from, "type");
  if (!value) fail(fmt::format("{} has no type", what));
  return string_of(*value, fmt::format("{}.type", what));
}

void Reader::read_normalizer(const std::optional<element>& value) {
  if (!value) return;
  const object normalizer = object_of(*value, "normalizer");
  const std::string_view type = type_of(normalizer, "normalizer");
  if (type == "Sequence") {
    const std::optional<element> list = member(normalizer, "normalizers");
    if (list && array_of(*list, "normalizer.normalizers").size() == 0) return;
  }
  refuse("The normalizer", shown(type), "none");
}

void Reader::check_model_options(const object& model) const {
  double dropout = 0;
  const std::optional<element> value = member(model, "dropout");
  if (value && (value->get(dropout) != simdjson::SUCCESS || dropout != 0)) {
    refuse("model.dropout", "set", "null");
  }
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const std::optional<element> affix = member(model, key);
    if (affix && !string_of(*affix, key).empty()) {
      refuse(fmt::format("model.{}", key), "set", "null or empty");
    }
  }
  if (flag(model, "byte_fallback", false)) refuse("model.byte_fallback", "true", "false");
}

void Reader::read_model(const object& model) {
  const std::optional<element> type = member(model, "type");
  const std::optional<element> vocab = member(model, "vocab");
  const std::string_view name = type ? string_of(*type, "model.type") : "";
  // Old files name no type; only a BPE has merges.
  if (name != "BPE" && !(name.empty() && member(model, "merges"))) {
    refuse("model.type", shown(name), "BPE");
  }
  check_model_options(model);
  if (!vocab) fail("model.vocab is missing");
  for (const auto& [text, id] : object_of(*vocab, "model.vocab")) {
    spec_.vocabulary.add(text, integer_of(id, fmt::format("the id of token {}", shown(text))),
                         TokenKind::kNormal);
  }
  spec_.whole_words = flag(model, "ignore_merges", false);
}

void Reader::read_added_tokens(const std::optional<element>& value) {
  if (!value) return;
  for (const element& item : array_of(*value, "added_tokens")) {
    const object entry = object_of(item, "an added token");
    const std::optional<element> content = member(entry, "content"), id = member(entry, "id");
    if (!content || !id) fail("an added token lacks content or id");
    AddedToken token;
    token.text = string_of(*content, "the content of an added token");
    const std::int64_t wanted = integer_of(*id, "the id of an added token");
    token.special = flag(entry, "special", false);
    token.normalized = flag(entry, "normalized", !token.special);
    token.lstrip = flag(entry, "lstrip", false);
    token.rstrip = flag(entry, "rstrip", false);
    token.single_word = flag(entry, "single_word", false);
    const TokenKind kind = token.special ? TokenKind::kControl : TokenKind::kUserDefined;
    token.id = spec_.vocabulary.id_of(token.text);
    if (token.id < 0) {
      spec_.vocabulary.add(token.text, wanted, kind);
      token.id = static_cast<std::int32_t>(wanted);
    } else if (token.id != wanted) {
      fail(fmt::format("token {} has two ids, {} and {}", shown(token.text), token.id, wanted));
    } else if (spec_.vocabulary.kind(token.id) != TokenKind::kNormal) {
      fail(fmt::format("the added token {} stands twice", shown(token.text)));
    } else {
      spec_.vocabulary.set_kind(token.id, kind);
    }
    spec_.added_tokens.push_back(std::move(token));
  }
}

void Reader::read_merges(const object& model) {
  const std::optional<element> value = member(model, "merges");
  if (!value) fail("model.merges is missing");
  for (const element& item : array_of(*value, "model.merges")) {
    std::string_view left, right;
    if (item.is_string()) {
      const std::string_view line = string_of(item, "a merge");
      const std::size_t blank = line.find(' ');
      if (blank == std::string_view::npos || line.find(' ', blank + 1) != std::string_view::npos) {
        fail(fmt::format("the merge {} is not two tokens", shown(line)));
      }
      left = line.substr(0, blank);
      right = line.substr(blank + 1);
    } else {
      const array pair = array_of(item, "a merge");
      if (pair.size() != 2) fail("a merge is not two tokens");
      left = string_of(pair.at(0).value_unsafe(), "a token of a merge");
      right = string_of(pair.at(1).value_unsafe(), "a token of a merge");
    }
    spec_.merges.push_back(spec_.vocabulary.merge_of(left, right, false));
  }
}

SplitBehavior Reader::behavior_of(const object& step) const {
  const std::optional<element> value = member(step, "behavior");
  if (!value) fail("a pre_tokenizer has no behavior");
  const std::string_view name = string_of(*value, "behavior");
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  refuse("A pre_tokenizer's behavior", shown(name),
         "Isolated, Removed, Contiguous, MergedWithPrevious, MergedWithNext");
}

void Reader::read_split(const object& step) {
  const std::optional<element> value = member(step, "pattern");
  if (!value) fail("a Split pre_tokenizer has no pattern");
  const object pattern = object_of(*value, "the pattern of a Split");
  const std::optional<element> regex = member(pattern, "Regex"),
                               literal = member(pattern, "String");
  if (!regex == !literal) fail("the pattern of a Split is neither a Regex nor a String");
  const std::string_view text = string_of(regex ? *regex : *literal, "the pattern of a Split");
  spec_.pre_tokenizer.emplace_back(SplitStep{Regex(text, literal.has_value(), source_.origin),
                                             behavior_of(step), flag(step, "invert", false)});
}

void Reader::read_pre_tokenizer(const element& value, bool nested) {
  const object step = object_of(value, "pre_tokenizer");
  const std::string_view type = type_of(step, "pre_tokenizer");
  if (spec_.pre_tokenizer.size() >= kMaxSteps) fail("pre_tokenizer has too many steps");
  if (type == "Sequence" && !nested) {
    const std::optional<element> list = member(step, "pretokenizers");
    if (!list) fail("a Sequence pre_tokenizer has no pretokenizers");
    for (const element& item : array_of(*list, "pretokenizers")) read_pre_tokenizer(item, true);
  } else if (type == "ByteLevel") {
    spec_.pre_tokenizer.emplace_back(
        ByteLevelStep{flag(step, "add_prefix_space", std::nullopt), flag(step, "use_regex", true)});
  } else if (type == "Digits") {
    spec_.pre_tokenizer.push_back(digits_split(flag(step, "individual_digits", false)));
  } else if (type == "Punctuation") {
    spec_.pre_tokenizer.push_back(
        punctuation_split(member(step, "behavior") ? behavior_of(step) : SplitBehavior::kIsolated));
  } else if (type == "Split") {
    read_split(step);
  } else {
    refuse("A pre_tokenizer", shown(type), "ByteLevel, Digits, Punctuation, Split, one Sequence");
  }
}

// Takes the token that the template puts first, as Llama 3's files say it.
void Reader::read_template(const object& processor) {
  const std::optional<element> single = member(processor, "single");
  if (!single) fail("a TemplateProcessing has no single");
  bool text_seen = false;
  for (const element& item : array_of(*single, "TemplateProcessing.single")) {
    const object piece = object_of(item, "a piece of TemplateProcessing");
    const std::optional<element> special = member(piece, "SpecialToken");
    if (!special) {
      text_seen = true;
      continue;
    }
    const std::optional<element> name = member(object_of(*special, "SpecialToken"), "id");
    if (!name) fail("a SpecialToken has no id");
    const std::string_view text = string_of(*name, "SpecialToken.id");
    const std::int32_t id = spec_.vocabulary.id_of(text);
    if (id < 0) fail(fmt::format("TemplateProcessing adds the unknown token {}", shown(text)));
    if (text_seen || spec_.bos_id >= 0) {
      refuse("post_processor", fmt::format("a template that adds {}", shown(text)),
             "one token before the text");
    }
    spec_.bos_id = id;
  }
}

void Reader::read_post_processor(const element& value, bool nested) {
  const object processor = object_of(value, "post_processor");
  const std::string_view type = type_of(processor, "post_processor");
  if (type == "Sequence" && !nested) {
    const std::optional<element> list = member(processor, "processors");
    if (!list) fail("a Sequence post_processor has no processors");
    for (const element& item : array_of(*list, "processors")) read_post_processor(item, true);
  } else if (type == "TemplateProcessing") {
    read_template(processor);
  } else if (type != "ByteLevel") {  // which only moves offsets
    refuse("A post_processor", shown(type), "ByteLevel, TemplateProcessing, one Sequence");
  }
}

TokenizerSpec Reader::run() {
  const std::string& text = source_.tokenizer_json;
  if (text.size() > kMaxBytes) {
    fail(fmt::format("tokenizer.json has {} bytes (at most {})", text.size(), kMaxBytes));
  }
  simdjson::dom::parser parser(kMaxBytes);
  element document;
  simdjson::error_code error = parser.allocate(text.size(), kMaxDepth);
  if (error == simdjson::SUCCESS) error = parser.parse(text.data(), text.size()).get(document);
  if (error != simdjson::SUCCESS) {
    fail(fmt::format("tokenizer.json cannot be read: {}", simdjson::error_message(error)));
  }
  const object root = object_of(document, "tokenizer.json");
  const std::optional<element> model = member(root, "model");
  const std::optional<element> pre = member(root, "pre_tokenizer");
  if (!model) fail("tokenizer.json has no model");
  const object bpe = object_of(*model, "model");
  read_normalizer(member(root, "normalizer"));
  if (pre) read_pre_tokenizer(*pre, false);
  std::size_t byte_levels = 0;
  for (const PreTokenizerStep& step : spec_.pre_tokenizer) {
    byte_levels += std::holds_alternative<ByteLevelStep>(step);
  }
  read_model(bpe);
  if (byte_levels != 1) {
    refuse("pre_tokenizer", fmt::format("one with {} ByteLevel steps", byte_levels),
           "exactly one ByteLevel step");
  }
  read_added_tokens(member(root, "added_tokens"));
  read_merges(bpe);
  if (const auto post = member(root, "post_processor")) read_post_processor(*post, false);
  if (source_.add_bos) spec_.bos_id = source_.bos_token_id;
  return std::move(spec_);
}

}  // namespace

TokenizerSpec read_tokenizer_json(const checkpoint::TokenizerSource& source, std::int64_t rows) {
  return Reader(source, rows).run();
}

}  // namespace quern::text
