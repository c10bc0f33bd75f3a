// What the parsers of all formats share: they go byte by byte, so that how the text was cut cannot
// matter, hold back what is undecided, and give it out as text where it turns out to be no call.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quern/output_parsers.h"
#include "text/tool_calls/tool_set.h"

namespace quern::text {

inline bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
std::string_view without_blanks(std::string_view text);  // at its ends

// How far `text` is one of `words`: their number where it is one, kPart where it may become one.
inline constexpr int kPart = -1, kNoWord = -2;
int match_word(std::string_view text, const std::vector<std::string_view>& words);

// Finds words in a text that comes byte by byte. No word may begin another.
class WordScanner {
 public:
  explicit WordScanner(std::vector<std::string_view> words = {}) : words_(std::move(words)) {}
  // The number of the word that `c` completes, or kPart. What belongs to no word is appended to
  // `passed`.
  int step(char c, std::string* passed);
  // What is held back as the possible beginning of a word.
  std::string take() { return std::exchange(held_, {}); }
  const std::string& held() const { return held_; }

 private:
  std::vector<std::string_view> words_;
  std::string held_;
};

class CallStream : public ToolCallParser {
 public:
  explicit CallStream(std::shared_ptr<const ToolSet> tools) : tools_(std::move(tools)) {}

  void push(std::string_view piece, std::vector<ToolCallEvent>* events) final;
  void finish(std::vector<ToolCallEvent>* events) final;

 protected:
  static constexpr size_t kMaxHead = 64 << 10;   // of a call before its name is known
  static constexpr size_t kMaxHeld = 8 << 20;    // of a value that must be whole to be read
  static constexpr size_t kMaxBlanks = 4 << 10;  // held back, as they may stand before a call

  virtual void step(char c) = 0;
  virtual void end() = 0;  // the text is over; no call may stay open

  // Text of the answer. Blanks wait for what comes next: before a call they are the format's.
  void text(std::string_view piece);
  // Whether `name` is a tool's.
  bool known(std::string_view name) const { return tools_->has(name); }
  const ToolSet& tools() const { return *tools_; }

  void begin_call(std::string name, std::string id = "");
  void arguments(std::string_view piece);
  void end_call(bool complete);
  bool in_call() const { return open_; }
  const std::string& call_name() const { return name_; }

 private:
  void add_text(std::string_view piece);

  std::shared_ptr<const ToolSet> tools_;  // the factory's other parsers may share it
  std::vector<ToolCallEvent>* events_ = nullptr;
  std::string blanks_;
  std::string name_;
  int calls_ = 0;
  bool open_ = false;
  bool only_blanks_since_call_ = false;
};

}  // namespace quern::text
