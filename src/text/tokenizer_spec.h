// A tokenizer as its file describes it, read and checked: what tokenizer_json and tokenizer_gguf
// give and BpeTokenizer is made of.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "text/added_tokens.h"
#include "text/pre_tokenizer.h"
#include "text/vocabulary.h"

namespace quern::text {

struct TokenizerSpec {
  Vocabulary vocabulary;
  std::vector<Merge> merges;  // in order of rank
  std::vector<AddedToken> added_tokens;
  std::vector<PreTokenizerStep> pre_tokenizer;  // with exactly one ByteLevelStep
  bool whole_words = false;                     // ignore_merges
  std::int32_t bos_id = -1;                     // put first; -1: none is
};

// From the text of a tokenizer.json. Throws: kTokenizerUnsupported, kTokenizerInvalid.
TokenizerSpec read_tokenizer_json(const checkpoint::TokenizerSource& source, std::int64_t rows);

// From tokenizer.ggml.* of a GGUF file. Throws: kTokenizerUnsupported, kTokenizerInvalid.
TokenizerSpec read_tokenizer_gguf(const checkpoint::TokenizerSource& source, std::int64_t rows);

}  // namespace quern::text
