// Any text as a JSON schema, of an answer or of a tool's parameters in some format: refused, or a
// grammar that compiles, in bounded time and memory; and no token that its mask allows is refused.
#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "grammar/test_grammars.h"
#include "grammar/tool_grammar.h"
#include "quern/output_parsers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quern::grammar;
  if (size > 4096) return 0;
  const std::string schema(reinterpret_cast<const char*>(data), size);
  const auto check = [&](const auto& make) {
    try {
      if (draw(make(), static_cast<unsigned>(size), 40).stuck) __builtin_trap();
    } catch (const quern::Error&) {
    }
  };
  check([&] { return compiled_schema(schema); });
  check([&] {
    // A request's tools are objects whose parameters are one.
    const Json parameters = parse_bounded(schema);
    const Json function = {{"name", "f"}, {"strict", true}, {"parameters", parameters}};
    const Json list = Json::array({Json{{"function", function}}});
    const std::string tools = parameters.is_object() ? list.dump() : "[]";
    const auto formats = quern::tool_call_formats();
    const std::string text = tool_grammar(
        {.format = formats[size % formats.size()], .tools = tools, .required = size % 2 == 0}, {});
    return std::make_shared<const Compiled>(test_vocabulary(), Notation::kEbnf, text);
  });
  return 0;
}
