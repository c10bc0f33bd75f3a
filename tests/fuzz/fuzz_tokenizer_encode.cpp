// libFuzzer target: any bytes as a text, in trusted and untrusted pieces, through a byte-level BPE,
// a BPE over characters with normalizers, a Unigram and a WordPiece. Ids stay in range, bytes come
// back from the byte-level model, and decoding gives valid UTF-8, the same pushed one by one.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace {

using quern::text::Tokenizer;

std::unique_ptr<Tokenizer> from_json(std::string text) {
  quern::checkpoint::TokenizerSource source;
  source.tokenizer_json = std::move(text);
  source.origin = "fuzz";
  return Tokenizer::create(source, 1000);
}

std::unique_ptr<Tokenizer> byte_level() {
  quern::checkpoint::TokenizerSource source;
  source.model = "gpt2";
  source.pre = "llama-bpe";
  source.origin = "fuzz";
  source.tokens = {"<s>", "<|end|>"};
  source.token_types = {3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    source.tokens.emplace_back(quern::text::alphabet_of(static_cast<std::uint8_t>(byte)));
    source.token_types.push_back(1);
  }
  for (const char* merge : {"a a", "aa aa", "Ġ a", "Ġ Ġ"}) {
    const std::string line = merge;
    source.merges.push_back(line);
    source.tokens.push_back(line.substr(0, line.find(' ')) + line.substr(line.find(' ') + 1));
    source.token_types.push_back(1);
  }
  return Tokenizer::create(source, 1000);
}

const std::vector<std::unique_ptr<Tokenizer>>& tokenizers() {
  static const std::vector<std::unique_ptr<Tokenizer>> all = [] {
    std::vector<std::unique_ptr<Tokenizer>> out;
    out.push_back(byte_level());
    out.push_back(from_json(R"({"added_tokens":[{"id":9,"content":"<|end|>","special":true},
      {"id":10,"content":"No","special":false,"normalized":true,"lstrip":true,"rstrip":true,
       "single_word":true}],
      "normalizer":{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Prepend",
       "prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]},
      "model":{"type":"BPE","unk_token":"<unk>","fuse_unk":true,"byte_fallback":false,
       "vocab":{"<unk>":0,"▁":1,"a":2,"b":3,"▁a":4,"ab":5,"é":6,"bb":7,"bbb":8},
       "merges":[["▁","a"],["a","b"],["b","b"],["bb","b"]]}})"));
    out.push_back(from_json(R"({"pre_tokenizer":{"type":"Metaspace"},"decoder":{"type":"Metaspace"},
      "normalizer":{"type":"NFD"},"added_tokens":[{"id":5,"content":"<|end|>","special":true}],
      "model":{"type":"Unigram","unk_id":0,
       "vocab":[["<unk>",0],["▁",-1],["a",-2],["aa",-3],["▁b",-2.5]]}})"));
    out.push_back(from_json(R"({"normalizer":{"type":"BertNormalizer"},
      "pre_tokenizer":{"type":"BertPreTokenizer"},"decoder":{"type":"WordPiece"},
      "model":{"type":"WordPiece","unk_token":"[UNK]","vocab":{"[UNK]":0,"a":1,"##a":2,"b":3}}})"));
    return out;
  }();
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  for (const auto& tokenizer : tokenizers()) {
    const std::vector<quern::PromptPiece> pieces = {{input.substr(0, size / 3), true},
                                                    {input.substr(size / 3, size / 3), false},
                                                    {input.substr(size / 3 * 2), true}};
    const auto ids = tokenizer->encode(pieces);
    quern::text::Detokenizer detokenizer(*tokenizer);
    std::string pushed;
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= tokenizer->size()) __builtin_trap();
      pushed += detokenizer.push(id);
    }
    pushed += detokenizer.flush();
    const std::string text = quern::text::decode(*tokenizer, ids);
    if (text != pushed || quern::valid_utf8(text) != text) __builtin_trap();
    if (tokenizer == tokenizers().front()) {
      std::string bytes;
      for (const std::int32_t id : tokenizer->encode(input, false)) bytes += tokenizer->bytes(id);
      if (bytes != input) __builtin_trap();
    }
  }
  return 0;
}
