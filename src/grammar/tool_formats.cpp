#include "grammar/tool_formats.h"

#include <string>

#include "base/error.h"
#include "base/errors/grammar.h"

namespace quern::grammar {
namespace {

using Text = CallFormat::Text;

CallFormat tagged(std::vector<std::string_view> names, ParameterMarks parameters) {
  CallFormat format{.names = std::move(names)};
  format.apart = true;
  format.wording = Wording::kTagged;
  format.parameters = parameters;
  return format;
}

CallFormat glm(std::vector<std::string_view> names, std::string_view line) {
  const bool lines = !line.empty();
  const std::string_view between = lines ? "</arg_key>\n<arg_value>" : "</arg_key><arg_value>";
  CallFormat format = tagged(std::move(names), {"<arg_key>", between, between,
                                                lines ? "</arg_value>\n" : "</arg_value>", ""});
  format.begin = "<tool_call>";
  format.middle = line;
  format.end = "</tool_call>";
  format.separator = line;
  return format;
}

CallFormat hunyuan() {
  CallFormat format = glm({"hunyuan"}, "\n");
  format.section_begin = "<tool_calls>\n";
  format.middle = "<tool_sep>\n";
  format.section_end = "\n</tool_calls>";
  format.other_mark = "<tool_call>";
  return format;
}

CallFormat qwen3_coder() {
  CallFormat format = tagged({"qwen3_coder", "mimo", "step3p5"},
                             {"<parameter=", ">\n", ">\n", "\n</parameter>\n", ""});
  format.begin = "<tool_call>\n<function=";
  format.middle = ">\n";
  format.end = "</function>\n</tool_call>";
  format.separator = "\n";
  format.other_mark = "<function=";
  return format;
}

CallFormat invocation(std::string_view name, std::string_view begin, std::string_view end) {
  CallFormat format = tagged({name}, {"<parameter name=\"", "\">", "\">", "</parameter>\n", ""});
  format.section_begin = begin;
  format.begin = "<invoke name=\"";
  format.middle = "\">\n";
  format.end = "</invoke>\n";
  format.section_end = end;
  format.other_mark = "<invoke name=\"";
  return format;
}

CallFormat dsml(std::string_view name, std::string_view begin, std::string_view end) {
  CallFormat format = tagged({name}, {"<｜DSML｜parameter name=\"", "\" string=\"true\">",
                                      "\" string=\"false\">", "</｜DSML｜parameter>\n", ""});
  format.section_begin = begin;
  format.begin = "<｜DSML｜invoke name=\"";
  format.middle = "\">\n";
  format.end = "</｜DSML｜invoke>\n";
  format.section_end = end;
  format.other_mark = "<｜DSML｜invoke name=\"";
  return format;
}

CallFormat step3() {
  CallFormat format =
      tagged({"step3"}, {"<steptml:parameter name=\"", "\">", "\">", "</steptml:parameter>", ""});
  format.section_begin = "<｜tool_calls_begin｜>";
  format.begin = "<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"";
  format.middle = "\">";
  format.end = "</steptml:invoke><｜tool_call_end｜>";
  format.section_end = "<｜tool_calls_end｜>";
  format.other_mark = "<｜tool_call_begin｜>";
  return format;
}

CallFormat pythonic(std::string_view name, std::string_view begin, std::string_view end) {
  CallFormat format{.names = {name},
                    .section_begin = begin,
                    .begin = "",
                    .middle = "(",
                    .end = ")",
                    .separator = ", ",
                    .section_end = end,
                    .text = Text::kListed};
  format.apart = true;
  format.wording = Wording::kPython;
  format.parameters = {"", "=", "=", "", ", "};
  return format;
}

std::vector<CallFormat> all_formats() {
  std::vector<CallFormat> all = {{.names = {"qwen", "qwen25", "hermes"},
                                  .begin = "<tool_call>\n{\"name\": \"",
                                  .middle = "\", \"arguments\": ",
                                  .end = "}\n</tool_call>",
                                  .separator = "\n"},
                                 {.names = {"llama3"},
                                  .begin = "{\"name\": \"",
                                  .middle = "\", \"parameters\": ",
                                  .end = "}",
                                  .text = Text::kBare,
                                  .other_mark = "<|python_tag|>"},
                                 {.names = {"mistral"},
                                  .section_begin = "[TOOL_CALLS] [",
                                  .begin = "{\"name\": \"",
                                  .middle = "\", \"arguments\": ",
                                  .end = "}",
                                  .separator = ", ",
                                  .section_end = "]"},
                                 {.names = {"apertus2509"},
                                  .section_begin = "<|tools_prefix|>[",
                                  .begin = "{\"",
                                  .middle = "\": ",
                                  .end = "}",
                                  .separator = ", ",
                                  .section_end = "]<|tools_suffix|>"},
                                 {.names = {"cohere_command4"},
                                  .section_begin = "<|START_ACTION|>[",
                                  .begin = "{\"tool_name\": \"",
                                  .middle = "\", \"parameters\": ",
                                  .end = "}",
                                  .separator = ", ",
                                  .section_end = "]<|END_ACTION|>"},
                                 {.names = {"interns1"},
                                  .begin = "<|action_start|><|plugin|>\n{\"name\": \"",
                                  .middle = "\", \"parameters\": ",
                                  .end = "}<|action_end|>",
                                  .separator = "\n"},
                                 {.names = {"deepseekv3"},
                                  .section_begin = "<｜tool▁calls▁begin｜>",
                                  .begin = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                                  .middle = "\n```json\n",
                                  .end = "\n```<｜tool▁call▁end｜>",
                                  .separator = "\n",
                                  .section_end = "<｜tool▁calls▁end｜>",
                                  .other_mark = "<｜tool▁call▁begin｜>"},
                                 {.names = {"deepseekv31"},
                                  .section_begin = "<｜tool▁calls▁begin｜>",
                                  .begin = "<｜tool▁call▁begin｜>",
                                  .middle = "<｜tool▁sep｜>",
                                  .end = "<｜tool▁call▁end｜>",
                                  .section_end = "<｜tool▁calls▁end｜>",
                                  .other_mark = "<｜tool▁call▁begin｜>"},
                                 {.names = {"kimi_k2"},
                                  .section_begin = "<|tool_calls_section_begin|>",
                                  .begin = "<|tool_call_begin|>functions.",
                                  .middle = "<|tool_call_argument_begin|>",
                                  .end = "<|tool_call_end|>",
                                  .section_end = "<|tool_calls_section_end|>",
                                  .other_mark = "<|tool_call_begin|>",
                                  .numbered = true},
                                 {.names = {"gpt-oss"},
                                  .begin = "<|channel|>commentary to=functions.",
                                  .middle = " <|constrain|>json<|message|>",
                                  .text = Text::kHarmony}};
  all.push_back(glm({"glm", "glm45"}, "\n"));
  all.push_back(glm({"glm47"}, ""));
  all.push_back(hunyuan());
  all.push_back(qwen3_coder());
  all.push_back(invocation("minimax-m2", "<minimax:tool_call>\n", "</minimax:tool_call>"));
  all.push_back(invocation("dots", "<dots_function_call>\n", "</dots_function_call>"));
  all.push_back(dsml("deepseekv32", "<｜DSML｜function_calls>\n", "</｜DSML｜function_calls>"));
  all.push_back(dsml("deepseekv4", "<｜DSML｜tool_calls>\n", "</｜DSML｜tool_calls>"));
  all.push_back(step3());
  all.push_back(pythonic("pythonic", "[", "]"));
  all.push_back(pythonic("lfm2", "<|tool_call_start|>[", "]<|tool_call_end|>"));
  return all;
}

}  // namespace

const CallFormat& call_format(std::string_view name) {
  static const std::vector<CallFormat> formats = all_formats();
  std::string known;
  for (const CallFormat& format : formats) {
    for (const std::string_view each : format.names) {
      if (each == name) return format;
      known += (known.empty() ? "" : ", ") + std::string(each);
    }
  }
  throw Error(errors::kToolFormatNotForced,
              {{"format", name.empty() ? "none" : name}, {"known", known}});
}

}  // namespace quern::grammar
