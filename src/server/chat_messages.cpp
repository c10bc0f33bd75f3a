#include "server/chat_messages.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "base/errors/server.h"
#include "server/sampling_fields.h"
#include "server/tool_fields.h"

namespace quern::server {
namespace {

constexpr UnservedField kUnserved[] = {
    {"function_call", Harmless::kNothing, "messages without function calls"},
    {"audio", Harmless::kNothing, "text messages"},
};

void check_part(const Json& part, const std::string& where) {
  if (!part.is_object()) Fields(part, where).wrong_type("", "an object of type text", part);
  const Fields fields(part, where + ".");
  const std::string type = fields.text("type").value_or("");
  if (type != "text") {
    throw Error(errors::kFieldNotServed,
                {{"param", where + ".type"}, {"expected", "parts of type text"}});
  }
  if (!fields.text("text")) {
    throw Error(errors::kMissingField,
                {{"param", where + ".text"}, {"expected", "a text part needs its text"}});
  }
}

void check_content(const Fields& fields, const Json& content) {
  if (content.is_string()) return;
  if (!content.is_array()) fields.wrong_type("content", "a string or an array of parts", content);
  for (size_t i = 0; i < content.size(); ++i) {
    check_part(content[i], fmt::format("{}[{}]", fields.param("content"), i));
  }
}

std::string read_role(const Fields& fields) {
  const auto role = fields.text("role");
  if (!role) {
    throw Error(errors::kMissingField,
                {{"param", fields.param("role")}, {"expected", "each message has a role"}});
  }
  if (*role == "developer") return "system";
  for (const std::string_view known : {"system", "user", "assistant", "tool", "function"}) {
    if (*role == known) return *role;
  }
  fields.out_of_range("role", "system, developer, user, assistant, tool or function", Json(*role));
}

ChatMessage read_message(const Json& message, const std::string& where) {
  const Fields parts(message, where + ".");
  refuse_unserved(parts, kUnserved);
  ChatMessage read{read_role(parts), ""};
  const Json* content = parts.find("content");
  if (!content && read.role != "assistant") {
    throw Error(errors::kMissingField,
                {{"param", parts.param("content")}, {"expected", "each message has content"}});
  }
  if (content) check_content(parts, *content);
  check_calls(parts);
  for (const char* text : {"name", "tool_call_id"}) parts.text(text);
  Json fields = message;
  fields.erase("role");
  mend_calls(&fields);
  if (content && content->is_string()) {
    read.content = content->get<std::string>();
    fields.erase("content");
  } else if (!content) {
    fields["content"] = nullptr;
  }
  if (!fields.empty()) read.fields = dump(fields);
  return read;
}

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
    read.push_back(read_message(message, fields.param(name)));
  }
  return read;
}

// An array of objects, as JSON text; "" where it is absent or empty.
std::string read_objects(const Fields& fields, const char* name) {
  const Json* list = fields.find(name);
  if (!list) return "";
  if (!list->is_array()) fields.wrong_type(name, "an array of objects", *list);
  for (size_t i = 0; i < list->size(); ++i) {
    if (!(*list)[i].is_object()) {
      fields.wrong_type(fmt::format("{}[{}]", name, i), "an object", (*list)[i]);
    }
  }
  return list->empty() ? "" : dump(*list);
}

std::string read_template_kwargs(const Fields& fields) {
  const Json* given = fields.find("chat_template_kwargs");
  if (given && !given->is_object()) fields.wrong_type("chat_template_kwargs", "an object", *given);
  Json kwargs = given ? *given : Json::object();
  if (const Json* effort = fields.find("reasoning_effort"); effort) {
    kwargs["reasoning_effort"] = *effort;
  }
  // Of one meaning, by Qwen's name and by DeepSeek's.
  if (const auto thinks = fields.boolean("enable_thinking")) {
    for (const char* name : {"enable_thinking", "thinking"}) {
      if (!kwargs.contains(name)) kwargs[name] = *thinks;
    }
  }
  return kwargs.empty() ? "" : dump(kwargs);
}

}  // namespace

void read_chat(const Fields& fields, Request* request) {
  request->messages = read_messages(fields);
  ChatOptions& chat = request->chat;
  chat.continue_final_message = fields.boolean("continue_final_message").value_or(false);
  chat.add_generation_prompt =
      fields.boolean("add_generation_prompt").value_or(!chat.continue_final_message);
  std::string tools = read_tools(fields);
  if (read_tool_choice(fields, &chat)) chat.tools = std::move(tools);
  chat.documents = read_objects(fields, "documents");
  chat.template_kwargs = read_template_kwargs(fields);
}

}  // namespace quern::server
