#include "server/output_api.h"

#include <fmt/ranges.h>

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/errors/server.h"
#include "quern/output_parsers.h"
#include "server/json_body.h"
#include "server/tool_fields.h"

namespace quern::server {
namespace {

std::string needed_text(const Fields& fields) {
  const auto text = fields.text("text");
  if (!text) {
    throw Error(errors::kMissingField, {{"param", "text"}, {"expected", "a text is needed"}});
  }
  return *text;
}

// The parser that `field` names, or the server's own.
std::string format_of(const Fields& fields, const char* field, const std::string& own,
                      const std::vector<std::string_view>& names) {
  const std::string name = fields.text(field).value_or(own);
  if (name.empty()) {
    throw Error(errors::kMissingField,
                {{"param", field}, {"expected", "this server was started with no parser"}});
  }
  for (const std::string_view known : names) {
    if (known == name) return name;
  }
  fields.out_of_range(field, fmt::format("one of {}", fmt::join(names, ", ")), Json(name));
}

Reply json_reply(const JsonOut& json) {
  Reply reply;
  reply.body = dump(json);
  return reply;
}

// Where each tool stands. Requires: read_tools has found nothing wrong.
std::map<std::string, size_t> places(const Fields& fields) {
  std::map<std::string, size_t> places;
  const Json* tools = fields.find("tools");
  for (size_t i = 0; tools && i < tools->size(); ++i) {
    places.emplace((*tools)[i].at("function").at("name").get<std::string>(), i);
  }
  return places;
}

}  // namespace

Reply parse_function_call(std::string_view body, const EngineInfo& info) {
  const Json json = parse_object(body);
  const Fields fields(json);
  const std::string text = needed_text(fields);
  const std::string format =
      format_of(fields, "tool_call_parser", info.tool_call_parser, tool_call_formats());
  const std::string tools = read_tools(fields);
  const auto parser = make_tool_call_parser(format, tools);
  std::vector<ToolCallEvent> events;
  parser->push(text, &events);
  parser->finish(&events);
  const std::map<std::string, size_t> place_of = places(fields);
  std::string normal;
  JsonOut calls = JsonOut::array();
  for (const ToolCallEvent& event : events) {
    switch (event.kind) {
      case ToolCallEvent::Kind::kText: normal += event.text; break;
      case ToolCallEvent::Kind::kBegin:
        calls.push_back(
            {{"tool_index", place_of.at(event.name)}, {"name", event.name}, {"parameters", ""}});
        break;
      case ToolCallEvent::Kind::kArguments:
        calls.back()["parameters"].get_ref<std::string&>() += event.text;
        break;
      case ToolCallEvent::Kind::kEnd: break;
    }
  }
  return json_reply({{"normal_text", normal}, {"calls", std::move(calls)}});
}

Reply separate_reasoning(std::string_view body, const EngineInfo& info) {
  const Json json = parse_object(body);
  const Fields fields(json);
  const std::string text = needed_text(fields);
  const bool blocks = fields.boolean("return_blocks").value_or(false);
  const std::string format =
      format_of(fields, "reasoning_parser", info.reasoning_parser, reasoning_formats());
  const auto parser = make_reasoning_parser(format);
  std::string reasoning, content;
  parser->push(text, &reasoning, &content);
  parser->finish(&reasoning, &content);
  JsonOut answer = {{"reasoning_text", reasoning}, {"text", content}};
  if (blocks) {
    JsonOut list = JsonOut::array();
    if (!reasoning.empty()) list.push_back({{"type", "reasoning"}, {"text", reasoning}});
    list.push_back({{"type", "text"}, {"text", content}});
    answer["blocks"] = std::move(list);
  }
  return json_reply(answer);
}

}  // namespace quern::server
