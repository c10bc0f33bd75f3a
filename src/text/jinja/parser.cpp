#include "text/jinja/parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace quern::text::jinja {
namespace {

using Ends = std::initializer_list<std::string_view>;

class Parser : private ExpressionParser {
 public:
  Parser(std::string_view source, Arena& arena, Names& names)
      : ExpressionParser(source, arena, names) {}

  Body run() {
    const Body body = statements({});
    refuse_unknown();
    return body;
  }

 private:
  // Up to a tag of `ends`, whose name is then the current token, or to the end of the template.
  Body statements(Ends ends) {
    const Level level(*this);
    std::vector<const Statement*> body;
    while (now().kind != TokenKind::kEnd) {
      const Token& token = take();
      if (token.kind == TokenKind::kText) {
        const Str* text = arena_.make<Str>(arena_.copy(token.text));
        body.push_back(make({.kind = StatementKind::kText, .at = token.at, .text = text}));
      } else if (token.kind == TokenKind::kPrintBegin) {
        const std::vector<const Expr*> value = {tuple(true, "", false)};
        if (now().kind != TokenKind::kPrintEnd) unexpected(now());
        take();
        body.push_back(make(
            {.kind = StatementKind::kPrint, .at = token.at, .expressions = arena_.copy(value)}));
      } else {
        if (now().kind != TokenKind::kName) fail(now().at, "the name of a tag is expected here");
        if (std::find(ends.begin(), ends.end(), now().text) != ends.end()) break;
        if (const Statement* found = statement(ends)) body.push_back(found);
        end_of_tag();
      }
    }
    return arena_.copy(body);
  }

  // The rest of a tag, then its body up to one of `ends`.
  Body block(Ends ends, bool soft = false) {
    skip_operator(":");
    end_of_tag();
    const bool around = std::exchange(soft_, soft);
    const Body body = statements(ends);
    soft_ = around;
    if (now().kind == TokenKind::kEnd) {
      fail(now().at, fmt::format("the template ends where {} is due", fmt::join(ends, " or ")));
    }
    return body;
  }

  Body whole_block(std::string_view end, bool soft = false) {
    const Body body = block({end}, soft);
    take();
    return body;
  }

  void end_of_tag() {
    if (now().kind != TokenKind::kStatementEnd) unexpected(now());
    take();
  }

  const Statement* make(Statement statement) const { return arena_.make<Statement>(statement); }

  const Statement* statement(Ends ends) {
    const Token& tag = take();
    const std::string& name = tag.text;
    const std::uint32_t at = tag.at;
    if (name == "if") return if_statement(at);
    if (name == "for") return for_statement(at);
    if (name == "set") return set_statement(at);
    if (name == "macro") return macro_statement(at);
    if (name == "call") return call_statement(at);
    if (name == "filter") {
      const Expr* filter = filters(nullptr, true);
      return make({.kind = StatementKind::kFilterBlock,
                   .at = at,
                   .value = filter,
                   .body = whole_block("endfilter")});
    }
    if (name == "with") return with_statement(at);
    if (name == "print") return print_statement(at);
    if (name == "generation") return generation_statement(at);
    if (name == "block") return block_statement(at);
    if (name == "break" || name == "continue") {
      if (loops_ == 0) fail(at, fmt::format("'{}' stands outside of a loop", name));
      return make(
          {.kind = name == "break" ? StatementKind::kBreak : StatementKind::kContinue, .at = at});
    }
    for (const std::string_view other : {"include", "import", "from", "extends", "autoescape"}) {
      if (name == other)
        fail(at, fmt::format("the tag '{}' is not served in chat templates", name));
    }
    if (ends.size() > 0) {
      fail(at, fmt::format("unknown tag '{}' where {} is due", name, fmt::join(ends, " or ")));
    }
    fail(at, fmt::format("unknown tag '{}'", name));
  }

  const Statement* if_statement(std::uint32_t at) {
    std::vector<Branch> branches;
    while (true) {
      const bool around = std::exchange(soft_, true);
      const Expr* test = tuple(false, "", false);
      soft_ = around;
      branches.push_back({test, block({"elif", "else", "endif"}, true)});
      const std::string& end = take().text;
      if (end == "elif") continue;
      if (end == "else") branches.push_back({nullptr, whole_block("endif", true)});
      break;
    }
    return make({.kind = StatementKind::kIf, .at = at, .branches = arena_.copy(branches)});
  }

  const Statement* for_statement(std::uint32_t at) {
    ForSyntax loop{};
    loop.target = targets("in", false);
    expect_name("in");
    loop.iterable = tuple(false, "recursive", false);
    if (skip_name("if")) loop.filter = expression();
    loop.recursive = skip_name("recursive");
    ++loops_;
    loop.body = block({"endfor", "else"});
    --loops_;
    if (take().text == "else") loop.otherwise = whole_block("endfor");
    return make({.kind = StatementKind::kFor, .at = at, .loop = arena_.make<ForSyntax>(loop)});
  }

  const Statement* set_statement(std::uint32_t at) {
    const Target* target = targets("", true);
    if (skip_operator("=")) {
      return make({.kind = StatementKind::kSet,
                   .at = at,
                   .target = target,
                   .value = tuple(true, "", false)});
    }
    const Expr* filter = filters(nullptr, false);
    return make({.kind = StatementKind::kSetBlock,
                 .at = at,
                 .target = target,
                 .value = filter,
                 .body = whole_block("endset")});
  }

  const Statement* with_statement(std::uint32_t at) {
    std::vector<const Target*> names;
    std::vector<const Expr*> values;
    while (now().kind != TokenKind::kStatementEnd) {
      if (!names.empty()) expect_operator(",");
      names.push_back(target(false));
      expect_operator("=");
      values.push_back(expression());
    }
    return make({.kind = StatementKind::kWith,
                 .at = at,
                 .expressions = arena_.copy(values),
                 .targets = arena_.copy(names),
                 .body = whole_block("endwith")});
  }

  const Statement* print_statement(std::uint32_t at) {
    std::vector<const Expr*> values;
    while (now().kind != TokenKind::kStatementEnd) {
      if (!values.empty()) expect_operator(",");
      values.push_back(expression());
    }
    return make({.kind = StatementKind::kPrint, .at = at, .expressions = arena_.copy(values)});
  }

  // The body of a function: no loop reaches into it.
  const MacroSyntax* function(MacroSyntax macro, std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    macros_.emplace_back();
    macro.body = whole_block(end);
    macro.uses_caller = macros_.back().caller;
    macro.uses_varargs = macros_.back().varargs;
    macro.uses_kwargs = macros_.back().kwargs;
    macros_.pop_back();
    loops_ = loops;
    return arena_.make<MacroSyntax>(macro);
  }

  void signature(MacroSyntax& macro) {
    std::vector<NameId> parameters;
    std::vector<const Expr*> defaults;
    expect_operator("(");
    while (!is_operator(")")) {
      if (!parameters.empty()) expect_operator(",");
      const NameId name = assignable_name(expect_any_name());
      if (std::find(parameters.begin(), parameters.end(), name) != parameters.end()) {
        fail(now().at, "a parameter stands twice");
      }
      parameters.push_back(name);
      if (skip_operator("=")) {
        defaults.push_back(expression());
      } else if (!defaults.empty()) {
        fail(now().at, "a parameter without a default follows one with a default");
      }
    }
    expect_operator(")");
    macro.parameters = arena_.copy(parameters);
    macro.defaults = arena_.copy(defaults);
  }

  const Statement* macro_statement(std::uint32_t at) {
    MacroSyntax macro{};
    macro.name = assignable_name(expect_any_name());
    signature(macro);
    return make({.kind = StatementKind::kMacro, .at = at, .macro = function(macro, "endmacro")});
  }

  const Statement* call_statement(std::uint32_t at) {
    MacroSyntax caller{};
    caller.name = names_.add("caller");
    if (is_operator("(")) signature(caller);
    const std::uint32_t call_at = now().at;
    const Expr* call = expression();
    if (call->kind != ExprKind::kCall) fail(call_at, "the call of a macro is expected here");
    return make({.kind = StatementKind::kCallBlock,
                 .at = at,
                 .value = call,
                 .macro = function(caller, "endcall")});
  }

  const Statement* generation_statement(std::uint32_t at) {
    const int loops = std::exchange(loops_, 0);
    const Body body = whole_block("endgeneration");
    loops_ = loops;
    return make({.kind = StatementKind::kScope, .at = at, .body = body});
  }

  const Statement* block_statement(std::uint32_t at) {
    expect_any_name();
    skip_name("scoped");
    skip_name("required");
    const int loops = std::exchange(loops_, 0);
    const Body body = whole_block("endblock");
    loops_ = loops;
    return make({.kind = StatementKind::kScope, .at = at, .body = body});
  }

  NameId assignable_name(const Token& token) {
    for (const std::string_view literal : {"true", "false", "none", "True", "False", "None"}) {
      if (token.text == literal) {
        fail(token.at, fmt::format("'{}' cannot be assigned to", token.text));
      }
    }
    return names_.add(token.text);
  }

  // One name, tuple in parentheses or, with `attributes`, member of a namespace.
  const Target* target(bool attributes) {
    const std::uint32_t at = now().at;
    if (skip_operator("(")) {
      const Level level(*this);
      const Target* inner = targets("", attributes);
      expect_operator(")");
      return inner;
    }
    const NameId name = assignable_name(expect_any_name());
    if (!attributes || !skip_operator(".")) {
      return arena_.make<Target>(Target::Kind::kName, at, name);
    }
    const NameId attribute = names_.add(expect_any_name().text);
    return arena_.make<Target>(Target::Kind::kAttribute, at, name, attribute);
  }

  // Targets with commas between them, up to the name `end`.
  const Target* targets(std::string_view end, bool attributes) {
    const std::uint32_t at = now().at;
    std::vector<const Target*> items;
    bool commas = false;
    while (now().kind != TokenKind::kStatementEnd && !is_operator("=") && !is_operator(")") &&
           (end.empty() || !is_name(end))) {
      items.push_back(target(attributes));
      if (!skip_operator(",")) break;
      commas = true;
    }
    if (items.empty()) fail(at, "the name of a variable is expected here");
    if (!commas) return items[0];
    return arena_.make<Target>(Target::Kind::kTuple, at, NameId{0}, NameId{0}, arena_.copy(items));
  }

  int loops_ = 0;  // around this place
};

}  // namespace

Body parse(std::string_view source, Arena& arena, Names& names) {
  return Parser(source, arena, names).run();
}

}  // namespace quern::text::jinja
