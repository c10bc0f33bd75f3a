// Messages to prompt. ChatML for now, through the interface that the full template engine keeps.
// Immutable; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quern/types.h"
#include "text/chatml.h"

namespace quern::text {

struct ChatOptions {
  bool add_generation_prompt = true;
};

class ChatTemplate {
 public:
  // `source` is the model's Jinja text; `bos_token` what it prints as bos_token, where that is
  // known (without it a template that prints bos_token is not supported). Never throws: a template
  // that is not ChatML, or none, gives an object whose render() throws.
  explicit ChatTemplate(std::string source, std::optional<std::string> bos_token = std::nullopt);

  bool supported() const { return shape_.has_value(); }
  // Template text comes back as trusted pieces, message text (roles too) as untrusted ones. Any
  // role passes that the template lets pass. Throws: kChatTemplateMissing,
  // kChatTemplateUnsupported, kMessagesEmpty, kChatTemplateRefused (the template's own refusal of
  // an order of roles).
  std::vector<PromptPiece> render(const std::vector<ChatMessage>& messages,
                                  const ChatOptions& options) const;

 private:
  std::string source_;
  std::optional<ChatMl> shape_;
};

}  // namespace quern::text
