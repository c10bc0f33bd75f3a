// libFuzzer target: any bytes as a chat template, rendered for a fixed conversation. What is refused
// must be refused by an Error, and all text of the conversation must come back as untrusted.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/chat_template.h"
#include "text/jinja/json_values.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace jinja = quern::text::jinja;
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  try {
    const jinja::Template made(source);
    jinja::Rendering rendering(made, std::tm{},
                               {.steps = 200'000, .text_bytes = 1 << 20, .memory_bytes = 16 << 20});
    const auto values = jinja::parse_json(
        rendering.runtime(),
        R"({"messages": [{"role": "user", "content": "\u0002u"}, {"role": "assistant", "content": "a",
            "tool_calls": [{"function": {"name": "f", "arguments": {"b": [1.5, null, true]}}}]}],
            "tools": [{"function": {"name": "f"}}], "bos_token": "<s>", "x": "h\u00e9\ud83d\ude00"})");
    for (const jinja::Entry& entry : values->dict->entries) {
      rendering.define(entry.key.text(), entry.value);
    }
    const jinja::MarkedText text = rendering.run();
    std::size_t at = 0;
    for (const jinja::Bytes& span : text.data()) {
      if (span.begin < at || span.end <= span.begin || span.end > text.size()) __builtin_trap();
      at = span.end + 1;
    }
  } catch (const quern::Error&) {
  }
  return 0;
}
