#include "server/tokenize_api.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "base/errors/server.h"
#include "server/chat_messages.h"
#include "server/error_pages.h"
#include "server/json_body.h"
#include "server/openai_api.h"
#include "server/sampling_fields.h"

namespace quern::server {
namespace {

constexpr UnservedField kUnserved[] = {
    {"return_token_strs", Harmless::kFalse, "return_token_strs false"},
};

// What `ask` answers; an error of the engine, which does not know the request's fields, names
// `param`.
template <typename Ask>
Reply named(std::string_view param, Ask ask) {
  try {
    return ask();
  } catch (...) {
    return error_reply(current_error(), param);
  }
}

Reply json_reply(const JsonOut& json) {
  Reply reply;
  reply.body = dump(json);
  return reply;
}

// The one field that holds the text.
std::string text_field(const Fields& fields) {
  std::string given;
  for (const char* name : {"prompt", "text", "messages"}) {
    const Json* value = fields.find(name);
    if (!value) continue;
    if (!given.empty()) {
      fields.out_of_range(name, fmt::format("absent where {} is given", given), *value);
    }
    given = name;
  }
  if (given.empty()) {
    throw Error(errors::kMissingField,
                {{"param", "prompt"}, {"expected", "give either prompt or messages"}});
  }
  return given;
}

Reply tokenize_texts(const Fields& fields, const std::string& name, const Json& texts,
                     Request request, const Engine& engine) {
  for (const Json& text : texts) {
    if (!text.is_string()) fields.wrong_type(name, "a string or an array of strings", text);
  }
  JsonOut tokens = JsonOut::array(), counts = JsonOut::array();
  for (size_t i = 0; i < texts.size(); ++i) {
    request.prompt = texts[i].get<std::string>();
    const std::vector<std::int32_t> ids = engine.tokenize(request);
    tokens.push_back(ids);
    counts.push_back(ids.size());
  }
  return json_reply({{"tokens", std::move(tokens)},
                     {"count", std::move(counts)},
                     {"max_model_len", engine.info().context_length}});
}

}  // namespace

Reply tokenize_reply(std::string_view body, const Engine& engine) {
  const Json json = parse_object(body);
  const Fields fields(json);
  check_model(fields, engine.info());
  refuse_unserved(fields, kUnserved);
  const std::string given = text_field(fields);
  Request request;
  read_special_tokens(fields, &request);
  if (const Json& value = *fields.find(given); given != "messages" && value.is_array()) {
    return named(given, [&] { return tokenize_texts(fields, given, value, request, engine); });
  }
  if (given == "messages") {
    read_chat(fields, &request);
  } else {
    if (const Json& value = *fields.find(given); !value.is_string()) {
      fields.wrong_type(given, "a string or an array of strings", value);
    }
    request.prompt = fields.text(given);
  }
  return named(given, [&] {
    const std::vector<std::int32_t> ids = engine.tokenize(request);
    return json_reply(
        {{"tokens", ids}, {"count", ids.size()}, {"max_model_len", engine.info().context_length}});
  });
}

Reply detokenize_reply(std::string_view body, const Engine& engine) {
  const Json json = parse_object(body);
  const Fields fields(json);
  check_model(fields, engine.info());
  const Json* tokens = fields.find("tokens");
  if (!tokens) {
    throw Error(errors::kMissingField,
                {{"param", "tokens"}, {"expected", "an array of token ids is needed"}});
  }
  const bool skip = fields.boolean("skip_special_tokens").value_or(true);
  if (!tokens->is_array() || tokens->empty() || !tokens->front().is_array()) {
    const std::vector<std::int32_t> ids = token_ids(*tokens, "tokens");
    return named("tokens", [&] { return json_reply({{"text", engine.detokenize(ids, skip)}}); });
  }
  JsonOut texts = JsonOut::array();
  for (size_t i = 0; i < tokens->size(); ++i) {
    const std::string name = fmt::format("tokens[{}]", i);
    const std::vector<std::int32_t> ids = token_ids((*tokens)[i], name);
    Reply reply = named(name, [&] {
      texts.push_back(engine.detokenize(ids, skip));
      return Reply();
    });
    if (reply.status != 200) return reply;
  }
  return json_reply({{"text", std::move(texts)}});
}

}  // namespace quern::server
