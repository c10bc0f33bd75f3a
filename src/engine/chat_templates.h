// Which chat template a model is served with. Called at start, and by `quern template`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "quern/types.h"
#include "text/chat_template.h"

namespace quern::engine {

// `asked` is what --chat-template says: a file ending in .jinja, SGLang's conversation in one
// ending in .json, or the name of a built-in template; "": the model's own. `tokenizer` may be
// null, where there is no model. A template of the model that cannot be compiled is logged, and
// thrown by each rendering; one that was asked for is thrown here. Throws: kChatTemplateUnknown,
// kChatTemplateUnsupported, and as read_conversation_file.
std::unique_ptr<text::ChatTemplate> open_chat_template(
    const std::string& asked, const checkpoint::TokenizerSource* tokenizer);

// The format of tool calls that `asked` (--tool-call-parser) names, or that the template of
// open_chat_template shows where it is "auto"; "" for none. Throws: kToolCallParserUnknown, and as
// open_chat_template.
std::string tool_call_format(const std::string& asked, const std::string& asked_template,
                             const checkpoint::TokenizerSource& tokenizer);
// What --reasoning-parser names; "" for none. Throws: kReasoningParserUnknown.
std::string reasoning_format(const std::string& asked);

struct RenderedChat {
  std::string text;
  std::vector<std::int32_t> ids;
  double cpu_seconds = 0;  // of one rendering, the median
};

// The prompt of a chat by the template of `model` ("": none) or by `asked`, and its ids where they
// are wanted, for which there must be a model. `repeats` > 0: rendered so often again, to measure
// the time. Reads no weights. Throws: as open_chat_template, the
// errors of reading a model's metadata and tokenizer, and those of rendering.
RenderedChat render_chat(const std::string& model, const std::string& asked, const Request& request,
                         bool with_ids, std::int64_t repeats = 0);

}  // namespace quern::engine
