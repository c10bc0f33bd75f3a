// libFuzzer target: any bytes as the JSON of a conversation, rendered by a template that uses most
// of what templates use. What is refused must be refused by an Error.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "text/chat_template.h"

namespace {

constexpr const char* kTemplate = R"(
{%- macro show(v, deep=0) -%}
  {%- if v is mapping -%}{{ '{' }}{% for k, x in v | dictsort %}{{ k }}:{{ show(x, deep + 1) }}{% endfor %}{{ '}' }}
  {%- elif v is string -%}{{ v.split('a')[-1].strip() | upper | replace('B', 'bb') | indent(2) }}{{ v[1:-1][::-1] }}
  {%- elif v is iterable -%}{% for x in v if x is not none %}{{ show(x) }}{{ ', ' if not loop.last }}{% endfor %}
  {%- else -%}{{ v | tojson }}{{ v | default('-') | string | length }}{%- endif -%}
{%- endmacro -%}
{%- set ns = namespace(n=0, s='') -%}
{%- for m in messages -%}
  {%- set ns.n = ns.n + loop.index -%}{%- set ns.s = ns.s ~ (m.name or '') -%}
  {{ '<|' + m.role + '|>' }}{{ show(m.content) }}{{ show(m) }}
  {%- for c in m.tool_calls or [] -%}{{ c.function.name }}{{ c.function.arguments | tojson(indent=1) }}{%- endfor -%}
{%- endfor -%}
{{ ns.s | title }}{{ messages | map(attribute='role') | unique | join(',') }}{{ '%5s|%r' % (ns.n, messages[0].x) }}
{{- messages | selectattr('content', 'string') | list | length }})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const quern::text::ChatTemplate chat({{{"default", kTemplate}}, "<s>", "</s>"});
  if (size == 0) return 0;
  const std::string json(reinterpret_cast<const char*>(data) + 1, size - 1);
  quern::ChatOptions options;
  options.continue_final_message = (data[0] & 1) != 0;
  if ((data[0] & 2) != 0) options.tools = json;
  if ((data[0] & 4) != 0) options.template_kwargs = json;
  try {
    chat.render({{"user", json}, {"assistant", "x", json}}, options);
  } catch (const quern::Error&) {
  }
  return 0;
}
