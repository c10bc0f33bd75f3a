// Splits that files name without saying what they do: tokenizer.ggml.pre of GGUF files, and the
// encodings of tiktoken files. Each is what the tokenizer.json of the models says.
#include <fmt/ranges.h>

#include <array>
#include <string_view>

#include "base/error.h"
#include "base/errors/text.h"
#include "text/tokenizer_spec.h"

namespace quern::text {
namespace {

constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
    R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kCl100kPattern =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|)"
    R"(\s++(?![\s\S])|\s*[\r\n]|\s+(?!\S)|\s)";
constexpr std::string_view kO200kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepseekWords =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Han characters stand alone. The classes that leave them out are written as what they are not, for
// PCRE2 has no intersection of classes: not Ll, N, P, S, Z, C is Lu, Lt, Lm, Lo, M.
constexpr std::string_view kKimiPattern =
    R"([\p{sc:Han}]+|)"
    R"([^\r\n\p{L}\p{N}]?[^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]*)"
    R"([^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]+)"
    R"([^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSeedCoderPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kBailingPattern =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|)"
    R"(\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kBloomPattern = R"( ?[^(\s|.,!?…。，、।۔،)]+)";

using Steps = std::vector<PreTokenizerStep>;

PreTokenizerStep isolate(std::string_view pattern) {
  return SplitStep{Regex(pattern, false, "quern"), SplitBehavior::kIsolated, false};
}

NamedSplit gpt2() { return {{}, {ByteLevelStep{false, true}}, false}; }
NamedSplit digits_then_gpt2() {
  return {{}, {digits_split(true), ByteLevelStep{false, true}}, false};
}
NamedSplit one(std::string_view pattern, bool whole_words = false) {
  return {{}, {isolate(pattern), ByteLevelStep{false, false}}, whole_words};
}
NamedSplit llama3() { return one(kLlama3Pattern, true); }
NamedSplit dbrx() { return one(kLlama3Pattern); }
NamedSplit qwen2() {
  NamedSplit split = one(kQwen2Pattern);
  split.normalizer.emplace_back(UnicodeForm::kNfc);
  return split;
}
NamedSplit qwen35() {
  NamedSplit split = one(kQwen35Pattern);
  split.normalizer.emplace_back(UnicodeForm::kNfc);
  return split;
}
NamedSplit stablelm2() { return one(kQwen2Pattern); }
NamedSplit cl100k() { return one(kCl100kPattern, true); }
NamedSplit o200k() { return one(kO200kPattern, true); }
NamedSplit gpt4o() { return one(kO200kPattern); }
NamedSplit kimi() { return one(kKimiPattern, true); }
NamedSplit seed_coder() { return one(kSeedCoderPattern); }
NamedSplit bailing() { return one(kBailingPattern); }
NamedSplit tekken() { return one(kTekkenPattern, true); }
NamedSplit deepseek_v3() {
  return {{},
          {isolate(R"(\p{N}{1,3})"), isolate(R"([一-龥぀-ゟ゠-ヿ]+)"),
           isolate(kDeepseekWords), ByteLevelStep{false, false}},
          false};
}
NamedSplit falcon() {
  return {{},
          {punctuation_split(SplitBehavior::kContiguous), ByteLevelStep{false, true},
           digits_split(false), isolate("[0-9][0-9][0-9]")},
          false};
}
NamedSplit bloom() { return one(kBloomPattern); }
NamedSplit viking() {
  return {{}, {isolate(kBloomPattern), isolate(R"(\p{N})"), ByteLevelStep{false, false}}, false};
}
NamedSplit deepseek_coder() {
  return {{},
          {isolate("[\r\n]"), isolate(R"(\s?\p{L}+)"), isolate(R"(\s?\p{P}+)"),
           isolate("[一-龥ࠀ-一가-퟿]+"), digits_split(true), ByteLevelStep{false, false}},
          false};
}

struct Known {
  std::string_view name;
  NamedSplit (*split)();
};

constexpr std::array<Known, 53> kKnown = {{
    {"gpt-2", gpt2},
    {"gpt2", gpt2},
    {"default", gpt2},
    {"mpt", gpt2},
    {"olmo", gpt2},
    {"jais", gpt2},
    {"trillion", gpt2},
    {"phi-2", gpt2},
    {"granite-docling", gpt2},
    {"smollm", digits_then_gpt2},
    {"starcoder", digits_then_gpt2},
    {"refact", digits_then_gpt2},
    {"command-r", digits_then_gpt2},
    {"codeshell", digits_then_gpt2},
    {"exaone", digits_then_gpt2},
    {"minerva-7b", digits_then_gpt2},
    {"llama-bpe", llama3},
    {"llama3", llama3},
    {"llama-v3", llama3},
    {"falcon3", llama3},
    {"falcon-h1", llama3},
    {"lfm2", llama3},
    {"midm-2.0", llama3},
    {"pixtral", llama3},
    {"dbrx", dbrx},
    {"smaug-bpe", dbrx},
    {"chatglm-bpe", dbrx},
    {"glm4", dbrx},
    {"qwen2", qwen2},
    {"deepseek-r1-qwen", qwen2},
    {"megrez", qwen2},
    {"qwen35", qwen35},
    {"stablelm2", stablelm2},
    {"hunyuan", stablelm2},
    {"grok-2", stablelm2},
    {"cl100k", cl100k},
    {"o200k", o200k},
    {"gpt-4o", gpt4o},
    {"llama4", gpt4o},
    {"minimax-m2", gpt4o},
    {"kimi-k2", kimi},
    {"seed-coder", seed_coder},
    {"bailingmoe", bailing},
    {"bailingmoe2", bailing},
    {"tekken", tekken},
    {"deepseek-v3", deepseek_v3},
    {"hunyuan-dense", deepseek_v3},
    {"deepseek-coder", deepseek_coder},
    {"falcon", falcon},
    {"bloom", bloom},
    {"poro-chat", bloom},
    {"gpt3-finnish", bloom},
    {"viking", viking},
}};

}  // namespace

NamedSplit split_named(std::string_view name, std::string_view component, std::string_view origin) {
  std::vector<std::string_view> served;
  for (const Known& known : kKnown) {
    if (known.name == name) return known.split();
    served.push_back(known.name);
  }
  throw Error(errors::kTokenizerUnsupported,
              {{"component", component},
               {"origin", origin},
               {"value", shown(name)},
               {"allowed", fmt::format("{}", fmt::join(served, ", "))}});
}

}  // namespace quern::text
