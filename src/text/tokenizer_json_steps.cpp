#include "text/tokenizer_json_steps.h"

#include <limits>

#include "text/base64.h"
#include "text/utf8.h"

namespace quern::text {
namespace {

using element = JsonFields::element;
using object = JsonFields::object;

constexpr std::size_t kMaxSteps = 32;
constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();

// The members of a Sequence; Sequences within Sequences are taken apart, `depth` deep.
template <typename Each>
void each_step(const JsonFields& json, const object& step, std::string_view list,
               std::string_view what, int depth, Each&& each) {
  if (depth > 4) json.fail(fmt::format("{} has Sequences too deep in each other", what));
  for (const element& item : json.array_of(json.required(step, list, what), list)) {
    each(json.object_of(item, what), depth + 1);
  }
}

// {"Regex": …} or {"String": …}.
struct Pattern {
  std::optional<Regex> regex;
  std::string literal;
};

Pattern pattern_of(const JsonFields& json, const object& step, std::string_view what) {
  const object pattern =
      json.object_of(json.required(step, "pattern", what), fmt::format("the pattern of {}", what));
  const std::optional<element> regex = json.member(pattern, "Regex"),
                               literal = json.member(pattern, "String");
  if (!regex == !literal) {
    json.fail(fmt::format("the pattern of {} is neither a Regex nor a String", what));
  }
  const std::string_view text =
      json.string_of(regex ? *regex : *literal, fmt::format("the pattern of {}", what));
  if (regex) return {Regex(text, false, json.origin()), {}};
  if (text.empty()) json.fail(fmt::format("the pattern of {} is empty", what));
  return {std::nullopt, std::string(text)};
}

template <typename Steps>
void check_count(const JsonFields& json, const Steps& steps, std::string_view what) {
  if (steps.size() >= kMaxSteps) json.fail(fmt::format("{} has too many steps", what));
}

void read_normalizer_step(const JsonFields& json, const object& step, int depth,
                          TokenizerSpec& spec) {
  constexpr std::string_view kWhat = "normalizer";
  const std::string_view type = json.type_of(step, kWhat);
  auto& steps = spec.normalizer;
  check_count(json, steps, kWhat);
  if (type == "Sequence") {
    each_step(json, step, "normalizers", kWhat, depth, [&](const object& item, int below) {
      read_normalizer_step(json, item, below, spec);
    });
  } else if (type == "NFC") {
    steps.emplace_back(UnicodeForm::kNfc);
  } else if (type == "NFD") {
    steps.emplace_back(UnicodeForm::kNfd);
  } else if (type == "NFKC") {
    steps.emplace_back(UnicodeForm::kNfkc);
  } else if (type == "NFKD") {
    steps.emplace_back(UnicodeForm::kNfkd);
  } else if (type == "Lowercase") {
    steps.emplace_back(LowercaseStep{});
  } else if (type == "StripAccents") {
    steps.emplace_back(StripAccentsStep{});
  } else if (type == "Nmt") {
    steps.emplace_back(NmtStep{});
  } else if (type == "Prepend") {
    steps.emplace_back(PrependStep{std::string(json.text(step, "prepend", ""))});
  } else if (type == "Strip") {
    steps.emplace_back(
        StripStep{json.flag(step, "strip_left", true), json.flag(step, "strip_right", true)});
  } else if (type == "Replace") {
    Pattern pattern = pattern_of(json, step, "a Replace normalizer");
    steps.emplace_back(ReplaceStep{std::move(pattern.regex), std::move(pattern.literal),
                                   std::string(json.text(step, "content", ""))});
  } else if (type == "BertNormalizer") {
    const bool lowercase = json.flag(step, "lowercase", true);
    steps.emplace_back(BertStep{json.flag(step, "clean_text", true),
                                json.flag(step, "handle_chinese_chars", true),
                                json.flag(step, "strip_accents", lowercase), lowercase});
  } else if (type == "Precompiled") {
    const auto blob = from_base64(json.text(step, "precompiled_charsmap", ""));
    if (!blob) json.fail("precompiled_charsmap is not base64");
    if (!blob->empty()) steps.emplace_back(CharsmapStep{Charsmap(*blob, json.origin())});
  } else {
    json.refuse("The normalizer", shown(type),
                "NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Nmt, Prepend, Strip, Replace, "
                "BertNormalizer, Precompiled, Sequence");
  }
}

SplitBehavior behavior_of(const JsonFields& json, const object& step) {
  const std::string_view name =
      json.string_of(json.required(step, "behavior", "a pre_tokenizer"), "behavior");
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  json.refuse("A pre_tokenizer's behavior", shown(name),
              "Isolated, Removed, Contiguous, MergedWithPrevious, MergedWithNext");
}

// One character that stands for a blank.
std::string replacement_of(const JsonFields& json, const object& step) {
  const std::string_view text = json.text(step, "replacement", "\xE2\x96\x81");
  const Utf8Step first = text.empty() ? Utf8Step{0, Utf8Kind::kInvalid} : utf8_step(text);
  if (first.kind != Utf8Kind::kValid || first.length != text.size()) {
    json.fail("the replacement of a Metaspace is not one character");
  }
  return std::string(text);
}

MetaspaceStep::Prepend prepend_of(const JsonFields& json, const object& step) {
  using Prepend = MetaspaceStep::Prepend;
  const std::string_view scheme = json.text(step, "prepend_scheme", "");
  if (scheme == "always") return Prepend::kAlways;
  if (scheme == "first") return Prepend::kFirst;
  if (scheme == "never") return Prepend::kNever;
  if (!scheme.empty()) json.refuse("prepend_scheme", shown(scheme), "always, first, never");
  return json.flag(step, "add_prefix_space", true) ? Prepend::kAlways : Prepend::kNever;
}

void read_pre_tokenizer_step(const JsonFields& json, const object& step, int depth,
                             TokenizerSpec& spec) {
  constexpr std::string_view kWhat = "pre_tokenizer";
  const std::string_view type = json.type_of(step, kWhat);
  auto& steps = spec.pre_tokenizer;
  check_count(json, steps, kWhat);
  if (type == "Sequence") {
    each_step(json, step, "pretokenizers", kWhat, depth, [&](const object& item, int below) {
      read_pre_tokenizer_step(json, item, below, spec);
    });
  } else if (type == "ByteLevel") {
    steps.emplace_back(ByteLevelStep{json.flag(step, "add_prefix_space", std::nullopt),
                                     json.flag(step, "use_regex", true)});
  } else if (type == "Digits") {
    steps.push_back(digits_split(json.flag(step, "individual_digits", false)));
  } else if (type == "Punctuation") {
    steps.push_back(punctuation_split(json.member(step, "behavior") ? behavior_of(json, step)
                                                                    : SplitBehavior::kIsolated));
  } else if (type == "Split") {
    Pattern pattern = pattern_of(json, step, "a Split");
    if (!pattern.regex) pattern.regex.emplace(pattern.literal, true, json.origin());
    steps.emplace_back(SplitStep{std::move(*pattern.regex), behavior_of(json, step),
                                 json.flag(step, "invert", false)});
  } else if (type == "CharDelimiterSplit") {
    steps.emplace_back(SplitStep{Regex(json.text(step, "delimiter", ""), true, json.origin()),
                                 SplitBehavior::kRemoved, false});
  } else if (type == "WhitespaceSplit") {
    steps.push_back(white_space_split());
  } else if (type == "Whitespace") {
    steps.push_back(word_split());
  } else if (type == "BertPreTokenizer") {
    steps.push_back(white_space_split());
    steps.push_back(punctuation_split(SplitBehavior::kIsolated));
  } else if (type == "Metaspace") {
    steps.emplace_back(MetaspaceStep{replacement_of(json, step), prepend_of(json, step),
                                     json.flag(step, "split", true)});
  } else {
    json.refuse("A pre_tokenizer", shown(type),
                "ByteLevel, Digits, Punctuation, Split, CharDelimiterSplit, Whitespace, "
                "WhitespaceSplit, BertPreTokenizer, Metaspace, Sequence");
  }
}

// The ids that a template's special token stands for.
void add_special(const JsonFields& json, const object& processor, std::string_view name,
                 const TokenizerSpec& spec, std::vector<std::int32_t>& out) {
  constexpr std::size_t kMaxAround = 64;
  std::optional<element> found;
  if (const auto table = json.member(processor, "special_tokens")) {
    found = json.member(json.object_of(*table, "special_tokens"), name);
  }
  if (found) {
    const element ids = json.required(json.object_of(*found, name), "ids", "a special token");
    for (const element& id : json.array_of(ids, "the ids of a special token")) {
      const std::int64_t value = json.integer_of(id, "the id of a special token");
      if (value < 0 || value > kInt32Max ||
          spec.vocabulary.kind(static_cast<std::int32_t>(value)) == TokenKind::kNone) {
        json.fail(fmt::format("the post_processor adds id {}, which has no token", value));
      }
      out.push_back(static_cast<std::int32_t>(value));
    }
  } else {
    const std::int32_t id = spec.vocabulary.id_of(name);
    if (id < 0) json.fail(fmt::format("the post_processor adds the unknown token {}", shown(name)));
    out.push_back(id);
  }
  if (out.size() > kMaxAround) json.fail("the post_processor adds too many tokens");
}

void read_template(const JsonFields& json, const object& processor, TokenizerSpec& spec) {
  std::vector<std::int32_t> before, behind;
  int texts = 0;
  for (const element& item : json.array_of(json.required(processor, "single", "TemplateProcessing"),
                                           "TemplateProcessing.single")) {
    const object piece = json.object_of(item, "a piece of TemplateProcessing");
    const std::optional<element> special = json.member(piece, "SpecialToken");
    if (!special) {
      ++texts;
      continue;
    }
    const std::string_view name = json.string_of(
        json.required(json.object_of(*special, "SpecialToken"), "id", "SpecialToken"),
        "SpecialToken.id");
    add_special(json, processor, name, spec, texts == 0 ? before : behind);
  }
  if (texts != 1) {
    json.refuse("post_processor", fmt::format("a template with {} texts", texts), "one text");
  }
  // Of several processors the later one stands outside.
  spec.prefix.insert(spec.prefix.begin(), before.begin(), before.end());
  spec.suffix.insert(spec.suffix.end(), behind.begin(), behind.end());
}

// "cls": ["<s>", 0]
std::int32_t pair_id(const JsonFields& json, const object& processor, std::string_view key,
                     const TokenizerSpec& spec) {
  const auto pair = json.array_of(json.required(processor, key, "post_processor"), key);
  if (pair.size() != 2) json.fail(fmt::format("{} is not a token and its id", key));
  const std::int64_t id = json.integer_of(pair.at(1).value_unsafe(), key);
  if (id < 0 || id > kInt32Max ||
      spec.vocabulary.kind(static_cast<std::int32_t>(id)) == TokenKind::kNone) {
    json.fail(fmt::format("{} has id {}, which has no token", key, id));
  }
  return static_cast<std::int32_t>(id);
}

void read_post_processor_step(const JsonFields& json, const object& step, int depth,
                              TokenizerSpec& spec) {
  const std::string_view type = json.type_of(step, "post_processor");
  if (type == "Sequence") {
    each_step(
        json, step, "processors", "post_processor", depth,
        [&](const object& item, int below) { read_post_processor_step(json, item, below, spec); });
  } else if (type == "TemplateProcessing") {
    read_template(json, step, spec);
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    spec.prefix.insert(spec.prefix.begin(), pair_id(json, step, "cls", spec));
    spec.suffix.push_back(pair_id(json, step, "sep", spec));
  } else if (type != "ByteLevel") {  // which only moves offsets
    json.refuse("A post_processor", shown(type),
                "ByteLevel, TemplateProcessing, RobertaProcessing, BertProcessing, Sequence");
  }
}

void read_decoder_step(const JsonFields& json, const object& step, int depth, TokenizerSpec& spec) {
  constexpr std::string_view kWhat = "decoder";
  const std::string_view type = json.type_of(step, kWhat);
  auto& steps = spec.decoder;
  check_count(json, steps, kWhat);
  bool fused = false;
  for (const DecoderStep& before : steps) fused |= std::holds_alternative<FuseDecode>(before);
  if (type == "Sequence") {
    each_step(json, step, "decoders", kWhat, depth,
              [&](const object& item, int below) { read_decoder_step(json, item, below, spec); });
  } else if (type == "Strip") {
    const std::string_view content = json.text(step, "content", " ");
    if (content.empty()) json.fail("the content of a Strip decoder is empty");
    const auto count = [&](std::string_view key) {
      return static_cast<std::int32_t>(json.integer(step, key, 0, 0, 1024));
    };
    steps.emplace_back(StripDecode{std::string(content), count("start"), count("stop")});
  } else if (type == "Fuse") {
    steps.emplace_back(FuseDecode{});
  } else if (fused) {
    json.refuse("A decoder behind Fuse", shown(type), "Strip");
  } else if (type == "ByteLevel") {
    steps.emplace_back(ByteLevelDecode{});
  } else if (type == "ByteFallback") {
    steps.emplace_back(ByteFallbackDecode{});
  } else if (type == "Replace") {
    Pattern pattern = pattern_of(json, step, "a Replace decoder");
    steps.emplace_back(ReplaceDecode{std::move(pattern.regex), std::move(pattern.literal),
                                     std::string(json.text(step, "content", ""))});
  } else if (type == "Metaspace") {
    steps.emplace_back(MetaspaceDecode{replacement_of(json, step),
                                       prepend_of(json, step) != MetaspaceStep::Prepend::kNever});
  } else if (type == "WordPiece") {
    steps.emplace_back(WordPieceDecode{std::string(json.text(step, "prefix", "##")),
                                       json.flag(step, "cleanup", true)});
  } else {
    json.refuse("A decoder", shown(type),
                "ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace, WordPiece, Sequence");
  }
}

}  // namespace

void read_normalizer(const JsonFields& json, const element& value, TokenizerSpec& spec) {
  read_normalizer_step(json, json.object_of(value, "normalizer"), 0, spec);
}

void read_pre_tokenizer(const JsonFields& json, const element& value, TokenizerSpec& spec) {
  read_pre_tokenizer_step(json, json.object_of(value, "pre_tokenizer"), 0, spec);
  int byte_levels = 0;
  for (const PreTokenizerStep& step : spec.pre_tokenizer) {
    byte_levels += std::holds_alternative<ByteLevelStep>(step);
  }
  if (byte_levels > 1) {
    json.refuse("pre_tokenizer", fmt::format("one with {} ByteLevel steps", byte_levels),
                "at most one ByteLevel step");
  }
}

void read_post_processor(const JsonFields& json, const element& value, TokenizerSpec& spec) {
  read_post_processor_step(json, json.object_of(value, "post_processor"), 0, spec);
}

void read_decoder(const JsonFields& json, const element& value, TokenizerSpec& spec) {
  read_decoder_step(json, json.object_of(value, "decoder"), 0, spec);
}

}  // namespace quern::text
