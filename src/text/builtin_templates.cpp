// Chat templates that come with quern, under the names that SGLang gives its own.
#include <algorithm>
#include <array>

#include "text/chat_template.h"

namespace quern::text {
namespace {

constexpr std::string_view kChatMl =
    "{%- for message in messages -%}"
    "{{ '<|im_start|>' + message.role + '\\n' + (message.content or '') + '<|im_end|>\\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}";

constexpr std::string_view kLlama2 =
    "{%- set ns = namespace(system='') -%}"
    "{%- for message in messages -%}"
    "{%- if message.role == 'system' -%}"
    "{%- set ns.system = '<<SYS>>\\n' + message.content + '\\n<</SYS>>\\n\\n' -%}"
    "{%- elif message.role == 'assistant' -%}"
    "{{ ' ' + message.content + ' ' + eos_token }}"
    "{%- else -%}"
    "{{ bos_token + '[INST] ' + ns.system + message.content + ' [/INST]' }}"
    "{%- set ns.system = '' -%}"
    "{%- endif -%}"
    "{%- endfor -%}";

constexpr auto kTemplates = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"chatml", kChatMl},
    {"llama-2", kLlama2},
});

}  // namespace

std::optional<std::string_view> builtin_template(std::string_view name) {
  const auto found = std::find_if(kTemplates.begin(), kTemplates.end(),
                                  [name](const auto& item) { return item.first == name; });
  return found == kTemplates.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> builtin_template_names() {
  std::vector<std::string> names;
  for (const auto& [name, text] : kTemplates) names.emplace_back(name);
  return names;
}

}  // namespace quern::text
