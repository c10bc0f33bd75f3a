#include "load/sse_reader.h"

namespace quern::load {

bool SseReader::push(std::string_view bytes, const std::function<void(std::string_view)>& on_data) {
  while (!bytes.empty()) {
    if (after_return_ && bytes.front() == '\n') bytes.remove_prefix(1);
    after_return_ = false;
    const std::size_t end = bytes.find_first_of("\r\n");
    const std::string_view part = bytes.substr(0, end);
    if (line_.size() + data_.size() + part.size() > kMaxEventBytes) return false;
    line_.append(part);
    if (end == bytes.npos) return true;
    after_return_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    end_line(on_data);
  }
  return true;
}

void SseReader::end_line(const std::function<void(std::string_view)>& on_data) {
  if (line_.empty()) {
    if (has_data_) on_data(data_);
    data_.clear();
    has_data_ = false;
    return;
  }
  std::string_view value = line_;
  if (value.starts_with("data") && (value.size() == 4 || value[4] == ':')) {
    value.remove_prefix(value.size() == 4 ? 4 : 5);
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  }
  line_.clear();
}

}  // namespace quern::load
