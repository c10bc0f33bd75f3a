// The table of formats by SGLang's names, and how a chat template tells which one its model writes.
#include <algorithm>
#include <functional>

#include "quern/output_parsers.h"
#include "text/tool_calls/formats.h"

namespace quern {
namespace {

using namespace text;
using Tools = std::shared_ptr<const ToolSet>;

JsonFormat json_format(std::vector<std::string_view> begin, std::string_view end) {
  JsonFormat format;
  format.begin = std::move(begin);
  format.end = end;
  return format;
}

std::unique_ptr<ToolCallParser> qwen(Tools tools) {
  return make_json_calls(json_format({"<tool_call>"}, "</tool_call>"), std::move(tools));
}

std::unique_ptr<ToolCallParser> llama3(Tools tools) {
  JsonFormat format = json_format({"<|python_tag|>"}, "");
  format.bare = true;
  return make_json_calls(std::move(format), std::move(tools));
}

std::unique_ptr<ToolCallParser> mistral(Tools tools) {
  JsonFormat format = json_format({"[TOOL_CALLS]"}, "");
  format.named = true;
  return make_json_calls(std::move(format), std::move(tools));
}

std::unique_ptr<ToolCallParser> apertus(Tools tools) {
  JsonFormat format = json_format({"<|tools_prefix|>"}, "<|tools_suffix|>");
  format.name_is_key = true;
  return make_json_calls(std::move(format), std::move(tools));
}

std::unique_ptr<ToolCallParser> cohere(Tools tools) {
  return make_json_calls(json_format({"<|START_ACTION|>"}, "<|END_ACTION|>"), std::move(tools));
}

std::unique_ptr<ToolCallParser> internlm(Tools tools) {
  return make_json_calls(
      json_format({"<|action_start|> <|plugin|>", "<|action_start|><|plugin|>"}, "<|action_end|>"),
      std::move(tools));
}

std::unique_ptr<ToolCallParser> deepseek_v3(Tools tools) {
  NamedFormat format;
  format.section_begin = "<｜tool▁calls▁begin｜>";
  format.section_end = "<｜tool▁calls▁end｜>";
  format.call_begin = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>";
  format.name_end = "```json";
  format.args_end = "```";
  format.call_end = "<｜tool▁call▁end｜>";
  return make_named_calls(format, std::move(tools));
}

std::unique_ptr<ToolCallParser> deepseek_v31(Tools tools) {
  NamedFormat format;
  format.section_begin = "<｜tool▁calls▁begin｜>";
  format.section_end = "<｜tool▁calls▁end｜>";
  format.call_begin = "<｜tool▁call▁begin｜>";
  format.name_end = "<｜tool▁sep｜>";
  format.call_end = "<｜tool▁call▁end｜>";
  return make_named_calls(format, std::move(tools));
}

std::unique_ptr<ToolCallParser> kimi_k2(Tools tools) {
  NamedFormat format;
  format.section_begin = "<|tool_calls_section_begin|>";
  format.section_end = "<|tool_calls_section_end|>";
  format.call_begin = "<|tool_call_begin|>";
  format.name_end = "<|tool_call_argument_begin|>";
  format.call_end = "<|tool_call_end|>";
  format.name_is_id = true;
  return make_named_calls(format, std::move(tools));
}

std::unique_ptr<ToolCallParser> glm(Tools tools) {
  TaggedFormat format;
  format.call_begin = "<tool_call>";
  format.call_end = "</tool_call>";
  format.key_begin = "<arg_key>";
  format.key_end = "</arg_key>";
  format.value_begin = "<arg_value>";
  format.value_end = "</arg_value>";
  return make_tagged_calls(format, std::move(tools));
}

std::unique_ptr<ToolCallParser> hunyuan(Tools tools) {
  TaggedFormat format;
  format.section_begin = "<tool_calls>";
  format.section_end = "</tool_calls>";
  format.call_begin = "<tool_call>";
  format.name_end = "<tool_sep>";
  format.call_end = "</tool_call>";
  format.key_begin = "<arg_key>";
  format.key_end = "</arg_key>";
  format.value_begin = "<arg_value>";
  format.value_end = "</arg_value>";
  return make_tagged_calls(format, std::move(tools));
}

std::unique_ptr<ToolCallParser> qwen3_coder(Tools tools) {
  TaggedFormat format;
  format.section_begin = "<tool_call>";
  format.section_end = "</tool_call>";
  format.call_begin = "<function=";
  format.name_end = ">";
  format.call_end = "</function>";
  format.key_begin = "<parameter=";
  format.key_end = ">";
  format.value_end = "</parameter>";
  format.trims_newlines = true;
  return make_tagged_calls(format, std::move(tools));
}

TaggedFormat invocation(std::string_view section_begin, std::string_view section_end) {
  TaggedFormat format;
  format.section_begin = section_begin;
  format.section_end = section_end;
  format.call_begin = "<invoke name=\"";
  format.name_end = "\">";
  format.call_end = "</invoke>";
  format.key_begin = "<parameter name=\"";
  format.key_end = "\">";
  format.value_end = "</parameter>";
  format.trims_newlines = true;
  return format;
}

std::unique_ptr<ToolCallParser> minimax_m2(Tools tools) {
  return make_tagged_calls(invocation("<minimax:tool_call>", "</minimax:tool_call>"),
                           std::move(tools));
}

std::unique_ptr<ToolCallParser> dots(Tools tools) {
  return make_tagged_calls(invocation("<dots_function_call>", "</dots_function_call>"),
                           std::move(tools));
}

std::unique_ptr<ToolCallParser> dsml(std::string_view begin, std::string_view end, Tools tools) {
  TaggedFormat format;
  format.section_begin = begin;
  format.section_end = end;
  format.call_begin = "<｜DSML｜invoke name=\"";
  format.name_end = "\">";
  format.call_end = "</｜DSML｜invoke>";
  format.key_begin = "<｜DSML｜parameter name=\"";
  format.key_end = "\"";
  format.value_end = "</｜DSML｜parameter>";
  format.says_string = true;
  return make_tagged_calls(format, std::move(tools));
}

std::unique_ptr<ToolCallParser> deepseek_v32(Tools tools) {
  return dsml("<｜DSML｜function_calls>", "</｜DSML｜function_calls>", std::move(tools));
}

std::unique_ptr<ToolCallParser> deepseek_v4(Tools tools) {
  return dsml("<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>", std::move(tools));
}

std::unique_ptr<ToolCallParser> step3(Tools tools) {
  TaggedFormat format;
  format.section_begin = "<｜tool_calls_begin｜>";
  format.section_end = "<｜tool_calls_end｜>";
  format.call_begin = "<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"";
  format.name_end = "\">";
  format.call_end = "</steptml:invoke><｜tool_call_end｜>";
  format.key_begin = "<steptml:parameter name=\"";
  format.key_end = "\">";
  format.value_end = "</steptml:parameter>";
  format.trims_newlines = true;
  return make_tagged_calls(format, std::move(tools));
}

std::unique_ptr<ToolCallParser> pythonic(Tools tools) {
  return make_pythonic_calls({"<|python_start|>", "<|python_end|>"}, std::move(tools));
}

std::unique_ptr<ToolCallParser> lfm2(Tools tools) {
  return make_pythonic_calls({"<|tool_call_start|>", "<|tool_call_end|>"}, std::move(tools));
}

struct Format {
  std::string_view name;
  std::unique_ptr<ToolCallParser> (*make)(Tools tools);
};

constexpr Format kFormats[] = {
    {"apertus2509", apertus},
    {"cohere_command4", cohere},
    {"deepseekv3", deepseek_v3},
    {"deepseekv31", deepseek_v31},
    {"deepseekv32", deepseek_v32},
    {"deepseekv4", deepseek_v4},
    {"dots", dots},
    {"gemma4", make_gemma_calls},
    {"glm", glm},
    {"glm45", glm},
    {"glm47", glm},
    {"gpt-oss", make_harmony_calls},
    {"hermes", qwen},
    {"hunyuan", hunyuan},
    {"interns1", internlm},
    {"kimi_k2", kimi_k2},
    {"lfm2", lfm2},
    {"llama3", llama3},
    {"mimo", qwen3_coder},
    {"minimax-m2", minimax_m2},
    {"mistral", mistral},
    {"pythonic", pythonic},
    {"qwen", qwen},
    {"qwen25", qwen},
    {"qwen3_coder", qwen3_coder},
    {"step3", step3},
    {"step3p5", qwen3_coder},
};

// All of a row's marks stand in the template; the first such row counts. A later row's marks may
// stand in the template of an earlier one, never the other way round.
struct Marks {
  std::string_view format;
  std::vector<std::string_view> marks;
};

const std::vector<Marks>& template_marks() {
  static const std::vector<Marks> rows = {
      {"deepseekv4", {"｜DSML｜", "tool_calls>"}},
      {"deepseekv32", {"｜DSML｜"}},
      {"deepseekv3", {"<｜tool▁call▁begin｜>", "```json"}},
      {"deepseekv31", {"<｜tool▁call▁begin｜>"}},
      {"kimi_k2", {"<|tool_calls_section_begin|>"}},
      {"minimax-m2", {"minimax:tool_call"}},
      {"step3", {"<steptml:invoke"}},
      {"dots", {"<dots_function_call>"}},
      {"hunyuan", {"<arg_key>", "<tool_sep>"}},
      {"glm45", {"<arg_key>"}},
      {"qwen3_coder", {"<function=", "<parameter="}},
      {"gpt-oss", {"<|channel|>", "functions."}},
      {"gemma4", {"<|tool_call>", "<tool_call|>"}},
      {"lfm2", {"<|tool_call_start|>"}},
      {"cohere_command4", {"<|START_ACTION|>"}},
      {"interns1", {"<|plugin|>"}},
      {"apertus2509", {"<|tools_prefix|>"}},
      {"mistral", {"[TOOL_CALLS]"}},
      {"qwen25", {"<tool_call>", "</tool_call>"}},
      {"pythonic", {"[func_name1(params_name1=params_value1"}},
      {"llama3", {"{\"name\": function name, \"parameters\""}},
      {"llama3", {"<|python_tag|>"}},
  };
  return rows;
}

}  // namespace

std::unique_ptr<ToolCallParser> make_tool_call_parser(std::string_view format,
                                                      std::string_view tools) {
  for (const Format& known : kFormats) {
    if (known.name == format) return known.make(std::make_shared<const ToolSet>(tools));
  }
  return nullptr;
}

std::vector<std::string_view> tool_call_formats() {
  std::vector<std::string_view> names;
  for (const Format& format : kFormats) names.push_back(format.name);
  return names;
}

std::string_view tool_call_format_of_template(std::string_view chat_template) {
  for (const Marks& row : template_marks()) {
    const auto stands = [&](std::string_view mark) {
      return chat_template.find(mark) != chat_template.npos;
    };
    if (std::all_of(row.marks.begin(), row.marks.end(), stands)) return row.format;
  }
  return {};
}

}  // namespace quern
