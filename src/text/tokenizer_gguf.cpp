// GGUF metadata to TokenizerSpec. The files name their pre-tokenizer without saying what it does
// (named_splits.cpp) and lack the flags of added tokens: where those matter a tokenizer.json gives
// other ids.
#include <algorithm>

#include "base/error.h"
#include "base/errors/text.h"
#include "base/log.h"
#include "text/tokenizer_spec.h"

namespace quern::text {
namespace {

using checkpoint::TokenizerSource;

constexpr std::string_view kBlank = "\xE2\x96\x81";  // U+2581

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

// `rewrite` makes the text to be stored of an ordinary token's.
template <typename Rewrite>
void read_tokens(const TokenizerSource& source, std::int64_t rows, TokenizerSpec& spec,
                 Rewrite&& rewrite) {
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
    const auto index = static_cast<std::int64_t>(id);
    if (kind != TokenKind::kControl && kind != TokenKind::kUserDefined) {
      vocabulary.add(kind == TokenKind::kNormal ? rewrite(text) : text, index, kind);
      continue;
    }
    vocabulary.add(text, index, kind);
    AddedToken added;
    added.text = text;
    added.id = static_cast<std::int32_t>(id);
    added.special = kind == TokenKind::kControl;
    spec.added_tokens.push_back(std::move(added));
  }
}

void read_tokens(const TokenizerSource& source, std::int64_t rows, TokenizerSpec& spec) {
  read_tokens(source, rows, spec,
              [](const std::string& text) -> const std::string& { return text; });
}

std::vector<Merge> read_merges(const TokenizerSource& source, const TokenizerSpec& spec) {
  std::size_t without_result = 0;
  std::vector<Merge> merges;
  merges.reserve(source.merges.size());
  for (const std::string& line : source.merges) {
    const std::size_t blank = line.find(' ', 1);
    if (blank == std::string::npos || line.find(' ', blank + 1) != std::string::npos) {
      spec.vocabulary.fail(fmt::format("the merge {} is not two tokens", shown(line)));
    }
    const std::string_view view = line;
    const Merge merge = spec.vocabulary.merge_of(view.substr(0, blank), view.substr(blank + 1),
                                                 merges.size(), true);
    without_result += merge.result < 0;
    merges.push_back(merge);
  }
  if (without_result > 0) {
    log().warn("{}: {} of {} merges give no token of the vocabulary and are left out",
               source.origin, without_result, source.merges.size());
  }
  return merges;
}

void read_byte_level(const TokenizerSource& source, std::int64_t rows, TokenizerSpec& spec) {
  if (source.pre.empty() || source.pre == "default") {
    log().warn(
        "{} does not say how texts are split into words; they are split as GPT-2 does it, "
        "and ids may differ from those that the model was trained on",
        source.origin);
  }
  NamedSplit split = split_named(source.pre.empty() ? "default" : std::string_view(source.pre),
                                 "tokenizer.ggml.pre (the pre-tokenizer)", source.origin);
  spec.normalizer = std::move(split.normalizer);
  spec.pre_tokenizer = std::move(split.steps);
  spec.decoder.emplace_back(ByteLevelDecode{});
  read_tokens(source, rows, spec);
  BpeSpec bpe;
  bpe.options.whole_words = split.whole_words;
  bpe.merges = read_merges(source, spec);
  spec.model = std::move(bpe);
}

// BPE over blanks as U+2581 with a list of merges, as Gemma's tokenizer.json has it.
void read_gemma(const TokenizerSource& source, std::int64_t rows, TokenizerSpec& spec) {
  spec.normalizer.emplace_back(ReplaceStep{std::nullopt, " ", std::string(kBlank)});
  spec.decoder = {ReplaceDecode{std::nullopt, std::string(kBlank), " "}, ByteFallbackDecode{},
                  FuseDecode{}};
  read_tokens(source, rows, spec);
  BpeSpec bpe;
  bpe.options.byte_level = false;
  bpe.options.byte_fallback = true;
  bpe.options.fuse_unk = true;
  bpe.options.unk_id = source.unknown_token_id;
  bpe.merges = read_merges(source, spec);
  spec.model = std::move(bpe);
}

const std::vector<double>& scores_of(const TokenizerSource& source, const TokenizerSpec& spec) {
  if (source.scores.size() != source.tokens.size()) {
    spec.vocabulary.fail(
        fmt::format("{} tokens but {} scores", source.tokens.size(), source.scores.size()));
  }
  return source.scores;
}

void read_sentencepiece_bpe(const TokenizerSource& source, std::int64_t rows, TokenizerSpec& spec) {
  spec.normalizer.emplace_back(SentencePieceStep{Charsmap(source.charsmap, source.origin),
                                                 source.add_space_prefix,
                                                 source.remove_extra_whitespaces, true, false});
  spec.decoder = {ReplaceDecode{std::nullopt, std::string(kBlank), " "}, ByteFallbackDecode{},
                  FuseDecode{}};
  if (source.add_space_prefix) spec.decoder.emplace_back(StripDecode{" ", 1, 0});
  if (source.remove_extra_whitespaces) {
    spec.decoder = {SentencePieceDecode{source.add_space_prefix, true}};
  }
  read_tokens(source, rows, spec);
  BpeSpec bpe;
  bpe.options.byte_level = false;
  bpe.options.byte_fallback = true;
  bpe.options.fuse_unk = true;
  bpe.options.unk_id = source.unknown_token_id;
  bpe.merges = implied_merges(spec.vocabulary, scores_of(source, spec));
  spec.model = std::move(bpe);
}

void read_unigram(const TokenizerSource& source, std::int64_t rows, TokenizerSpec& spec) {
  spec.normalizer.emplace_back(SentencePieceStep{Charsmap(source.charsmap, source.origin),
                                                 source.add_space_prefix,
                                                 source.remove_extra_whitespaces, true, false});
  spec.decoder.emplace_back(
      SentencePieceDecode{source.add_space_prefix, source.remove_extra_whitespaces});
  read_tokens(source, rows, spec);
  UnigramSpec unigram;
  unigram.scores = scores_of(source, spec);
  unigram.options.unk_id = source.unknown_token_id;
  unigram.options.sentencepiece = true;
  unigram.options.byte_fallback = std::find(source.token_types.begin(), source.token_types.end(),
                                            6) != source.token_types.end();
  spec.model = std::move(unigram);
}

// Words begin with U+2581 there, and what goes on a word has no mark.
void read_wordpiece(const TokenizerSource& source, std::int64_t rows, TokenizerSpec& spec) {
  spec.normalizer.emplace_back(BertStep{});
  spec.pre_tokenizer = {white_space_split(), punctuation_split(SplitBehavior::kIsolated)};
  spec.decoder.emplace_back(WordPieceDecode{});
  read_tokens(source, rows, spec, [](const std::string& text) {
    if (text.starts_with(kBlank)) return text.substr(kBlank.size());
    return text.starts_with('[') && text.ends_with(']') ? text : "##" + text;  // [unused0]
  });
  WordPieceOptions pieces;
  pieces.unk_id = source.unknown_token_id;
  spec.model = std::move(pieces);
  const auto has = [&](std::int32_t id) { return spec.vocabulary.kind(id) != TokenKind::kNone; };
  if (has(source.bos_token_id)) spec.prefix.push_back(source.bos_token_id);
  if (has(source.separator_token_id)) spec.suffix.push_back(source.separator_token_id);
}

}  // namespace

TokenizerSpec read_tokenizer_gguf(const TokenizerSource& source, std::int64_t rows) {
  TokenizerSpec spec(source, rows);
  if (source.model == "gpt2") {
    read_byte_level(source, rows, spec);
  } else if (source.model == "llama") {
    read_sentencepiece_bpe(source, rows, spec);
  } else if (source.model == "gemma4") {
    read_gemma(source, rows, spec);
  } else if (source.model == "t5") {
    read_unigram(source, rows, spec);
  } else if (source.model == "bert") {
    read_wordpiece(source, rows, spec);
  } else {
    throw Error(errors::kTokenizerUnsupported, {{"component", "tokenizer.ggml.model"},
                                                {"origin", source.origin},
                                                {"value", shown(source.model)},
                                                {"allowed", "gpt2, llama, gemma4, t5, bert"}});
  }
  put_around(source, spec);
  return spec;
}

}  // namespace quern::text
