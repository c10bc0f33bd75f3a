// Messages to prompt, by the model's own Jinja template. Immutable; any thread.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "quern/types.h"
#include "text/jinja/template.h"

namespace quern::text {

struct ChatTemplateSource {
  // By name; "default" counts, else the first. "tool_use" is taken for requests with tools.
  std::vector<std::pair<std::string, std::string>> templates;
  std::optional<std::string> bos_token, eos_token;  // what a template prints under these names
  std::vector<std::string> stop{};                  // stop strings of every chat
};

class ChatTemplate {
 public:
  // Compiles the templates. Throws: kChatTemplateUnsupported. No template is no error here.
  explicit ChatTemplate(const ChatTemplateSource& source);
  // One that could not be compiled: each render() throws `fault`.
  explicit ChatTemplate(Error fault) : fault_(std::move(fault)) {}

  bool usable() const { return !templates_.empty(); }
  const std::vector<std::string>& stop() const { return stop_; }

  // Text of the template comes back as trusted pieces, text of the request (names of roles apart)
  // as untrusted ones, so that control tokens come from the template alone. Members of messages
  // that are null are left out; `reasoning_content` and `thinking` stand for each other; arguments
  // of tool calls that are one JSON object are given as that, others as text; content parts are
  // joined by spaces where the template does not pass over them. `now`: local time, for
  // strftime_now. Throws: kChatTemplateMissing, kMessagesEmpty, kChatTemplateRefused,
  // kChatTemplateFailed, kChatTemplateLimit, kChatInputInvalid.
  std::vector<PromptPiece> render(const std::vector<ChatMessage>& messages,
                                  const ChatOptions& options, const std::tm& now) const;
  std::vector<PromptPiece> render(const std::vector<ChatMessage>& messages,
                                  const ChatOptions& options) const;

 private:
  const jinja::Template& chosen(bool with_tools) const;

  std::vector<std::pair<std::string, std::unique_ptr<const jinja::Template>>> templates_;
  std::optional<std::string> bos_token_, eos_token_;
  std::vector<std::string> stop_;
  std::optional<Error> fault_;
};

// A template that comes with quern, by SGLang's name for it; nullopt where there is none.
std::optional<std::string_view> builtin_template(std::string_view name);
std::vector<std::string> builtin_template_names();

}  // namespace quern::text
