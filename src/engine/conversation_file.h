// SGLang's conversation templates in JSON files, put as the Jinja template that does the same.
// Called by chat_templates.cpp.
#pragma once

#include <string>
#include <vector>

namespace quern::engine {

struct ConversationFile {
  std::string jinja;
  std::vector<std::string> stop;  // stop strings of every chat
};

// Reads {"system", "user", "assistant", "sep_style", "sep", "stop_str", "system_message"}. The
// words of a role begin its turns, `sep` ends them. Served are the styles CHATML,
// ADD_COLON_SINGLE, ADD_COLON_SPACE_SINGLE, ADD_NEW_LINE_SINGLE and NO_COLON_SINGLE.
// Throws: kCheckpointFileUnreadable, kCheckpointJsonInvalid, kConfigFieldMissing,
// kConfigFieldInvalid.
ConversationFile read_conversation_file(const std::string& path);

}  // namespace quern::engine
