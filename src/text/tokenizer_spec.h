// A tokenizer as its file describes it, read and checked: what the readers of the file formats give
// and the tokenizer is made of.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/unigram.h"
#include "text/vocabulary.h"
#include "text/wordpiece.h"

namespace quern::text {

struct BpeSpec {
  std::vector<Merge> merges;
  BpeOptions options;
};
struct UnigramSpec {
  std::vector<double> scores;  // by id
  UnigramOptions options;
};
using ModelSpec = std::variant<BpeSpec, UnigramSpec, WordPieceOptions>;

struct TokenizerSpec {
  TokenizerSpec(const checkpoint::TokenizerSource& source, std::int64_t rows)
      : vocabulary(source.origin, rows) {}

  Vocabulary vocabulary;
  ModelSpec model;
  std::vector<AddedToken> added_tokens;
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  std::vector<DecoderStep> decoder;
  std::vector<std::int32_t> prefix, suffix;  // put before and behind a text
  std::string unknown_text;                  // what a token of kind kUnknown writes
};

// Each throws kTokenizerUnsupported and kTokenizerInvalid.
// From the text of a tokenizer.json.
TokenizerSpec read_tokenizer_json(const checkpoint::TokenizerSource& source, std::int64_t rows);
// From tokenizer.ggml.* of a GGUF file.
TokenizerSpec read_tokenizer_gguf(const checkpoint::TokenizerSource& source, std::int64_t rows);
// From source.model_file: a SentencePiece model, a tiktoken file or a tekken.json.
TokenizerSpec read_sentencepiece(const checkpoint::TokenizerSource& source, std::int64_t rows);
TokenizerSpec read_tiktoken(const checkpoint::TokenizerSource& source, std::int64_t rows);
TokenizerSpec read_tekken(const checkpoint::TokenizerSource& source, std::int64_t rows);

// For those readers.
// Puts the tokens of tokenizer_config.json into the vocabulary and the list; those of the file keep
// their ids.
void add_tokens(const checkpoint::TokenizerSource& source, TokenizerSpec& spec);
// Puts the beginning and end tokens around texts where the source asks for them and the file does
// not yet.
void put_around(const checkpoint::TokenizerSource& source, TokenizerSpec& spec);
// The merges that the tokens of a vocabulary without a list of merges imply: every cut of a token
// in two tokens. `scores` by id: the highest goes first.
std::vector<Merge> implied_merges(const Vocabulary& vocabulary, const std::vector<double>& scores);
// Pre-tokenizers that a file names without saying what they do.
struct NamedSplit {
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> steps;  // with a ByteLevelStep
  bool whole_words = false;
};
// Throws: kTokenizerUnsupported; `component` and `origin` are for the message.
NamedSplit split_named(std::string_view name, std::string_view component, std::string_view origin);

}  // namespace quern::text
