#include "grammar/tool_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/errors/grammar.h"
#include "text/utf8.h"

namespace quern::grammar {
namespace {

// section_begin call (separator call)* section_end, a call being: begin NAME middle ARGUMENTS end
struct CallFormat {
  std::vector<std::string_view> names;
  std::string_view section_begin, begin, middle, end, separator, section_end;
  bool numbered = false;  // NAME:NUMBER
  bool marked = true;     // a mark tells where calls begin; else the answer is one call
};

const std::vector<CallFormat>& formats() {
  static const std::vector<CallFormat> all = {
      {{"qwen", "qwen25", "hermes"},
       "",
       "<tool_call>\n{\"name\": \"",
       "\", \"arguments\": ",
       "}\n</tool_call>",
       "\n",
       ""},
      {{"llama3"}, "", "{\"name\": \"", "\", \"parameters\": ", "}", "", "", false, false},
      {{"mistral"}, "[TOOL_CALLS] [", "{\"name\": \"", "\", \"arguments\": ", "}", ", ", "]"},
      {{"deepseekv3"},
       "<｜tool▁calls▁begin｜>",
       "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
       "\n```json\n",
       "\n```<｜tool▁call▁end｜>",
       "\n",
       "<｜tool▁calls▁end｜>"},
      {{"deepseekv31"},
       "<｜tool▁calls▁begin｜>",
       "<｜tool▁call▁begin｜>",
       "<｜tool▁sep｜>",
       "<｜tool▁call▁end｜>",
       "",
       "<｜tool▁calls▁end｜>"},
      {{"kimi_k2"},
       "<|tool_calls_section_begin|>",
       "<|tool_call_begin|>functions.",
       "<|tool_call_argument_begin|>",
       "<|tool_call_end|>",
       "",
       "<|tool_calls_section_end|>",
       true},
  };
  return all;
}

const CallFormat& format_named(std::string_view name) {
  std::string known;
  for (const CallFormat& format : formats()) {
    for (const std::string_view each : format.names) {
      if (each == name) return format;
      known += (known.empty() ? "" : ", ") + std::string(each);
    }
  }
  throw Error(errors::kToolFormatNotForced,
              {{"format", name.empty() ? "none" : name}, {"known", known}});
}

const Json& function_of(const Json& tool) {
  return tool.contains("function") ? tool["function"] : tool;
}

bool is_strict(const Json& function) {
  const Json* strict = function.contains("strict") ? &function["strict"] : nullptr;
  return strict && strict->is_boolean() && strict->get<bool>();
}

class ToolWriter {
 public:
  ToolWriter(const ToolCalls& calls, const JsonStyle& style)
      : calls_(calls), format_(format_named(calls.format)), json_(style, &ebnf_) {
    if (!calls.required && !format_.marked) {
      throw Error(errors::kToolFormatNotForced,
                  {{"format", calls.format}, {"known", "those with a mark before their calls"}});
    }
  }

  std::string write() {
    const int call = any_call();
    const int root = calls_.required ? section(call) : text_with(call);
    std::optional<std::string> text = ebnf_.text(root);
    if (!text) refuse_grammar("nothing satisfies it");
    return *text;
  }

 private:
  static Part literal(std::string_view text) { return Part::of(literal_text(text)); }

  int any_call() {
    const Json tools = parse_bounded(calls_.tools);
    const int call = ebnf_.add_rule();
    for (size_t i = 0; i < tools.size(); ++i) {
      const Json& function = function_of(tools[i]);
      const std::string name = function["name"].get<std::string>();
      if (!calls_.name.empty() && name != calls_.name) continue;
      Alternative parts = {literal(format_.begin)};
      // JSON around the name writes it as JSON does.
      const std::string quoted = Json(name).dump();
      const bool json = format_.begin.ends_with('"');
      parts.push_back(literal(json ? std::string_view(quoted).substr(1, quoted.size() - 2) : name));
      if (format_.numbered) parts.push_back(Part::of("\":\" [0-9]{1,2}"));
      parts.push_back(literal(format_.middle));
      parts.push_back(Part::ref(arguments(function, i)));
      parts.push_back(literal(format_.end));
      ebnf_.add(call, std::move(parts));
    }
    return call;
  }

  int arguments(const Json& function, size_t index) {
    const Json* parameters = function.contains("parameters") ? &function["parameters"] : nullptr;
    if (!parameters || parameters->is_null()) return json_.object();
    Json schema = *parameters;
    if (!schema.contains("type")) schema["type"] = "object";
    try {
      return json_.schema(schemas_.emplace_back(std::move(schema)));
    } catch (const Error& syntax) {
      if (syntax.id() != errors::kGrammarInvalid) throw;
      if (!is_strict(function)) return json_.object();
      refuse_grammar(
          fmt::format("tools[{}].function.parameters: {}", index, syntax.field("detail")));
    }
  }

  // Nothing but calls.
  int section(int call) {
    Alternative parts;
    if (!format_.section_begin.empty()) parts.push_back(literal(format_.section_begin));
    parts.push_back(Part::ref(call));
    if (calls_.parallel && format_.marked) {
      const int more = ebnf_.add_rule({literal(format_.separator), Part::ref(call)});
      parts.push_back(Part::ref(more, 0, kNoMaximum));
    }
    if (!format_.section_end.empty()) parts.push_back(literal(format_.section_end));
    return ebnf_.add_rule(std::move(parts));
  }

  // Text, and where a mark of calls has come, calls. After them, text again where several may come.
  int text_with(int call) {
    const bool sections = !format_.section_begin.empty();
    const std::string_view opening = sections ? format_.section_begin : format_.begin;
    const std::string_view mark = opening.substr(0, opening.find_first_of("\n\" "));
    const std::string_view rest =
        (sections ? format_.section_begin : format_.begin).substr(mark.size());
    int behind = ebnf_.add_rule();
    std::u32string word;
    for (size_t at = 0; at < mark.size();) word += text::next_char(mark, at);
    std::vector<int> states(word.size());
    for (int& state : states) state = ebnf_.add_rule();
    for (size_t i = 0; i < word.size(); ++i) add_state(word, i, states, behind);
    // The rest of the call behind its mark: what a call writes, without its first characters.
    const int tail = ebnf_.add_rule();
    for (const Alternative& alternative : sectioned(call, mark, rest)) ebnf_.add(tail, alternative);
    ebnf_.add(behind, {Part::ref(tail)});
    if (calls_.parallel) ebnf_.add(behind, {Part::ref(tail), Part::ref(states[0])});
    return states[0];
  }

  // Text in which the first `matched` characters of the mark have come last; it may end here.
  void add_state(const std::u32string& word, size_t matched, const std::vector<int>& states,
                 int behind) {
    ebnf_.add(states[matched], {});
    CharSet taken;
    for (size_t i = 0; i < word.size(); ++i) {
      const char32_t c = word[i];
      if (contains(taken, c)) continue;
      // The longest beginning of the mark that the text ends with now.
      std::u32string text = word.substr(0, matched) + c;
      size_t length = std::min(text.size(), word.size());
      while (text.substr(text.size() - length) != word.substr(0, length)) --length;
      if (length == 0) continue;
      taken = normalized([&] {
        CharSet more = taken;
        more.emplace_back(c, c);
        return more;
      }());
      ebnf_.add(states[matched], {Part::of(class_text({{c, c}})),
                                  Part::ref(length == word.size() ? behind : states[length])});
    }
    ebnf_.add(states[matched], {Part::of(class_text(complement(taken))), Part::ref(states[0])});
  }

  std::vector<Alternative> sectioned(int call, std::string_view mark, std::string_view rest) {
    if (!format_.section_begin.empty()) {
      Alternative parts;
      if (!rest.empty()) parts.push_back(literal(rest));
      parts.push_back(Part::ref(call));
      if (calls_.parallel) {
        const int more = ebnf_.add_rule({literal(format_.separator), Part::ref(call)});
        parts.push_back(Part::ref(more, 0, kNoMaximum));
      }
      if (!format_.section_end.empty()) parts.push_back(literal(format_.section_end));
      return {parts};
    }
    std::vector<Alternative> all = ebnf_.alternatives(call);
    for (Alternative& alternative : all) {
      alternative[0] = literal(format_.begin.substr(mark.size()));
    }
    return all;
  }

  const ToolCalls& calls_;
  const CallFormat& format_;
  Ebnf ebnf_;
  JsonGrammar json_;
  std::deque<Json> schemas_;  // of the grammar's readers
};

}  // namespace

bool has_strict_tool(std::string_view tools) {
  if (tools.find("\"strict\"") == tools.npos) return false;
  const Json list = parse_bounded(tools);
  return std::any_of(list.begin(), list.end(),
                     [](const Json& tool) { return is_strict(function_of(tool)); });
}

std::string tool_grammar(const ToolCalls& calls, const JsonStyle& style) {
  return ToolWriter(calls, style).write();
}

}  // namespace quern::grammar
