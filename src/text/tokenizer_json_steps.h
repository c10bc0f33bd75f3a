// The pipeline around the model of a tokenizer.json: normalizer, pre-tokenizer, post-processor and
// decoder. Called by tokenizer_json only.
#pragma once

#include "text/json_fields.h"
#include "text/tokenizer_spec.h"

namespace quern::text {

// Each reads one member of the file into the spec; whatever it asks for is done or refused by name.
void read_normalizer(const JsonFields& json, const JsonFields::element& value, TokenizerSpec& spec);
void read_pre_tokenizer(const JsonFields& json, const JsonFields::element& value,
                        TokenizerSpec& spec);
void read_post_processor(const JsonFields& json, const JsonFields::element& value,
                         TokenizerSpec& spec);
void read_decoder(const JsonFields& json, const JsonFields::element& value, TokenizerSpec& spec);

}  // namespace quern::text
