// libFuzzer target: any text in any cuts through every parser of tool calls and of reasoning. What
// comes out must not depend on the cuts, text without a call must come out whole, and complete
// arguments must be JSON.
#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "quern/output_parsers.h"

namespace {

constexpr const char* kTools = R"([{"type":"function","function":{"name":"f","parameters":{
  "properties":{"s":{"type":"string"},"i":{"type":"integer"},"o":{"type":["object","null"]}}}}},
  {"name":"now"}])";

void require(bool condition) {
  if (!condition) std::abort();
}

struct Parsed {
  std::string text, calls;
};

template <typename Push>
void in_pieces(std::string_view text, std::uint32_t cuts, Push push) {
  size_t begin = 0;
  while (cuts != 0 && begin < text.size()) {
    cuts = cuts * 1664525u + 1013904223u;
    const size_t length = 1 + (cuts >> 28);
    push(text.substr(begin, length));
    begin += length;
  }
  if (begin < text.size()) push(text.substr(begin));
}

Parsed parse(std::string_view format, std::string_view text, std::uint32_t cuts) {
  const auto parser = quern::make_tool_call_parser(format, kTools);
  std::vector<quern::ToolCallEvent> events;
  in_pieces(text, cuts, [&](std::string_view piece) { parser->push(piece, &events); });
  parser->finish(&events);
  Parsed parsed;
  std::string arguments;
  for (const quern::ToolCallEvent& event : events) {
    using Kind = quern::ToolCallEvent::Kind;
    if (event.kind == Kind::kText) parsed.text += event.text;
    if (event.kind == Kind::kBegin) {
      parsed.calls += "\n" + event.name + " " + event.id + " ";
      arguments.clear();
    }
    if (event.kind == Kind::kArguments) arguments += event.text;
    if (event.kind != Kind::kEnd) continue;
    simdjson::dom::parser json;
    const auto error = json.parse(arguments).error();
    // A text that is no UTF-8 cannot become JSON, and that library refuses numbers past 64 bits.
    require(!event.complete || !simdjson::validate_utf8(text.data(), text.size()) ||
            error == simdjson::SUCCESS || error == simdjson::NUMBER_ERROR);
    parsed.calls += arguments + (event.complete ? "." : "?");
  }
  // Of gpt-oss's messages the marks are left out.
  const bool unwrapped = format == "gpt-oss" && text.find("<|message|>") != text.npos;
  if (parsed.calls.empty() && !unwrapped) require(parsed.text == text);
  return parsed;
}

std::string reason(std::string_view format, std::string_view text, std::uint32_t cuts) {
  const auto parser =
      quern::make_reasoning_parser(format, static_cast<quern::ReasoningStart>(text.size() % 3));
  std::string reasoning, content;
  in_pieces(text, cuts, [&](std::string_view piece) { parser->push(piece, &reasoning, &content); });
  parser->finish(&reasoning, &content);
  return reasoning + "|" + content;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 5) return 0;
  std::uint32_t cuts = 1;
  for (int i = 0; i < 4; ++i) cuts = cuts << 8 | data[i];
  const std::string_view text(reinterpret_cast<const char*>(data) + 5, size - 5);
  const auto formats = quern::tool_call_formats();
  const std::string_view format = formats[data[4] % formats.size()];
  const Parsed whole = parse(format, text, 0), pieces = parse(format, text, cuts | 1);
  require(whole.text == pieces.text && whole.calls == pieces.calls);
  const auto reasonings = quern::reasoning_formats();
  const std::string_view other = reasonings[data[4] % reasonings.size()];
  require(reason(other, text, 0) == reason(other, text, cuts | 1));
  return 0;
}
