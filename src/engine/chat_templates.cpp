#include "engine/chat_templates.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <optional>

#include "base/error.h"
#include "base/errors/engine.h"
#include "base/log.h"
#include "checkpoint/mapped_file.h"
#include "engine/conversation_file.h"
#include "quern/output_parsers.h"
#include "text/tokenizer.h"

namespace quern::engine {
namespace {

ConversationFile template_asked_for(const std::string& asked) {
  if (const auto builtin = text::builtin_template(asked)) return {std::string(*builtin), {}};
  if (asked.ends_with(".jinja") && checkpoint::is_file(asked)) {
    return {checkpoint::read_text_file(asked), {}};
  }
  if (asked.ends_with(".json") && checkpoint::is_file(asked)) return read_conversation_file(asked);
  throw Error(errors::kChatTemplateUnknown,
              {{"value", asked},
               {"names", fmt::format("{}", fmt::join(text::builtin_template_names(), ", "))},
               {"param", "--chat-template"}});
}

}  // namespace

std::unique_ptr<text::ChatTemplate> open_chat_template(
    const std::string& asked, const checkpoint::TokenizerSource* tokenizer) {
  text::ChatTemplateSource source;
  if (tokenizer != nullptr) {
    source.bos_token = tokenizer->bos_token;
    source.eos_token = tokenizer->eos_token;
  }
  if (!asked.empty()) {
    ConversationFile file = template_asked_for(asked);
    source.templates.emplace_back("default", std::move(file.jinja));
    source.stop = std::move(file.stop);
    return std::make_unique<text::ChatTemplate>(source);
  }
  if (tokenizer != nullptr && !tokenizer->chat_template.empty()) {
    source.templates.emplace_back("default", tokenizer->chat_template);
    for (const auto& named : tokenizer->named_chat_templates) source.templates.push_back(named);
  }
  try {
    return std::make_unique<text::ChatTemplate>(source);
  } catch (const Error& error) {
    log().warn("chats are refused, the rest is served: {}\n{}", error.message(),
               error.field("hint"));
    return std::make_unique<text::ChatTemplate>(error);
  }
}

std::string tool_call_format(const std::string& asked, const std::string& asked_template,
                             const checkpoint::TokenizerSource& tokenizer) {
  if (asked.empty()) return "";
  if (asked != "auto") {
    const auto names = tool_call_formats();
    if (std::find(names.begin(), names.end(), asked) != names.end()) return asked;
    throw Error(errors::kToolCallParserUnknown,
                {{"value", asked},
                 {"names", fmt::format("{}", fmt::join(names, ", "))},
                 {"param", "--tool-call-parser"}});
  }
  if (!asked_template.empty()) {
    return std::string(tool_call_format_of_template(template_asked_for(asked_template).jinja));
  }
  // The template for requests with tools says more than the usual one.
  for (const auto& [name, source] : tokenizer.named_chat_templates) {
    const std::string_view format = tool_call_format_of_template(source);
    if (name == "tool_use" && !format.empty()) return std::string(format);
  }
  return std::string(tool_call_format_of_template(tokenizer.chat_template));
}

std::string reasoning_format(const std::string& asked) {
  const auto names = reasoning_formats();
  if (asked.empty() || std::find(names.begin(), names.end(), asked) != names.end()) return asked;
  throw Error(errors::kReasoningParserUnknown,
              {{"value", asked},
               {"names", fmt::format("{}", fmt::join(names, ", "))},
               {"param", "--reasoning-parser"}});
}

RenderedChat render_chat(const std::string& model, const std::string& asked, const Request& request,
                         bool with_ids, std::int64_t repeats) {
  std::optional<checkpoint::Metadata> metadata;
  if (!model.empty()) metadata = checkpoint::read_metadata(model);
  const auto chat = open_chat_template(asked, metadata ? &metadata->tokenizer : nullptr);
  const std::vector<PromptPiece> pieces = chat->render(request.messages.value(), request.chat);
  RenderedChat rendered;
  for (const PromptPiece& piece : pieces) rendered.text += piece.text;
  if (with_ids && metadata) {
    rendered.ids =
        text::Tokenizer::create(metadata->tokenizer, metadata->config.vocab)->encode(pieces);
  }
  std::vector<double> seconds;
  for (std::int64_t i = 0; i < repeats; ++i) {
    const std::clock_t begin = std::clock();
    chat->render(request.messages.value(), request.chat);
    seconds.push_back(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  std::sort(seconds.begin(), seconds.end());
  if (!seconds.empty()) rendered.cpu_seconds = seconds[seconds.size() / 2];
  return rendered;
}

}  // namespace quern::engine
