// The small files of a Hugging Face folder beside config.json. Called by checkpoint.cpp.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/checkpoint.h"

namespace quern::checkpoint {

// tokenizer.json (or else tekken.json, tokenizer.model, *.tiktoken), tokenizer_config.json,
// chat_template.jinja and additional_chat_templates/*.jinja of `folder`, as far as they exist.
// Throws: kCheckpointFileUnreadable, kCheckpointFileTooLarge, kCheckpointJsonInvalid,
// kConfigFieldInvalid.
TokenizerSource read_tokenizer_files(const std::string& folder, const ModelConfig& config);

// Takes chat templates, add_bos_token, the texts of the tokens and, where source.model_file is set,
// the added tokens of a tokenizer_config.json.
void parse_tokenizer_config(std::string_view text, const std::string& file,
                            TokenizerSource& source);

}  // namespace quern::checkpoint
