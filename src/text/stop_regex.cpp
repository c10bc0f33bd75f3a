#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/stop_regex.h"

#include <pcre2.h>

#include <array>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "base/errors/base.h"
#include "base/errors/text.h"

namespace quern::text {
namespace {

// Of one search, over all places where it may begin: about a millisecond. PCRE2's own limit counts
// anew at each place.
constexpr std::int64_t kMaxSteps = 50'000;
constexpr std::uint32_t kMaxNested = 100;
constexpr std::uint32_t kHeapLimitKib = 4096;
constexpr std::size_t kMaxBytesPerCharacter = 4;

[[noreturn]] void refuse(const std::string& pattern, std::string_view reason) {
  throw Error(errors::kStopRegexInvalid,
              {{"pattern", pattern.substr(0, 80)}, {"reason", reason}, {"param", "stop_regex"}});
}

// Called before each item of the pattern.
int count_step(pcre2_callout_block*, void* left) {
  return --*static_cast<std::int64_t*>(left) < 0 ? PCRE2_ERROR_MATCHLIMIT : 0;
}

struct FreeData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct FreeCompileContext {
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};

// What a thread needs to search.
struct Scratch {
  std::unique_ptr<pcre2_match_data, FreeData> data{pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, FreeContext> context{pcre2_match_context_create(nullptr)};

  Scratch() {
    if (!data || !context) throw Error(errors::kOutOfMemory, {{"what", "stop_regex"}});
    pcre2_set_heap_limit(context.get(), kHeapLimitKib);
  }
};

}  // namespace

struct StopRegex::Code {
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

StopRegex::StopRegex(std::string pattern) : pattern_(std::move(pattern)) {
  if (pattern_.empty()) refuse(pattern_, "it is empty");
  if (pattern_.size() > kMaxStopRegexBytes) {
    refuse(pattern_, fmt::format("it has {} bytes, at most {} are taken", pattern_.size(),
                                 kMaxStopRegexBytes));
  }
  const std::unique_ptr<pcre2_compile_context, FreeCompileContext> context(
      pcre2_compile_context_create(nullptr));
  if (!context) throw Error(errors::kOutOfMemory, {{"what", "stop_regex"}});
  pcre2_set_parens_nest_limit(context.get(), kMaxNested);
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto code = std::make_shared<Code>();
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern_.data()), pattern_.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_AUTO_CALLOUT | PCRE2_NEVER_BACKSLASH_C,
                             &error, &offset, context.get());
  if (code->code == nullptr) {
    std::array<PCRE2_UCHAR, 128> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    refuse(pattern_,
           fmt::format("{} at byte {}", reinterpret_cast<const char*>(message.data()), offset));
  }
  std::uint32_t lookbehind = 0;
  pcre2_pattern_info(code->code, PCRE2_INFO_MAXLOOKBEHIND, &lookbehind);
  // One character more, so that the text's own beginning is not taken for one that was cut off.
  context_ = (std::size_t{lookbehind} + 1) * kMaxBytesPerCharacter;
  code_ = std::move(code);
  std::uint32_t empty = 0;
  pcre2_pattern_info(code_->code, PCRE2_INFO_MATCHEMPTY, &empty);
  if (empty != 0) refuse(pattern_, "it matches the empty text, so every answer would end at once");
}

StopRegex::Found StopRegex::find(std::string_view text, std::size_t start, bool whole) const {
  thread_local Scratch scratch;
  std::int64_t left = kMaxSteps;
  pcre2_set_callout(scratch.context.get(), count_step, &left);
  const int rc =
      pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), start,
                  PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | (whole ? 0 : PCRE2_PARTIAL_SOFT),
                  scratch.data.get(), scratch.context.get());
  pcre2_set_callout(scratch.context.get(), nullptr, nullptr);
  if (rc == PCRE2_ERROR_NOMATCH) return {Kind::kNone};
  if (rc < 0 && rc != PCRE2_ERROR_PARTIAL) return {Kind::kGivenUp};
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(scratch.data.get());
  // Nothing but an assertion reached the end.
  if (rc == PCRE2_ERROR_PARTIAL && ends[0] >= text.size()) return {Kind::kNone};
  const Kind kind = rc == PCRE2_ERROR_PARTIAL ? Kind::kPartial : Kind::kMatch;
  // \K may move the beginning; it never moves before what was released.
  return {kind, std::max<std::size_t>(ends[0], start), std::max<std::size_t>(ends[1], start)};
}

}  // namespace quern::text
