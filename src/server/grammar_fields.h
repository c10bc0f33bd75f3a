// The fields that ask for a form of the answer: OpenAI's response_format, SGLang's json_schema,
// regex, ebnf and structural_tag. Used by openai_api and native_api.
#pragma once

#include <optional>

#include "quern/types.h"
#include "server/json_body.h"

namespace quern::server {

// What they ask for together; nullopt for any text. Grammars may be JSON or its text. Throws:
// kGrammarsConflict, kWrongFieldType, kFieldOutOfRange, kMissingField.
std::optional<Grammar> read_grammar(const Fields& fields);

}  // namespace quern::server
