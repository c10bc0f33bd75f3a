#include "text/chat_template.h"

#include <algorithm>

#include "base/error.h"
#include "base/errors/text.h"
#include "text/utf8.h"

namespace quern::text {
namespace {

// White space as Python's str.strip() takes it, which Jinja's trim is.
bool is_python_space(std::string_view character) {
  if (character.size() == 1) {
    const char c = character[0];
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1C' && c <= '\x1F');
  }
  for (const std::string_view space :
       {"\u0085", "\u00A0", "\u1680", "\u2028", "\u2029", "\u202F", "\u205F", "\u3000"}) {
    if (character == space) return true;
  }
  return character >= "\u2000" && character <= "\u200A" && character.size() == 3;
}

std::string_view trimmed(std::string_view text) {
  const auto first = [](std::string_view rest) { return rest.substr(0, utf8_step(rest).length); };
  const auto last = [](std::string_view rest) {
    std::size_t length = 1;
    while (length < std::min<std::size_t>(3, rest.size()) &&
           (rest[rest.size() - length] & 0xC0) == 0x80) {
      ++length;
    }
    return rest.substr(rest.size() - length);
  };
  while (!text.empty() && is_python_space(first(text))) text.remove_prefix(first(text).size());
  while (!text.empty() && is_python_space(last(text))) text.remove_suffix(last(text).size());
  return text;
}

void add(std::vector<PromptPiece>& pieces, std::string_view text, bool trusted) {
  if (text.empty()) return;
  if (pieces.empty() || pieces.back().trusted != trusted) pieces.push_back({{}, trusted});
  pieces.back().text += text;
}

}  // namespace

ChatTemplate::ChatTemplate(std::string source, std::optional<std::string> bos_token)
    : source_(std::move(source)), shape_(parse_chatml(source_, bos_token)) {}

std::vector<PromptPiece> ChatTemplate::render(const std::vector<ChatMessage>& messages,
                                              const ChatOptions& options) const {
  if (source_.empty()) throw Error(errors::kChatTemplateMissing);
  if (!shape_) throw Error(errors::kChatTemplateUnsupported);
  if (messages.empty()) throw Error(errors::kMessagesEmpty, {{"param", "messages"}});
  const ChatMl& shape = *shape_;
  const bool system = messages[0].role == "system";
  std::vector<PromptPiece> pieces;
  add(pieces, shape.before, true);
  if (!system) add(pieces, shape.default_system, true);
  add(pieces, shape.between, true);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    const bool users_turn = i % 2 == (system ? 1 : 0);
    if (shape.alternation_error && (message.role == "user") != users_turn) {
      throw Error(errors::kChatTemplateRefused,
                  {{"reason", *shape.alternation_error}, {"param", "messages"}});
    }
    add(pieces, shape.open, true);
    add(pieces, message.role, false);
    add(pieces, shape.middle, true);
    add(pieces, shape.trim ? trimmed(message.content) : message.content, false);
    add(pieces, shape.close, true);
  }
  add(pieces, shape.after, true);
  if (options.add_generation_prompt) add(pieces, shape.generation, true);
  add(pieces, shape.end, true);
  return pieces;
}

}  // namespace quern::text
