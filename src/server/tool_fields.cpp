#include "server/tool_fields.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/errors/server.h"

namespace quern::server {
namespace {

constexpr std::string_view kTypes[] = {"string", "number", "integer", "boolean",
                                       "object", "array",  "null"};
constexpr std::string_view kTypeWords =
    "one or several of string, number, integer, boolean, object, array, null";

void check_type(const Fields& schema) {
  const Json* type = schema.find("type");
  if (!type) return;
  const auto known = [](const Json& word) {
    return word.is_string() && std::find(std::begin(kTypes), std::end(kTypes),
                                         word.get_ref<const std::string&>()) != std::end(kTypes);
  };
  if (type->is_string() ? known(*type)
                        : type->is_array() && std::all_of(type->begin(), type->end(), known)) {
    return;
  }
  if (!type->is_string() && !type->is_array()) schema.wrong_type("type", kTypeWords, *type);
  schema.out_of_range("type", kTypeWords, *type);
}

// A schema and those within it. Recursion is as deep as the body, which json_body bounds.
void check_schema(const Json& schema, const std::string& where) {
  if (schema.is_boolean()) return;
  if (!schema.is_object()) Fields(schema, where).wrong_type("", "a JSON schema", schema);
  const Fields fields(schema, where + ".");
  check_type(fields);
  for (const char* name : {"properties", "$defs", "definitions", "patternProperties"}) {
    const Json* members = fields.find(name);
    if (!members) continue;
    if (!members->is_object()) fields.wrong_type(name, "an object of JSON schemas", *members);
    for (const auto& [key, member] : members->items()) {
      check_schema(member, fields.param(name) + "." + key);
    }
  }
  for (const char* name : {"anyOf", "oneOf", "allOf"}) {
    const Json* list = fields.find(name);
    if (!list) continue;
    if (!list->is_array()) fields.wrong_type(name, "an array of JSON schemas", *list);
    for (size_t i = 0; i < list->size(); ++i) {
      check_schema((*list)[i], fmt::format("{}[{}]", fields.param(name), i));
    }
  }
  for (const char* name : {"items", "additionalProperties", "not"}) {
    // Older drafts have arrays of items.
    const Json* inner = fields.find(name);
    if (inner && !inner->is_array()) check_schema(*inner, fields.param(name));
  }
  for (const char* name : {"enum", "required"}) {
    const Json* list = fields.find(name);
    if (list && !list->is_array()) fields.wrong_type(name, "an array", *list);
  }
}

// The function that a tool or a call names.
const Json& function_of(const Fields& holder) {
  if (const auto type = holder.text("type"); type && *type != "function") {
    throw Error(errors::kFieldNotServed,
                {{"param", holder.param("type")}, {"expected", "tools of type function"}});
  }
  const Json* function = holder.find("function");
  if (!function) {
    throw Error(errors::kMissingField,
                {{"param", holder.param("function")}, {"expected", "it tells the function"}});
  }
  if (!function->is_object()) holder.wrong_type("function", "an object", *function);
  return *function;
}

std::string name_of(const Fields& function) {
  const auto name = function.text("name");
  if (!name) {
    throw Error(errors::kMissingField,
                {{"param", function.param("name")}, {"expected", "each function has a name"}});
  }
  if (name->empty()) function.out_of_range("name", "not empty", Json(*name));
  return *name;
}

std::string check_tool(const Fields& tool) {
  const Fields fields(function_of(tool), tool.param("function."));
  const std::string name = name_of(fields);
  if (name.size() > kMaxFunctionName) {
    fields.out_of_range("name", fmt::format("at most {} bytes", kMaxFunctionName), Json(name));
  }
  fields.text("description");
  fields.boolean("strict");
  if (const Json* parameters = fields.find("parameters")) {
    if (!parameters->is_object()) {
      fields.wrong_type("parameters", "a JSON schema, which is an object", *parameters);
    }
    check_schema(*parameters, fields.param("parameters"));
  }
  return name;
}

bool is_blank_text(const Json& value) {
  return value.is_string() &&
         value.get_ref<const std::string&>().find_first_not_of(" \t\r\n") == std::string::npos;
}

void check_arguments(const Fields& function) {
  const Json* arguments = function.find("arguments");
  if (!arguments || arguments->is_object() || is_blank_text(*arguments)) return;
  constexpr std::string_view kExpected = "a JSON object, or one as text";
  if (!arguments->is_string()) function.wrong_type("arguments", kExpected, *arguments);
  const auto& text = arguments->get_ref<const std::string&>();
  const char first = text[text.find_first_not_of(" \t\r\n")];
  const bool none = text == "null";
  if (!none && (first != '{' || !Json::accept(text))) {
    function.out_of_range("arguments", kExpected, *arguments);
  }
}

}  // namespace

std::string read_tools(const Fields& fields) {
  const Json* list = fields.find("tools");
  if (!list) return "";
  if (!list->is_array()) fields.wrong_type("tools", "an array of objects", *list);
  std::set<std::string> names;
  for (size_t i = 0; i < list->size(); ++i) {
    const Json& tool = (*list)[i];
    const std::string where = fmt::format("tools[{}]", i);
    if (!tool.is_object()) fields.wrong_type(where, "an object", tool);
    const Fields members(tool, fields.param(where) + ".");
    const std::string name = check_tool(members);
    if (!names.insert(name).second) {
      members.out_of_range("function.name", "a name that no other tool has", Json(name));
    }
  }
  return list->empty() ? "" : dump(*list);
}

bool read_tool_choice(const Fields& fields, ChatOptions* chat) {
  chat->parallel_calls = fields.boolean("parallel_tool_calls").value_or(true);
  const Json* choice = fields.find("tool_choice");
  if (!choice) return true;
  if (*choice == "none") return false;
  if (*choice == "auto") return true;
  const Json* tools = fields.find("tools");
  chat->call_required = true;
  if (*choice == "required") {
    if (!tools || tools->empty()) {
      fields.out_of_range("tool_choice", "\"required\" only where there are tools", *choice);
    }
    return true;
  }
  if (choice->is_string()) {
    fields.out_of_range("tool_choice", "auto, none, required or a function", *choice);
  }
  if (!choice->is_object()) {
    fields.wrong_type("tool_choice", "a string or an object", *choice);
  }
  const Fields chosen(*choice, fields.param("tool_choice."));
  const Fields function(function_of(chosen), chosen.param("function."));
  chat->call_name = name_of(function);
  const bool there = tools && std::any_of(tools->begin(), tools->end(), [&](const Json& tool) {
                       return tool["function"]["name"] == chat->call_name;
                     });
  if (!there) function.out_of_range("name", "the name of one of the tools", Json(chat->call_name));
  return true;
}

void check_calls(const Fields& message) {
  const Json* calls = message.find("tool_calls");
  if (!calls) return;
  if (!calls->is_array()) message.wrong_type("tool_calls", "an array of tool calls", *calls);
  for (size_t i = 0; i < calls->size(); ++i) {
    const std::string name = fmt::format("tool_calls[{}]", i);
    if (!(*calls)[i].is_object()) message.wrong_type(name, "an object", (*calls)[i]);
    const Fields call((*calls)[i], message.param(name) + ".");
    call.text("id");
    const Fields function(function_of(call), call.param("function."));
    name_of(function);
    check_arguments(function);
  }
}

void mend_calls(Json* message) {
  const auto calls = message->find("tool_calls");
  if (calls == message->end() || !calls->is_array()) return;
  for (Json& call : *calls) {
    Json& function = call["function"];
    const auto arguments = function.find("arguments");
    const bool none = arguments == function.end() || arguments->is_null() || *arguments == "null" ||
                      is_blank_text(*arguments);
    if (none) function["arguments"] = Json::object();
  }
}

}  // namespace quern::server
