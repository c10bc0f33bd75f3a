#include "text/jinja/string_ops.h"

#include <algorithm>
#include <functional>

namespace quern::text::jinja {
namespace {

using IsStripped = std::function<bool(char32_t)>;

// Pieces of changed text, each with the origin of the bytes that it was made from.
Value mapped(
    Runtime& runtime, const Str& text,
    const std::function<void(std::string_view, std::size_t, char32_t, std::string&)>& change) {
  runtime.charge(text.text.size());
  MarkedText out;
  std::size_t span = 0;  // of text.data
  std::string piece;
  for (std::size_t at = 0; at < text.text.size();) {
    const Char c = char_at(text.text, at);
    while (span < text.data.size() && text.data[span].end <= at) ++span;
    const bool data =
        text.origin == Origin::kData || (span < text.data.size() && text.data[span].begin <= at);
    piece.clear();
    change(text.text, at, c.code, piece);
    out.append(piece, data);
    at += c.size;
  }
  return runtime.text(out);
}

// A sigma that ends a word is written differently.
bool is_final_sigma(std::string_view text, std::size_t at) {
  const auto cased = [](char32_t code) { return is_upper(code) || is_lower(code); };
  const std::size_t next = at + char_at(text, at).size;
  return at > 0 && cased(char_before(text, at).code) &&
         !(next < text.size() && cased(char_at(text, next).code));
}

void append_lower(std::string_view text, std::size_t at, char32_t code, std::string& out) {
  if (code == 0x3A3 && is_final_sigma(text, at)) {
    append_char(out, 0x3C2);
  } else {
    append_cased(out, code, Case::kLower);
  }
}

}  // namespace

Value stripped(Runtime& runtime, const Str& text, const Str* chars, Side side) {
  std::vector<char32_t> set;
  if (chars != nullptr) {
    for (std::size_t at = 0; at < chars->text.size(); at += char_at(chars->text, at).size) {
      set.push_back(char_at(chars->text, at).code);
    }
    runtime.charge(chars->text.size());
  }
  const auto goes = [&](char32_t code) {
    return chars == nullptr ? is_space(code) : std::find(set.begin(), set.end(), code) != set.end();
  };
  std::size_t begin = 0, end = text.text.size();
  while (side != Side::kRight && begin < end) {
    const Char c = char_at(text.text, begin);
    if (!goes(c.code)) break;
    begin += c.size;
  }
  while (side != Side::kLeft && end > begin) {
    const Char c = char_before(text.text, end);
    if (!goes(c.code)) break;
    end -= c.size;
  }
  runtime.charge((text.text.size() - (end - begin)) * (set.size() + 1));
  return runtime.part(text, begin, end);
}

Value cased(Runtime& runtime, const Str& text, Case wanted) {
  return mapped(runtime, text,
                [wanted](std::string_view all, std::size_t at, char32_t code, std::string& out) {
                  if (wanted == Case::kLower) {
                    append_lower(all, at, code, out);
                  } else {
                    append_cased(out, code, wanted);
                  }
                });
}

Value capitalized(Runtime& runtime, const Str& text) {
  return mapped(runtime, text,
                [](std::string_view all, std::size_t at, char32_t code, std::string& out) {
                  if (at == 0) {
                    append_cased(out, code, Case::kTitle);
                  } else {
                    append_lower(all, at, code, out);
                  }
                });
}

Value replaced(Runtime& runtime, const Str& text, const Str& old, const Str& fresh,
               std::int64_t limit) {
  runtime.charge(text.text.size());
  MarkedText out;
  std::size_t kept = 0;  // what lies before is written
  std::size_t at = 0;
  for (std::int64_t count = 0; limit < 0 || count < limit; ++count) {
    const std::size_t found = old.text.empty() ? at : text.text.find(old.text, at);
    if (found == std::string_view::npos || found > text.text.size()) break;
    out.append(*runtime.part(text, kept, found).string);
    out.append(fresh);
    runtime.charge(fresh.text.size());
    runtime.check_size(out.size());
    kept = found + old.text.size();
    at = kept;
    if (!old.text.empty()) continue;
    if (at == text.text.size()) break;
    at += char_at(text.text, at).size;
  }
  if (kept == 0 && out.size() == 0) return runtime.part(text, 0, text.text.size());
  out.append(*runtime.part(text, kept, text.text.size()).string);
  return runtime.text(out);
}

Value joined(Runtime& runtime, const Str& separator, std::span<const Value> texts) {
  MarkedText out;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) out.append(separator);
    out.append(*texts[i].string);
    runtime.check_size(out.size());
  }
  return runtime.text(out);
}

std::vector<Value> split(Runtime& runtime, const Str& text, std::string_view separator,
                         std::int64_t limit, bool from_right) {
  if (separator.empty()) runtime.fail("a text cannot be split at an empty separator");
  runtime.charge(text.text.size());
  std::vector<Value> parts;
  std::size_t begin = 0, end = text.text.size();
  while (limit < 0 || static_cast<std::int64_t>(parts.size()) < limit) {
    const std::size_t found =
        from_right ? text.text.substr(0, end).rfind(separator) : text.text.find(separator, begin);
    if (found == std::string_view::npos) break;
    if (from_right) {
      parts.push_back(runtime.part(text, found + separator.size(), end));
      end = found;
    } else {
      parts.push_back(runtime.part(text, begin, found));
      begin = found + separator.size();
    }
  }
  parts.push_back(runtime.part(text, begin, end));
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Value> split_words(Runtime& runtime, const Str& text, std::int64_t limit,
                               bool from_right) {
  runtime.charge(text.text.size());
  std::vector<Value> parts;
  std::size_t begin = 0, end = text.text.size();
  while (true) {
    const std::string_view rest = text.text.substr(begin, end - begin);
    if (from_right) {
      end = begin + strip_back(rest).size();
    } else {
      begin = end - strip_front(rest).size();
    }
    if (begin == end) break;
    if (limit >= 0 && static_cast<std::int64_t>(parts.size()) >= limit) {
      parts.push_back(runtime.part(text, begin, end));
      break;
    }
    std::size_t edge = from_right ? end : begin;
    while (from_right ? edge > begin : edge < end) {
      const Char c = from_right ? char_before(text.text, edge) : char_at(text.text, edge);
      if (is_space(c.code)) break;
      edge = from_right ? edge - c.size : edge + c.size;
    }
    parts.push_back(from_right ? runtime.part(text, edge, end) : runtime.part(text, begin, edge));
    (from_right ? end : begin) = edge;
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Value> split_lines(Runtime& runtime, const Str& text, bool keep_ends) {
  runtime.charge(text.text.size());
  const auto ends_line = [](char32_t code) {
    return (code >= 0xA && code <= 0xD) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
           code == 0x2028 || code == 0x2029;
  };
  std::vector<Value> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.text.size();) {
    const Char c = char_at(text.text, at);
    const std::size_t line_end = at;
    at += c.size;
    if (!ends_line(c.code)) continue;
    if (c.code == '\r' && at < text.text.size() && text.text[at] == '\n') ++at;
    lines.push_back(runtime.part(text, begin, keep_ends ? at : line_end));
    begin = at;
  }
  if (begin < text.text.size()) lines.push_back(runtime.part(text, begin, text.text.size()));
  return lines;
}

}  // namespace quern::text::jinja
