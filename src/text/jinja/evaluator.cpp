#include "text/jinja/evaluator.h"

#include <fmt/format.h>

#include <utility>

#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/protocol.h"

namespace quern::text::jinja {
namespace {

// Puts another scope in place of the current one while it lives.
class ScopeChange {
 public:
  ScopeChange(Scope*& current, Scope* inner) : current_(current), outer_(current) {
    current_ = inner;
  }
  ~ScopeChange() { current_ = outer_; }
  ScopeChange(const ScopeChange&) = delete;
  ScopeChange& operator=(const ScopeChange&) = delete;

 private:
  Scope*& current_;
  Scope* outer_;
};

}  // namespace

Evaluator::Evaluator(Runtime& runtime, const Names& names)
    : runtime_(runtime),
      names_(names),
      scope_(runtime.arena().make<Scope>()),
      loop_name_(names.find("loop")),
      caller_name_(names.find("caller")),
      varargs_name_(names.find("varargs")),
      kwargs_name_(names.find("kwargs")) {}

void Evaluator::define(std::string_view name, const Value& value) {
  const std::int64_t id = names_.find(name);
  if (id >= 0) scope_->set(runtime_.arena(), static_cast<NameId>(id), value);
}

MarkedText Evaluator::run(Body body) {
  MarkedText out;
  // The template's own variables stand before those of the request, which they may hide.
  const ScopeChange change(scope_, runtime_.arena().make<Scope>(scope_));
  run(body, out);
  return out;
}

Evaluator::Flow Evaluator::run(Body body, MarkedText& out) {
  for (const Statement* statement : body) {
    if (const Flow flow = run(*statement, out); flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Evaluator::Flow Evaluator::run(const Statement& statement, MarkedText& out) {
  const Runtime::Deeper deeper(runtime_);
  runtime_.step();
  runtime_.set_place(statement.at);
  switch (statement.kind) {
    case StatementKind::kText:
      out.append(statement.text->text);
      runtime_.charge(statement.text->text.size());
      runtime_.check_size(out.size());
      return Flow::kOn;
    case StatementKind::kPrint:
      for (const Expr* expr : statement.expressions) {
        append_text(runtime_, evaluate(*expr), out);
      }
      return Flow::kOn;
    case StatementKind::kIf: return run_if(statement, out);
    case StatementKind::kFor: return run_for(statement, out);
    case StatementKind::kSet:
      assign(*statement.target, evaluate(*statement.value));
      return Flow::kOn;
    case StatementKind::kSetBlock: return run_set_block(statement);
    case StatementKind::kWith: {
      Flow flow = Flow::kOn;
      run_with(statement, out, flow);
      return flow;
    }
    case StatementKind::kMacro:
      scope_->set(runtime_.arena(), statement.macro->name, make_macro(*statement.macro));
      return Flow::kOn;
    case StatementKind::kCallBlock: run_call_block(statement, out); return Flow::kOn;
    case StatementKind::kFilterBlock: return run_filter_block(statement, out);
    case StatementKind::kScope: return run_scope(statement, out);
    case StatementKind::kBreak: return Flow::kBreak;
    case StatementKind::kContinue: return Flow::kContinue;
  }
  return Flow::kOn;
}

Evaluator::Flow Evaluator::run_if(const Statement& statement, MarkedText& out) {
  for (const Branch& branch : statement.branches) {
    if (branch.test == nullptr || truth(evaluate(*branch.test))) return run(branch.body, out);
  }
  return Flow::kOn;
}

Evaluator::Flow Evaluator::run_for(const Statement& statement, MarkedText& out) {
  const Value iterable = evaluate(*statement.loop->iterable);
  runtime_.set_place(statement.loop->iterable->at);
  return loop(*statement.loop, scope_, iterable, 0, out);
}

// `break` and `continue` end here, so that it always goes on behind a loop.
Evaluator::Flow Evaluator::loop(const ForSyntax& syntax, Scope* around, const Value& iterable,
                                int depth, MarkedText& out) {
  const Runtime::Deeper deeper(runtime_);
  const Items all(runtime_, iterable);
  std::vector<Value> chosen;
  if (syntax.filter != nullptr) {
    for (const Value& item : all) {
      const ScopeChange change(scope_, runtime_.arena().make<Scope>(around));
      assign(*syntax.target, item);
      if (truth(evaluate(*syntax.filter))) chosen.push_back(item);
    }
  }
  Value state;
  state.kind = Kind::kLoop;
  state.loop = runtime_.arena().make<Loop>(
      &syntax, around, syntax.filter != nullptr ? runtime_.arena().copy(chosen) : all.all());
  Loop& loop = *state.loop;
  // A template may keep `loop` for longer than `all` lives.
  if (syntax.filter == nullptr && !iterable.is(Kind::kList) && !iterable.is(Kind::kTuple)) {
    loop.items = runtime_.arena().copy(std::vector<Value>(all.begin(), all.end()));
  }
  loop.depth = depth;
  for (; loop.index < loop.items.size(); ++loop.index) {
    const ScopeChange change(scope_, runtime_.arena().make<Scope>(around));
    if (loop_name_ >= 0) scope_->set(runtime_.arena(), static_cast<NameId>(loop_name_), state);
    assign(*syntax.target, loop.items[loop.index]);
    if (run(syntax.body, out) == Flow::kBreak) break;
  }
  if (!loop.items.empty()) return Flow::kOn;
  const ScopeChange change(scope_, runtime_.arena().make<Scope>(around));
  return run(syntax.otherwise, out);
}

Evaluator::Flow Evaluator::run_scope(const Statement& statement, MarkedText& out) {
  const ScopeChange change(scope_, runtime_.arena().make<Scope>(scope_));
  return run(statement.body, out);
}

Evaluator::Flow Evaluator::run_set_block(const Statement& statement) {
  MarkedText inner;
  {
    const ScopeChange change(scope_, runtime_.arena().make<Scope>(scope_));
    if (const Flow flow = run(statement.body, inner); flow != Flow::kOn) return flow;
  }
  Value value = runtime_.text(inner);
  if (statement.value != nullptr) value = block_filtered(*statement.value, value);
  runtime_.set_place(statement.at);
  assign(*statement.target, value);
  return Flow::kOn;
}

Evaluator::Flow Evaluator::run_filter_block(const Statement& statement, MarkedText& out) {
  MarkedText inner;
  {
    const ScopeChange change(scope_, runtime_.arena().make<Scope>(scope_));
    if (const Flow flow = run(statement.body, inner); flow != Flow::kOn) return flow;
  }
  append_text(runtime_, block_filtered(*statement.value, runtime_.text(inner)), out);
  return Flow::kOn;
}

void Evaluator::run_with(const Statement& statement, MarkedText& out, Flow& flow) {
  std::vector<Value> values;
  for (const Expr* expr : statement.expressions) values.push_back(evaluate(*expr));
  const ScopeChange change(scope_, runtime_.arena().make<Scope>(scope_));
  for (std::size_t i = 0; i < values.size(); ++i) assign(*statement.targets[i], values[i]);
  flow = run(statement.body, out);
}

void Evaluator::run_call_block(const Statement& statement, MarkedText& out) {
  const Value caller = make_macro(*statement.macro);
  append_text(runtime_, call(*statement.value, &caller), out);
}

void Evaluator::assign(const Target& target, const Value& value) {
  Arena& arena = runtime_.arena();
  if (target.kind == Target::Kind::kName) {
    scope_->set(arena, target.name, value);
    return;
  }
  if (target.kind == Target::Kind::kAttribute) {
    const Value space = name({.kind = ExprKind::kName, .at = target.at, .name = target.name});
    runtime_.set_place(target.at);
    if (!space.is(Kind::kNamespace)) {
      runtime_.fail(
          fmt::format("members are set on a namespace only, not on a {}", type_name(space)));
    }
    space.space->set(arena, names_[target.attribute], value);
    return;
  }
  const Items items(runtime_, value);
  if (items.size() != target.items.size()) {
    runtime_.set_place(target.at);
    runtime_.fail(fmt::format("{} values cannot be unpacked into {} names", items.size(),
                              target.items.size()));
  }
  for (std::size_t i = 0; i < items.size(); ++i) assign(*target.items[i], items.all()[i]);
}

Value Evaluator::make_macro(const MacroSyntax& syntax) {
  std::vector<Value> parameters;
  for (const NameId name : syntax.parameters) parameters.push_back(string(names_[name]));
  Value value;
  value.kind = Kind::kMacro;
  value.macro = runtime_.arena().make<Macro>(&syntax, scope_, names_[syntax.name],
                                             runtime_.tuple(parameters));
  return value;
}

Value Evaluator::call_macro(const Macro& macro, const Arguments& arguments) {
  const Runtime::Deeper deeper(runtime_);
  Scope* scope = runtime_.arena().make<Scope>(macro.scope);
  const std::uint32_t place = runtime_.place();
  const ScopeChange change(scope_, scope);
  bind(macro, arguments, scope);
  MarkedText out;
  run(macro.syntax->body, out);
  runtime_.set_place(place);
  return runtime_.text(out);
}

// Sets the macro's parameters in its scope.
void Evaluator::bind(const Macro& macro, const Arguments& arguments, Scope* scope) {
  Arena& arena = runtime_.arena();
  const MacroSyntax& syntax = *macro.syntax;
  const std::size_t count = syntax.parameters.size();
  std::vector<Keyword> rest = arguments.keywords;
  const auto take = [&rest](std::string_view name) -> std::optional<Value> {
    for (auto keyword = rest.begin(); keyword != rest.end(); ++keyword) {
      if (keyword->name != name) continue;
      const Value value = keyword->value;
      rest.erase(keyword);
      return value;
    }
    return std::nullopt;
  };
  std::vector<std::optional<Value>> given(count);
  bool explicit_caller = false;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view name = names_[syntax.parameters[i]]->text;
    explicit_caller |= name == "caller";
    given[i] =
        i < arguments.positional.size() ? std::optional(arguments.positional[i]) : take(name);
  }
  if (syntax.uses_caller && !explicit_caller) {
    const std::optional<Value> caller = take("caller");
    scope->set(arena, static_cast<NameId>(caller_name_),
               caller && !caller->is(Kind::kNone)
                   ? *caller
                   : runtime_.missing(Missing::Why::kReason, Kind::kMacro,
                                      "the macro was called without a block"));
  }
  if (syntax.uses_kwargs) {
    std::vector<Entry> entries;
    for (const Keyword& keyword : rest)
      entries.push_back({runtime_.text(keyword.name), keyword.value});
    scope->set(arena, static_cast<NameId>(kwargs_name_), runtime_.dict(entries));
  } else if (!rest.empty()) {
    runtime_.fail(
        fmt::format("the macro '{}' has no parameter '{}'", macro.name->text, rest[0].name));
  }
  if (syntax.uses_varargs) {
    std::vector<Value> more;
    for (std::size_t i = count; i < arguments.positional.size(); ++i) {
      more.push_back(arguments.positional[i]);
    }
    scope->set(arena, static_cast<NameId>(varargs_name_), runtime_.tuple(more));
  } else if (arguments.positional.size() > count) {
    runtime_.fail(
        fmt::format("the macro '{}' takes at most {} arguments", macro.name->text, count));
  }
  const std::size_t first_default = count - syntax.defaults.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (!given[i] && i >= first_default) given[i] = evaluate(*syntax.defaults[i - first_default]);
    const std::string_view name = names_[syntax.parameters[i]]->text;
    scope->set(
        arena, syntax.parameters[i],
        given[i] ? *given[i] : runtime_.missing(Missing::Why::kName, Kind::kUndefined, name));
  }
}

}  // namespace quern::text::jinja
