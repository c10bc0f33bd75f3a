#include "base/error.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "base/errors/base.h"

namespace quern {
namespace {

std::string fill(std::string_view pattern, const std::vector<ErrorField>& fields) {
  std::string text;
  while (!pattern.empty()) {
    const size_t open = pattern.find('{');
    const size_t close = open == pattern.npos ? pattern.npos : pattern.find('}', open);
    if (close == pattern.npos) break;
    text += pattern.substr(0, open);
    const std::string_view name = pattern.substr(open + 1, close - open - 1);
    bool found = false;
    for (const ErrorField& field : fields) {
      if (field.name != name) continue;
      text += field.value;
      found = true;
      break;
    }
    if (!found) text += pattern.substr(open, close - open + 1);
    pattern.remove_prefix(close + 1);
    // A value that is a sentence of its own brings its full stop along.
    if (found && text.ends_with('.') && pattern.starts_with('.')) pattern.remove_prefix(1);
  }
  text += pattern;
  return text;
}

// Length of the UTF-8 sequence that begins at text[i], or 0 where none does.
size_t sequence_length(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) {
    return k < text.size() ? static_cast<unsigned char>(text[k]) : 0u;
  };
  const unsigned lead = byte(i);
  if (lead < 0x80) return 1;
  size_t length = 0;
  unsigned low = 0x80, high = 0xBF;  // bounds of the second byte, which exclude surrogates etc.
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return 0;
  }
  if (byte(i + 1) < low || byte(i + 1) > high) return 0;
  for (size_t k = 2; k < length; ++k) {
    if (byte(i + k) < 0x80 || byte(i + k) > 0xBF) return 0;
  }
  return length;
}

// The file named by QUERN_ERROR_TRACE, or -1. The tests learn from it which errors were raised
// (tools/check_raised.py).
int trace_file() {
  const char* path = std::getenv("QUERN_ERROR_TRACE");
  if (path == nullptr || *path == '\0') return -1;
  return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
}

// Each symbol once in the life of the process.
void trace(const ErrorEntry& entry) {
  static const int file = trace_file();
  if (file < 0) return;
  static std::vector<std::atomic<bool>> seen(error_entries().size());
  if (seen[static_cast<size_t>(&entry - error_entries().data())].exchange(true)) return;
  const std::string line = std::string(entry.symbol) + '\n';
  // Whole lines: an append of a few bytes is one piece. A trace that fails is missed by its test.
  [[maybe_unused]] const ssize_t written = write(file, line.data(), line.size());
}

}  // namespace

const ErrorEntry& error_entry(ErrorId id) {
  return *std::ranges::lower_bound(error_entries(), id, {}, &ErrorEntry::value);
}

Error::Error(ErrorId id, std::vector<ErrorField> fields, std::source_location where)
    : id_(id), fields_(std::move(fields)), where_(where) {
  const ErrorEntry& entry = error_entry(id);
  message_ = valid_utf8(fill(entry.message, fields_));
  trace(entry);
}

std::string_view Error::field(std::string_view name) const noexcept {
  for (const ErrorField& field : fields_) {
    if (field.name == name) return field.value;
  }
  return {};
}

std::string valid_utf8(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t length = sequence_length(text, i);
    if (length == 0) {
      clean += "\xEF\xBF\xBD";
      ++i;
    } else {
      clean.append(text, i, length);
      i += length;
    }
  }
  return clean;
}

void check_failed(const char* condition, std::string values, std::source_location where) {
  throw Error(errors::kInternalError,
              {{"condition", std::string(condition) + values},
               {"file", where.file_name()},
               {"line", where.line()}},
              where);
}

}  // namespace quern
