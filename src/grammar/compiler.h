// Grammars in the notation of ebnf.h, or structural tags, compiled for one vocabulary; and the
// place of one answer in its grammar. The one user of the library xgrammar, whose headers stay in
// compiler.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace quern::grammar {

// What each token of a vocabulary writes; immutable.
class Vocabulary {
 public:
  // `bytes` of each id; "" for what writes nothing, which no grammar allows. `ends`: the ids that
  // end an answer, allowed where a grammar is complete. `rows`: ids of the logits, at least as
  // many.
  Vocabulary(const std::vector<std::string>& bytes, std::int64_t rows,
             const std::vector<std::int32_t>& ends);
  ~Vocabulary();
  std::int64_t rows() const { return rows_; }

 private:
  friend class Compiled;
  struct State;
  std::unique_ptr<State> state_;
  std::int64_t rows_;
};

enum class Notation { kEbnf, kStructuralTag };

// Immutable; shared by the answers that follow it.
class Compiled {
 public:
  // `before`: EBNF of what stands before it. May take seconds. One thread. Throws: kGrammarInvalid.
  Compiled(const Vocabulary& vocabulary, Notation notation, const std::string& text,
           const std::string& before = {});
  ~Compiled();
  std::int64_t bytes() const { return bytes_; }  // of memory

 private:
  friend class Matcher;
  struct State;
  std::unique_ptr<State> state_;
  std::int64_t bytes_ = 0;
};

// A bit for each token; set where it may come.
using Mask = std::vector<std::int32_t>;

// One answer's place. One thread at a time.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<const Compiled> grammar);
  ~Matcher();

  // The tokens that may come next. Costs microseconds to milliseconds.
  void fill(Mask* mask);
  // False, and nothing changes, where the token may not come.
  bool accept(std::int32_t token);
  bool accept_text(const std::string& text);
  // Tokens that must come next, one after the other, judged by bytes: where the grammar leaves one
  // text, the longest tokens that write it, but for a last one that a longer token begins with.
  std::vector<std::int32_t> forced();
  bool complete() const;  // an end may come
  bool ended() const;     // one has

 private:
  struct State;
  std::shared_ptr<const Compiled> grammar_;  // other answers share it
  std::unique_ptr<State> state_;
  std::int64_t rows_ = 0;
};

}  // namespace quern::grammar
