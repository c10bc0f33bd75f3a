#include "grammar/tool_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/errors/grammar.h"
#include "grammar/marked_text.h"
#include "grammar/tool_formats.h"

namespace quern::grammar {
namespace {

using Text = CallFormat::Text;

const Json& function_of(const Json& tool) {
  return tool.contains("function") ? tool["function"] : tool;
}

bool is_strict(const Json& function) {
  const Json* strict = function.contains("strict") ? &function["strict"] : nullptr;
  return strict && strict->is_boolean() && strict->get<bool>();
}

bool is_ascii_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Whether a reader of the format finds a name where no quotes stand around it.
bool can_be_bare(std::string_view name, Wording wording) {
  if (wording == Wording::kPython) {
    return is_ascii_word(name[0]) && std::all_of(name.begin(), name.end(), [](char c) {
             return is_ascii_word(c) || c == '-' || c == '.';
           });
  }
  return std::none_of(name.begin(), name.end(), [](char c) {
    const bool blank = static_cast<unsigned char>(c) <= ' ';
    return blank || std::string_view("\"<>:").find(c) != std::string_view::npos;
  });
}

// The mark that a call or a section begins with: "<call>" of "<call>\n{".
std::string_view mark_of(std::string_view opening) {
  return opening.substr(0, opening.find_first_of(">]") + 1);
}

// Of gpt-oss.
constexpr std::string_view kMarkBegin = "<|";
constexpr std::string_view kFinalMessage = "<|channel|>final<|message|>";

// Messages to nobody, with these words.
Part thoughts(Ebnf* ebnf, int words) {
  const int message = ebnf->add_rule();
  for (const char* channel : {"analysis", "commentary"}) {
    ebnf->add(message, {Part::of(literal_text(fmt::format("<|channel|>{}<|message|>", channel))),
                        Part::ref(words), Part::of(literal_text("<|end|><|start|>assistant"))});
  }
  return Part::ref(message, 0, kNoMaximum);
}

class ToolWriter {
 public:
  ToolWriter(const ToolCalls& calls, const JsonStyle& style)
      : calls_(calls),
        format_(call_format(calls.format)),
        types_(calls.tools),
        json_(style, &ebnf_, format_.wording) {
    read_tools();
  }

  std::string write() {
    const std::optional<std::string> text = ebnf_.text(root(), Behind::kNothing);
    if (!text) refuse_grammar("nothing satisfies it");
    return *text;
  }

 private:
  static Part literal(std::string_view text) { return Part::of(literal_text(text)); }

  int root() {
    if (format_.text == Text::kHarmony) return messages();
    if (calls_.required) return ebnf_.add_rule(section());
    switch (format_.text) {
      case Text::kListed: return text_with_lists();
      case Text::kBare: return text_or_call();
      default: return text_with_calls();
    }
  }

  // Rules of the tools that may be called: what follows `begin`, and all of a call.
  void read_tools() {
    const Json tools = parse_bounded(calls_.tools);
    named_ = ebnf_.add_rule();
    for (size_t i = 0; i < tools.size(); ++i) {
      const Json& function = function_of(tools[i]);
      const std::string name = function["name"].get<std::string>();
      if (!calls_.name.empty() && name != calls_.name) continue;
      const int rest = ebnf_.add_rule({Part::ref(arguments(function, i)), literal(format_.end)});
      behind_name_.emplace(name, rest);
      const std::string number = format_.numbered ? " \":\" [0-9]{1,2} " : " ";
      ebnf_.add(named_,
                {Part::of(literal_text(written(name, i)) + number + literal_text(format_.middle)),
                 Part::ref(rest)});
    }
    call_ = ebnf_.add_rule({literal(format_.begin), Part::ref(named_)});
  }

  std::string written(const std::string& name, size_t index) const {
    const bool json = !format_.apart && format_.begin.ends_with('"');
    if (json) {
      const std::string quoted = Json(name).dump();
      return quoted.substr(1, quoted.size() - 2);
    }
    if (!can_be_bare(name, format_.wording)) {
      refuse_grammar(
          fmt::format("tools[{}].function.name: calls of this model cannot name it", index));
    }
    return name;
  }

  int arguments(const Json& function, size_t index) {
    const Json* parameters = function.contains("parameters") ? &function["parameters"] : nullptr;
    if (!parameters || parameters->is_null()) return any_arguments();
    Json& schema = schemas_.emplace_back(*parameters);
    if (!schema.contains("type")) schema["type"] = "object";
    try {
      if (!format_.apart) return json_.schema(schema);
      const std::string function_name = function["name"];
      return json_.parameters(schema, format_.parameters, [&](const std::string& parameter) {
        return types_.types(function_name, parameter);
      });
    } catch (const Error& syntax) {
      if (syntax.id() != errors::kGrammarInvalid) throw;
      if (!is_strict(function)) return any_arguments();
      refuse_grammar(
          fmt::format("tools[{}].function.parameters: {}", index, syntax.field("detail")));
    }
  }

  int any_arguments() {
    return format_.apart ? json_.parameters(format_.parameters) : json_.object();
  }

  // Nothing but calls, without what is left of their opening.
  Alternative section(size_t without = 0) {
    const bool sections = !format_.section_begin.empty();
    const std::string_view opening = sections ? format_.section_begin : format_.begin;
    Alternative parts = {literal(opening.substr(without)), Part::ref(sections ? call_ : named_)};
    if (calls_.parallel && format_.text != Text::kBare) {
      parts.push_back(Part::ref(more_calls(), 0, kNoMaximum));
    }
    parts.push_back(literal(format_.section_end));
    return parts;
  }

  int more_calls() { return ebnf_.add_rule({literal(format_.separator), Part::ref(call_)}); }

  // `rest` ends the answer, or text follows it where several calls may come.
  void add_then_text(int rule, const Alternative& rest, int text) {
    ebnf_.add(rule, rest);
    if (!calls_.parallel) return;
    Alternative with_text = rest;
    with_text.push_back(Part::ref(text));
    ebnf_.add(rule, std::move(with_text));
  }

  int text_with_calls() {
    const bool sections = !format_.section_begin.empty();
    const std::string_view mark = mark_of(sections ? format_.section_begin : format_.begin);
    const int behind = ebnf_.add_rule();
    std::vector<Mark> marks = {{mark, behind}};
    if (!format_.other_mark.empty()) marks.push_back({format_.other_mark});
    const int text = add_marked_text(&ebnf_, marks);
    add_then_text(behind, section(mark.size()), text);
    return text;
  }

  int text_with_lists() {
    std::map<std::string, int> lists;
    for (const auto& [name, rest] : behind_name_) lists.emplace(name, ebnf_.add_rule());
    const int text = add_listed_text(&ebnf_, lists);
    for (const auto& [name, list] : lists) {
      Alternative parts = {Part::ref(behind_name_.at(name))};
      if (calls_.parallel) parts.push_back(Part::ref(more_calls(), 0, kNoMaximum));
      parts.push_back(literal("]"));
      const std::string_view closing = format_.section_end.substr(1);
      if (!closing.empty() && !calls_.parallel) {
        parts.push_back({.text = literal_text(closing), .min = 0, .max = 1});
      }
      add_then_text(list, parts, text);
    }
    return text;
  }

  // A call, or text that begins like none, in which one follows the mark.
  int text_or_call() {
    const CharSet like_calls =
        normalized({{'\t', '\n'}, {'\r', '\r'}, {' ', ' '}, {'{', '{'}, {'[', '['}});
    const int root = ebnf_.add_rule({Part::ref(call_)});
    ebnf_.add(root,
              {Part::ref(add_marked_text(&ebnf_, {{format_.other_mark, call_}}, like_calls))});
    return root;
  }

  // gpt-oss: messages to nobody, then a call, or the answer where none is required. An answer has
  // one call, whose last mark may be the model's end.
  int messages() {
    const int words = add_marked_text(&ebnf_, {{kMarkBegin}});
    const int last =
        ebnf_.add_rule({Part::ref(call_), {.text = literal_text("<|call|>"), .min = 0, .max = 1}});
    if (!calls_.required) ebnf_.add(last, {literal(kFinalMessage), Part::ref(words)});
    return ebnf_.add_rule({thoughts(&ebnf_, words), Part::ref(last)});
  }

  const ToolCalls& calls_;
  const CallFormat& format_;
  const text::ToolSet types_;
  Ebnf ebnf_;
  JsonGrammar json_;
  std::deque<Json> schemas_;  // of the grammar's readers
  int named_ = 0, call_ = 0;
  std::map<std::string, int> behind_name_;  // of each tool: arguments, and the call's end
};

}  // namespace

bool has_strict_tool(std::string_view tools) {
  if (tools.find("\"strict\"") == tools.npos) return false;
  const Json list = parse_bounded(tools);
  return std::any_of(list.begin(), list.end(),
                     [](const Json& tool) { return is_strict(function_of(tool)); });
}

std::string before_answer(std::string_view format) {
  if (format != "gpt-oss") return "";
  Ebnf ebnf;
  const Part before = thoughts(&ebnf, add_marked_text(&ebnf, {{kMarkBegin}}));
  return *ebnf.text(ebnf.add_rule({before, Part::of(literal_text(kFinalMessage))}), Behind::kMore);
}

std::string tool_grammar(const ToolCalls& calls, const JsonStyle& style) {
  return ToolWriter(calls, style).write();
}

}  // namespace quern::grammar
