#include "server/chat_messages.h"

#include "base/error.h"
#include "base/errors/server.h"
#include "server/sampling_fields.h"

namespace quern::server {
namespace {

constexpr UnservedField kUnserved[] = {
    {"tool_calls", Harmless::kEmpty, "messages without tool calls"},
    {"function_call", Harmless::kNothing, "messages without function calls"},
    {"audio", Harmless::kNothing, "text messages"},
};

std::string read_part(const Json& part, const std::string& where) {
  if (!part.is_object()) Fields(part, where).wrong_type("", "an object of type text", part);
  const Fields fields(part, where + ".");
  const std::string type = fields.text("type").value_or("");
  if (type != "text") {
    throw Error(errors::kFieldNotServed,
                {{"param", where + ".type"}, {"expected", "parts of type text"}});
  }
  const auto text = fields.text("text");
  if (!text) {
    throw Error(errors::kMissingField,
                {{"param", where + ".text"}, {"expected", "a text part needs its text"}});
  }
  return *text;
}

std::string read_content(const Fields& fields) {
  const Json* content = fields.find("content");
  if (!content) return "";
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) fields.wrong_type("content", "a string or an array of parts", *content);
  std::string text;
  for (size_t i = 0; i < content->size(); ++i) {
    if (i > 0) text += ' ';
    text += read_part((*content)[i], fmt::format("{}[{}]", fields.param("content"), i));
  }
  return text;
}

std::string read_role(const Fields& fields) {
  const auto role = fields.text("role");
  if (!role) {
    throw Error(errors::kMissingField,
                {{"param", fields.param("role")}, {"expected", "each message has a role"}});
  }
  if (*role == "developer") return "system";
  for (const std::string_view known : {"system", "user", "assistant", "tool"}) {
    if (*role == known) return *role;
  }
  fields.out_of_range("role", "system, developer, user, assistant or tool", Json(*role));
}

}  // namespace

std::vector<ChatMessage> read_messages(const Fields& fields) {
  const Json* messages = fields.find("messages");
  if (!messages) {
    throw Error(errors::kMissingField, {{"param", fields.param("messages")},
                                        {"expected", "an array of messages is needed"}});
  }
  if (!messages->is_array()) fields.wrong_type("messages", "an array of messages", *messages);
  if (messages->empty()) fields.out_of_range("messages", "an array of at least one", *messages);
  std::vector<ChatMessage> read;
  read.reserve(messages->size());
  for (size_t i = 0; i < messages->size(); ++i) {
    const Json& message = (*messages)[i];
    const std::string name = fmt::format("messages[{}]", i);
    if (!message.is_object()) fields.wrong_type(name, "an object", message);
    const Fields parts(message, fields.param(name) + ".");
    refuse_unserved(parts, kUnserved);
    std::string role = read_role(parts);
    if (!parts.find("content") && role != "assistant") {
      throw Error(errors::kMissingField,
                  {{"param", parts.param("content")}, {"expected", "each message has content"}});
    }
    read.push_back({std::move(role), read_content(parts)});
  }
  return read;
}

}  // namespace quern::server
