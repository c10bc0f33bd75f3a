#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"

#include <pcre2.h>

#include <array>
#include <bitset>
#include <optional>

#include "base/error.h"
#include "base/errors/base.h"
#include "base/errors/text.h"
#include "text/regex_dialect.h"

namespace quern::text {
namespace {

constexpr std::size_t kMaxPattern = 16384;
constexpr std::uint32_t kMatchLimit = 10'000'000;
constexpr std::uint32_t kHeapLimitKib = 65536;  // of the interpreter, where there is no JIT
constexpr std::size_t kJitStack = std::size_t{1} << 20;

[[noreturn]] void out_of_memory(std::size_t bytes) {
  throw Error(errors::kOutOfMemory, {{"what", "splitting text"}, {"bytes", bytes}});
}

}  // namespace

struct MatchScratch::State {
  pcre2_match_data* data = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;

  ~State() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

MatchScratch::MatchScratch() : state_(std::make_unique<State>()) {
  state_->data = pcre2_match_data_create(1, nullptr);
  state_->context = pcre2_match_context_create(nullptr);
  state_->stack = pcre2_jit_stack_create(32 * 1024, kJitStack, nullptr);
  if (state_->data == nullptr || state_->context == nullptr || state_->stack == nullptr) {
    out_of_memory(kJitStack);
  }
  pcre2_set_match_limit(state_->context, kMatchLimit);
  pcre2_set_heap_limit(state_->context, kHeapLimitKib);
  pcre2_jit_stack_assign(state_->context, nullptr, state_->stack);
}

MatchScratch::~MatchScratch() = default;

struct Regex::Code {
  pcre2_code* code = nullptr;
  bool compiled = false;                  // to machine code
  std::optional<std::bitset<256>> first;  // bytes that can begin a match; empty: not known
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(std::string_view pattern, bool literal, std::string_view origin) {
  if (pattern.size() > kMaxPattern) {
    throw Error(errors::kTokenizerInvalid,
                {{"origin", origin},
                 {"what", fmt::format("a split pattern of {} bytes (at most {})", pattern.size(),
                                      kMaxPattern)}});
  }
  const std::string text = literal ? std::string(pattern) : to_pcre_pattern(pattern, origin);
  const std::uint32_t options =
      literal ? PCRE2_UTF | PCRE2_LITERAL : PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE;
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto code = std::make_shared<Code>();
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), options,
                             &error, &offset, nullptr);
  if (code->code == nullptr) {
    std::array<PCRE2_UCHAR, 128> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    throw Error(
        errors::kTokenizerInvalid,
        {{"origin", origin},
         {"what", fmt::format("the split pattern '{}' does not compile: {}", pattern.substr(0, 80),
                              reinterpret_cast<const char*>(message.data()))}});
  }
  // Where executable memory is forbidden the interpreter serves, at a tenth of the speed.
  code->compiled = pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE) == 0;
  const std::uint8_t* first = nullptr;
  pcre2_pattern_info(code->code, PCRE2_INFO_FIRSTBITMAP, &first);
  if (first != nullptr) {
    code->first.emplace();
    for (std::size_t byte = 0; byte < 256; ++byte) {
      code->first->set(byte, (first[byte / 8] >> (byte % 8) & 1) != 0);
    }
  }
  code_ = std::move(code);
}

bool Regex::can_match(std::string_view subject) const {
  if (!code_->first) return true;
  for (const char c : subject) {
    if (code_->first->test(static_cast<std::uint8_t>(c))) return true;
  }
  return false;
}

MatchResult Regex::find(std::string_view subject, std::size_t start, MatchScratch& scratch,
                        Span& match) const {
  const auto* text = reinterpret_cast<PCRE2_SPTR>(subject.data());
  const MatchScratch::State& state = *scratch.state_;
  // Words are short, so that what pcre2_match() does before it gets to the machine code shows.
  const int rc = code_->compiled ? pcre2_jit_match(code_->code, text, subject.size(), start, 0,
                                                   state.data, state.context)
                                 : pcre2_match(code_->code, text, subject.size(), start,
                                               PCRE2_NO_UTF_CHECK, state.data, state.context);
  if (rc == PCRE2_ERROR_NOMATCH) return MatchResult::kNone;
  if (rc < 0) return MatchResult::kGivenUp;
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(scratch.state_->data);
  match = {ends[0], ends[1]};
  return MatchResult::kMatch;
}

}  // namespace quern::text
