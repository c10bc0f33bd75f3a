// The one exception type of quern. Every error is an entry of the catalogue (src/catalog/entries);
// the constants errors::kSymbol of an area stand in base/errors/<area>.h, its message template and
// HTTP status in error_entries.cpp, all generated. Thrown by every layer, caught in main, in the
// HTTP handler and in the step loop only.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern {

// The value is the public id (16 hex digits), which never changes.
enum class ErrorId : std::uint64_t {};

// One row of the generated table: what is known of an error before it happens.
struct ErrorEntry {
  ErrorId value;
  const char* symbol;   // TrtllmMhaMlaModel
  const char* id;       // 16 hex digits, never changes
  const char* slug;     // for links
  const char* message;  // template with {field} placeholders
  const char* type;     // OpenAI's error type: invalid_request_error, server_error, …
  int http_status;
};
// Every error that quern can raise, ordered by id.
std::span<const ErrorEntry> error_entries();

const ErrorEntry& error_entry(ErrorId id);

// A named value of an error, e.g. {"file", "model.gguf"}.
struct ErrorField {
  template <typename T>
  ErrorField(std::string_view field_name, const T& field_value)
      : name(field_name), value(fmt::format("{}", field_value)) {}
  std::string name;
  std::string value;
};

class Error : public std::exception {
 public:
  // Fills the entry's template with `fields`; the field named "param" says which request field or
  // flag was wrong, and a field named "hint" is printed on the lines after the message.
  explicit Error(ErrorId id, std::vector<ErrorField> fields = {},
                 std::source_location where = std::source_location::current());

  ErrorId id() const noexcept { return id_; }
  const ErrorEntry& entry() const noexcept { return error_entry(id_); }
  const char* what() const noexcept override { return message_.c_str(); }
  const std::string& message() const noexcept { return message_; }  // valid UTF-8
  const std::vector<ErrorField>& fields() const noexcept { return fields_; }
  const std::source_location& where() const noexcept { return where_; }
  // The value of a field, or "" where there is none.
  std::string_view field(std::string_view name) const noexcept;

 private:
  ErrorId id_;
  std::vector<ErrorField> fields_;
  std::string message_;
  std::source_location where_;
};

// `text` with every byte sequence that is not UTF-8 replaced by U+FFFD. Cost: O(n).
std::string valid_utf8(std::string_view text);

[[noreturn]] void check_failed(const char* condition, std::string values,
                               std::source_location where);

// Our own bug, never a client's or a file's: throws InternalError with the condition and the
// values.
#define CHECK(condition, ...)                                                          \
  ((condition) ? static_cast<void>(0)                                                  \
               : ::quern::check_failed(#condition, ::quern::check_values(__VA_ARGS__), \
                                       std::source_location::current()))

template <typename... T>
std::string check_values(const T&... values) {
  std::string text;
  ((text += fmt::format(" {}", values)), ...);
  return text;
}

}  // namespace quern
