// The patterns are PCRE2 in byte mode. A text may be hostile, so no pattern runs over all of it:
// the longest fixed piece of a message is looked for first, and the pattern runs over a window
// around it, under PCRE2's match limit.
#include "catalog/match.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/error.h"

namespace quern::catalog {
namespace {

constexpr std::size_t kWindow = 4096;  // bytes before and after the fixed piece
constexpr int kTries = 32;             // windows of one entry, from the end of the text
constexpr int kLines = 4096;           // of an entry whose pattern has no fixed piece
constexpr std::uint32_t kMatchLimit = 200'000;
constexpr std::uint32_t kHeapLimitKib = 16384;
constexpr std::size_t kIdLength = 16;
constexpr std::size_t kEnoughUnwrapped = 20;  // fixed characters that a broken message must have

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

class Pattern {
 public:
  explicit Pattern(const std::string& source) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source.data()), source.size(), 0, &error,
                              &offset, nullptr));
    CHECK(code_ != nullptr, source, offset);
    data_.reset(pcre2_match_data_create(1, nullptr));
    context_.reset(pcre2_match_context_create(nullptr));
    CHECK(data_ != nullptr && context_ != nullptr);
    pcre2_set_match_limit(context_.get(), kMatchLimit);
    pcre2_set_heap_limit(context_.get(), kHeapLimitKib);
  }

  // Where it stands first in the window, as an offset of the window.
  std::optional<std::size_t> find(std::string_view window) const {
    const int rc = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(window.data()),
                               window.size(), 0, 0, data_.get(), context_.get());
    if (rc < 0) return std::nullopt;
    return pcre2_get_ovector_pointer(data_.get())[0];
  }

 private:
  std::unique_ptr<pcre2_code, FreeCode> code_;
  std::unique_ptr<pcre2_match_data, FreeData> data_;
  std::unique_ptr<pcre2_match_context, FreeContext> context_;
};

struct Window {
  std::size_t begin, end;
};

// The line around [at, at + size), at most kWindow bytes to either side.
Window window_around(std::string_view text, std::size_t at, std::size_t size) {
  std::size_t begin = at, end = at + size;
  while (begin > 0 && at - begin < kWindow && text[begin - 1] != '\n') --begin;
  while (end < text.size() && end - at - size < kWindow && text[end] != '\n') ++end;
  return {begin, end};
}

// Where `piece` stands, the last first, one place a line or window.
std::vector<std::size_t> places_of(std::string_view piece, std::string_view text) {
  std::vector<std::size_t> places;
  for (std::size_t from = 0; from < text.size();) {
    const void* at = memmem(text.data() + from, text.size() - from, piece.data(), piece.size());
    if (at == nullptr) break;
    places.push_back(static_cast<std::size_t>(static_cast<const char*>(at) - text.data()));
    from = places.back() + piece.size();
  }
  std::ranges::reverse(places);
  return places;
}

// The last place where the entry's message stands.
std::optional<std::size_t> find_anchored(const Entry& entry, std::string_view text) {
  std::optional<Pattern> pattern;
  int tries = 0;
  std::size_t searched = text.npos;  // from here on nothing is to be found
  for (const std::size_t at : places_of(entry.anchor, text)) {
    if (at >= searched) continue;
    if (++tries > kTries) break;
    if (!pattern) pattern.emplace(entry.text("messagePattern"));
    const Window window = window_around(text, at, entry.anchor.size());
    const auto found = pattern->find(text.substr(window.begin, window.end - window.begin));
    if (found) return window.begin + *found;
    searched = window.begin;
  }
  return std::nullopt;
}

std::optional<std::size_t> find_in_lines(const Entry& entry, std::string_view text) {
  const Pattern pattern(entry.text("messagePattern"));
  std::size_t end = text.size();
  for (int lines = 0; lines < kLines; ++lines) {
    const Window window = window_around(text, end, 0);
    const auto found = pattern.find(text.substr(window.begin, window.end - window.begin));
    if (found) return window.begin + *found;
    if (window.begin == 0) return std::nullopt;
    end = window.begin - 1;
  }
  return std::nullopt;
}

std::vector<Match> matches_of_messages(std::string_view text, std::size_t least_literal) {
  std::vector<Match> found;
  for (const Entry& entry : entries()) {
    if (entry.literal < least_literal) continue;
    const auto at = entry.anchor.empty() ? find_in_lines(entry, text) : find_anchored(entry, text);
    if (at) found.push_back({&entry, *at});
  }
  std::ranges::stable_sort(found, [](const Match& a, const Match& b) {
    if (a.entry->literal != b.entry->literal) return a.entry->literal > b.entry->literal;
    return a.position > b.position;
  });
  return found;
}

// Words of exactly 16 hex digits that are ids, the last first.
std::vector<Match> matches_of_ids(std::string_view text) {
  std::vector<Match> found;
  std::size_t run = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && std::isalnum(static_cast<unsigned char>(text[i]))) {
      ++run;
      continue;
    }
    if (run == kIdLength) {
      const Entry* entry = find(text.substr(i - run, run));
      if (entry && std::ranges::find(found, entry, &Match::entry) == found.end()) {
        found.push_back({entry, i - run});
      }
    }
    run = 0;
  }
  std::ranges::reverse(found);
  return found;
}

// Line breaks with the blanks around them as one blank.
std::string unwrapped(std::string_view text) {
  std::string joined;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t blanks = std::min(text.find_first_not_of(" \t\r\n", i), text.size()) - i;
    if (blanks == 0) {
      joined += text[i++];
      continue;
    }
    const bool breaks = text.substr(i, blanks).find('\n') != text.npos;
    joined += breaks ? std::string(" ") : std::string(text.substr(i, blanks));
    i += blanks;
  }
  return joined;
}

}  // namespace

std::vector<Match> match(std::string_view text) {
  if (text.size() > kMaxMatchText) text.remove_prefix(text.size() - kMaxMatchText);
  std::vector<Match> found = matches_of_ids(text);
  std::vector<Match> messages = matches_of_messages(text, 0);
  if (found.empty() && messages.empty() && text.find('\n') != text.npos) {
    messages = matches_of_messages(unwrapped(text), kEnoughUnwrapped);
    for (Match& match : messages) match.position = 0;
  }
  for (const Match& match : messages) {
    if (std::ranges::find(found, match.entry, &Match::entry) == found.end()) found.push_back(match);
  }
  return found;
}

}  // namespace quern::catalog
