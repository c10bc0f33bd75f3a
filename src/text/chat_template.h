// Messages to prompt. ChatML for now, through the interface that the full template engine keeps.
// Immutable; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quern/types.h"

namespace quern::text {

struct ChatOptions {
  bool add_generation_prompt = true;
};

class ChatTemplate {
 public:
  // `source` is the model's Jinja text. Never throws: a template that is not ChatML, or none,
  // gives an object whose render() throws.
  explicit ChatTemplate(std::string source);

  bool supported() const { return supported_; }
  // Template text comes back as trusted pieces, message text as untrusted ones.
  // Throws: kChatTemplateUnsupported, kChatTemplateMissing, kChatRoleUnknown.
  std::vector<PromptPiece> render(const std::vector<ChatMessage>& messages,
                                  const ChatOptions& options) const;

 private:
  std::string source_;
  bool supported_ = false;
  std::string default_system_;  // added when the first message is not a system message
};

}  // namespace quern::text
