#include "grammar/compiler.h"

#include <xgrammar/xgrammar.h>

#include <algorithm>

#include "base/error.h"
#include "grammar/regex.h"

namespace {

// What the library would pass over in the text that this thread gave it.
thread_local std::string first_warning;

}  // namespace

// The library's hooks for its messages.
namespace xgrammar {

[[noreturn]] void LogFatalImpl(const std::string&, int, const std::string& message);
void LogMessageImpl(const std::string&, int, int level, const std::string& message);

void LogFatalImpl(const std::string&, int, const std::string& message) {
  quern::grammar::refuse_grammar(message);
}

void LogMessageImpl(const std::string&, int, int level, const std::string& message) {
  constexpr int kWarning = 2;
  if (level >= kWarning && first_warning.empty()) first_warning = message;
}

}  // namespace xgrammar

namespace quern::grammar {

struct Vocabulary::State {
  xgrammar::TokenizerInfo info;
};

struct Compiled::State {
  xgrammar::CompiledGrammar grammar;
  std::int64_t rows;
};

struct Matcher::State {
  xgrammar::GrammarMatcher matcher;
};

namespace {

void fill_mask(xgrammar::GrammarMatcher* matcher, std::int64_t rows, Mask* mask) {
  mask->resize(static_cast<size_t>(xgrammar::GetBitmaskSize(static_cast<int>(rows))));
  std::int64_t shape[] = {std::ssize(*mask)};
  DLTensor tensor{.data = mask->data(),
                  .device = {kDLCPU, 0},
                  .ndim = 1,
                  .dtype = xgrammar::GetBitmaskDLType(),
                  .shape = shape,
                  .strides = nullptr,
                  .byte_offset = 0};
  matcher->FillNextTokenBitmask(&tensor);
}

xgrammar::Grammar tag_grammar(const std::string& text) {
  auto read = xgrammar::Grammar::FromStructuralTag(text);
  if (const auto* error = std::get_if<1>(&read)) {
    std::visit([](const auto& each) { refuse_grammar(each.what()); }, *error);
  }
  return std::get<0>(read);
}

}  // namespace

Vocabulary::Vocabulary(const std::vector<std::string>& bytes, std::int64_t rows,
                       const std::vector<std::int32_t>& ends)
    : state_(new State{
          xgrammar::TokenizerInfo(bytes, xgrammar::VocabType::RAW, static_cast<int>(rows), ends)}),
      rows_(rows) {}

Vocabulary::~Vocabulary() = default;

Compiled::Compiled(const Vocabulary& vocabulary, Notation notation, const std::string& text,
                   const std::string& before) {
  first_warning.clear();
  try {
    const xgrammar::TokenizerInfo& info = vocabulary.state_->info;
    // One thread, for exceptions do not come out of its pool; our own cache, which is bounded.
    xgrammar::GrammarCompiler compiler(info, 1, false);
    xgrammar::CompiledGrammar grammar = [&] {
      using xgrammar::Grammar;
      if (before.empty()) {
        return notation == Notation::kEbnf ? compiler.CompileGrammar(text)
                                           : compiler.CompileStructuralTag(text);
      }
      const Grammar form =
          notation == Notation::kEbnf ? Grammar::FromEBNF(text) : tag_grammar(text);
      return compiler.CompileGrammar(Grammar::Concat({Grammar::FromEBNF(before), form}));
    }();
    bytes_ = static_cast<std::int64_t>(grammar.MemorySizeBytes());
    state_.reset(new State{std::move(grammar), vocabulary.rows()});
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    refuse_grammar(error.what());
  }
  if (!first_warning.empty()) refuse_grammar(first_warning);
  // A rule that only calls itself.
  xgrammar::GrammarMatcher matcher(state_->grammar);
  Mask mask;
  fill_mask(&matcher, vocabulary.rows(), &mask);
  if (std::all_of(mask.begin(), mask.end(), [](std::int32_t bits) { return bits == 0; })) {
    refuse_grammar("nothing can be written by it");
  }
}

Compiled::~Compiled() = default;

Matcher::Matcher(std::shared_ptr<const Compiled> grammar)
    : grammar_(std::move(grammar)),
      state_(new State{xgrammar::GrammarMatcher(grammar_->state_->grammar)}),
      rows_(grammar_->state_->rows) {}

Matcher::~Matcher() = default;

void Matcher::fill(Mask* mask) { fill_mask(&state_->matcher, rows_, mask); }

bool Matcher::accept(std::int32_t token) { return state_->matcher.AcceptToken(token); }

bool Matcher::accept_text(const std::string& text) { return state_->matcher.AcceptString(text); }

std::vector<std::int32_t> Matcher::forced() {
  // The tokens are found on a copy of the whole matcher, so the cheaper question comes first.
  if (state_->matcher.FindJumpForwardString().empty()) return {};
  return state_->matcher.FindJumpForwardTokens();
}

bool Matcher::complete() const { return state_->matcher.IsCompleted(); }

bool Matcher::ended() const { return state_->matcher.IsTerminated(); }

}  // namespace quern::grammar
