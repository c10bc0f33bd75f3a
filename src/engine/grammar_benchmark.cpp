#include "engine/grammar_benchmark.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "base/error.h"
#include "base/errors/grammar.h"
#include "checkpoint/mapped_file.h"
#include "engine/open_tokenizer.h"
#include "grammar/grammar.h"

namespace quern::engine {
namespace {

constexpr int kTokens = 256;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The ids that the mask allows, in order.
std::vector<std::int32_t> allowed(const grammar::Mask& mask) {
  std::vector<std::int32_t> ids;
  for (size_t word = 0; word < mask.size(); ++word) {
    for (auto bits = static_cast<std::uint32_t>(mask[word]); bits != 0; bits &= bits - 1) {
      ids.push_back(static_cast<std::int32_t>(word * 32) + __builtin_ctz(bits));
    }
  }
  return ids;
}

void draw(const std::shared_ptr<const grammar::Compiled>& compiled, std::mt19937_64* random,
          GrammarBenchmark* result) {
  grammar::Matcher matcher(compiled);
  grammar::Mask mask;
  for (int i = 0; i < kTokens && !matcher.ended(); ++i) {
    const double begin = now();
    matcher.fill(&mask);
    result->mask_seconds.push_back(now() - begin);
    const std::vector<std::int32_t> ids = allowed(mask);
    if (ids.empty() || !matcher.accept(ids[(*random)() % ids.size()])) return;
    ++result->tokens;
    if (matcher.complete()) continue;
    for (const std::int32_t forced : matcher.forced()) {
      if (!matcher.accept(forced)) return;
      ++result->tokens;
      ++result->forced;
    }
  }
}

}  // namespace

GrammarBenchmarks measure_grammars(const std::string& path, const std::string& schemas,
                                   std::int64_t answers) {
  const OpenedTokenizer opened = open_tokenizer(path);
  const text::Tokenizer& tokenizer = *opened.tokenizer;
  grammar::Json all;
  try {
    all = grammar::parse_bounded(checkpoint::read_text_file(schemas));
  } catch (const Error& syntax) {
    if (syntax.id() != errors::kGrammarInvalid) throw;
    throw Error(errors::kGrammarInvalid,
                {{"kind", "json_schema"}, {"detail", syntax.field("detail")}});
  }
  GrammarBenchmarks results;
  const double begin = now();
  std::vector<std::string> bytes(static_cast<size_t>(tokenizer.size()));
  std::int32_t end = 0;  // some id that writes nothing stands for the end
  for (std::int32_t id = 0; id < tokenizer.size(); ++id) {
    bytes[static_cast<size_t>(id)] = tokenizer.bytes(id);
    if (bytes[static_cast<size_t>(id)].empty()) end = id;
  }
  results.vocab = tokenizer.size();
  const grammar::Vocabulary vocabulary(bytes, results.vocab, {end});
  results.vocabulary_seconds = now() - begin;
  std::mt19937_64 random(1);
  for (const auto& [name, schema] : all.items()) {
    GrammarBenchmark& result = results.grammars.emplace_back();
    result.name = name;
    const double start = now();
    const grammar::Source source =
        grammar::read_grammar({Grammar::Kind::kJsonSchema, schema.dump()}, {});
    const double read = now();
    const auto compiled =
        std::make_shared<const grammar::Compiled>(vocabulary, source.notation, source.text);
    result.read_seconds = read - start;
    result.compile_seconds = now() - read;
    result.bytes = compiled->bytes();
    for (std::int64_t i = 0; i < answers; ++i) draw(compiled, &random, &result);
    std::sort(result.mask_seconds.begin(), result.mask_seconds.end());
  }
  return results;
}

}  // namespace quern::engine
