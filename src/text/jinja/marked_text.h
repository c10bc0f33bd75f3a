// Text under construction that remembers which of its bytes come from the request.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace quern::text::jinja {

class MarkedText {
 public:
  void append(std::string_view text, bool data);
  void append(std::string_view text) { bytes_ += text; }  // the template's own
  void append(const Str& text);

  const std::string& bytes() const { return bytes_; }
  // Ascending, none touching the next.
  const std::vector<Bytes>& data() const { return data_; }
  std::size_t size() const { return bytes_.size(); }

 private:
  void mark(std::size_t begin, std::size_t end);

  std::string bytes_;
  std::vector<Bytes> data_;
};

}  // namespace quern::text::jinja
