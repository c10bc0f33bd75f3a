// A request's prompt as token ids, and ids back to text, with a loaded model. Called by the engine
// on its callers' threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/startup.h"
#include "quern/types.h"

namespace quern::engine {

// `trusted`: control tokens written in the request's texts are recognised, whatever it says.
// Throws: kRequestFormInvalid, kTokenIdOutOfRange, and what rendering a chat throws.
std::vector<std::int32_t> prompt_ids(const LoadedModel& loaded, const Request& request,
                                     bool trusted);

// Throws: kTokenIdOutOfRange.
std::string text_of_ids(const LoadedModel& loaded, const std::vector<std::int32_t>& ids,
                        bool skip_special_tokens);

}  // namespace quern::engine
