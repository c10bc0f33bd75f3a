// Times a tokenizer on a text, on the calling thread. Called by `quern bench tokenizer`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quern::engine {

struct TokenizerBenchmark {
  std::int64_t bytes = 0, tokens = 0;  // of the text
  double load_seconds = 0;             // reading the file and making the tokenizer
  std::vector<double> encode, decode;  // seconds of each repeat
  bool same = false;                   // decoding gives the text back
  std::uint64_t ids_hash = 0;  // FNV-1a over the ids, to compare them with another program's
};

// `path`: a model, or a tokenizer's file by itself (tokenizer.json, tokenizer.model, tekken.json,
// *.tiktoken). The text is encoded whole, as a user's. Throws: the errors of reading both.
TokenizerBenchmark measure_tokenizer(const std::string& path, const std::string& text_file,
                                     std::int64_t repeats);

}  // namespace quern::engine
