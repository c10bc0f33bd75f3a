#include "engine/prompt_ids.h"

#include "base/error.h"
#include "base/errors/engine.h"
#include "text/detokenizer.h"

namespace quern::engine {
namespace {

void check_ids(const LoadedModel& loaded, const std::vector<std::int32_t>& ids) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < loaded.info.vocab) continue;
    throw Error(errors::kTokenIdOutOfRange,
                {{"id", ids[i]}, {"position", i}, {"last", loaded.info.vocab - 1}});
  }
}

}  // namespace

std::vector<std::int32_t> prompt_ids(const LoadedModel& loaded, const Request& request,
                                     bool trusted) {
  const int forms =
      (request.prompt ? 1 : 0) + (request.token_ids ? 1 : 0) + (request.messages ? 1 : 0);
  if (forms != 1) throw Error(errors::kRequestFormInvalid, {{"count", forms}});
  if (request.token_ids) {
    check_ids(loaded, *request.token_ids);
    return *request.token_ids;
  }
  trusted = trusted || request.parse_special_tokens;
  std::vector<PromptPiece> pieces;
  if (request.prompt) {
    pieces.push_back({*request.prompt, trusted});
  } else {
    pieces = loaded.chat_template->render(*request.messages, request.chat);
    for (PromptPiece& piece : pieces) piece.trusted = piece.trusted || trusted;
  }
  return loaded.tokenizer->encode(pieces, {.add_special_tokens = request.add_special_tokens});
}

std::string text_of_ids(const LoadedModel& loaded, const std::vector<std::int32_t>& ids,
                        bool skip_special_tokens) {
  check_ids(loaded, ids);
  text::DecodeOptions options;
  options.skip_special_tokens = skip_special_tokens;
  return text::decode(*loaded.tokenizer, ids, options);
}

}  // namespace quern::engine
