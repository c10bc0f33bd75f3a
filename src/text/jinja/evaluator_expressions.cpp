#include <fmt/format.h>

#include <utility>

#include "text/jinja/evaluator.h"
#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/protocol.h"

namespace quern::text::jinja {

Value Evaluator::evaluate(const Expr& expr) {
  runtime_.step();
  switch (expr.kind) {
    case ExprKind::kConst: return expr.constant;
    case ExprKind::kName: return name(expr);
    default: break;
  }
  const Runtime::Deeper deeper(runtime_);
  return operate(expr);
}

Value Evaluator::operate(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kConst:
    case ExprKind::kName: break;
    case ExprKind::kList:
    case ExprKind::kTuple: return collection(expr);
    case ExprKind::kDict: return dict(expr);
    case ExprKind::kAttribute: {
      const Value value = evaluate(*expr.left);
      runtime_.set_place(expr.at);
      return attribute(runtime_, value, names_[expr.name]);
    }
    case ExprKind::kItem: {
      const Value value = evaluate(*expr.left), key = evaluate(*expr.right);
      runtime_.set_place(expr.at);
      return element(runtime_, value, key);
    }
    case ExprKind::kSlice: return slice_of(expr);
    case ExprKind::kCall: return call(expr, nullptr);
    case ExprKind::kFilter: return filtered(expr, evaluate(*expr.left));
    case ExprKind::kTest: return boolean(tested(expr));
    case ExprKind::kNot: return boolean(!truth(evaluate(*expr.left)));
    case ExprKind::kNegative: {
      const Value value = evaluate(*expr.left);
      runtime_.set_place(expr.at);
      return negative(runtime_, value);
    }
    case ExprKind::kPositive: {
      const Value value = evaluate(*expr.left);
      runtime_.set_place(expr.at);
      return positive(runtime_, value);
    }
    case ExprKind::kAnd: {
      const Value left = evaluate(*expr.left);
      return truth(left) ? evaluate(*expr.right) : left;
    }
    case ExprKind::kOr: {
      const Value left = evaluate(*expr.left);
      return truth(left) ? left : evaluate(*expr.right);
    }
    case ExprKind::kCondition: return condition(expr);
    case ExprKind::kCompare: return boolean(comparison(expr));
    case ExprKind::kConcat: return concatenation(expr);
    case ExprKind::kAdd:
    case ExprKind::kSubtract:
    case ExprKind::kMultiply:
    case ExprKind::kDivide:
    case ExprKind::kFloorDivide:
    case ExprKind::kModulo:
    case ExprKind::kPower: {
      const Value left = evaluate(*expr.left), right = evaluate(*expr.right);
      runtime_.set_place(expr.at);
      return arithmetic(runtime_, expr.kind, left, right);
    }
  }
  return {};
}

Value Evaluator::name(const Expr& expr) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->outer) {
    if (const Variable* variable = scope->own(expr.name)) return variable->value;
  }
  const std::string_view text = names_[expr.name]->text;
  if (const Function* function = find_function(text)) {
    Value value;
    value.kind = Kind::kFunction;
    value.function = function;
    return value;
  }
  return runtime_.missing(Missing::Why::kName, Kind::kUndefined, text);
}

Value Evaluator::collection(const Expr& expr) {
  std::vector<Value> items;
  items.reserve(expr.items.size());
  for (const Expr* item : expr.items) items.push_back(evaluate(*item));
  return expr.kind == ExprKind::kList ? runtime_.list(items) : runtime_.tuple(items);
}

Value Evaluator::dict(const Expr& expr) {
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < expr.items.size(); i += 2) {
    const Value key = evaluate(*expr.items[i]);
    entries.push_back({key, evaluate(*expr.items[i + 1])});
  }
  runtime_.set_place(expr.at);
  return runtime_.dict(entries);
}

Value Evaluator::slice_of(const Expr& expr) {
  const Value value = evaluate(*expr.left);
  Value parts[3];
  for (std::size_t i = 0; i < 3; ++i) {
    parts[i] = expr.items[i] != nullptr ? evaluate(*expr.items[i]) : none();
  }
  runtime_.set_place(expr.at);
  return slice(runtime_, value, parts[0], parts[1], parts[2]);
}

Value Evaluator::condition(const Expr& expr) {
  if (truth(evaluate(*expr.items[0]))) return evaluate(*expr.items[1]);
  if (expr.items[2] != nullptr) return evaluate(*expr.items[2]);
  return runtime_.missing(Missing::Why::kReason, Kind::kUndefined,
                          "the condition is false and there is no 'else'");
}

bool Evaluator::comparison(const Expr& expr) {
  Value left = evaluate(*expr.left);
  for (std::size_t i = 0; i < expr.items.size(); ++i) {
    const Value right = evaluate(*expr.items[i]);
    runtime_.set_place(expr.at);
    bool holds = false;
    switch (expr.comparisons[i]) {
      case Comparison::kEq: holds = equal(runtime_, left, right); break;
      case Comparison::kNe: holds = !equal(runtime_, left, right); break;
      case Comparison::kLt: holds = compare(runtime_, left, right, "<") < 0; break;
      case Comparison::kLe: holds = compare(runtime_, left, right, "<=") <= 0; break;
      case Comparison::kGt: holds = compare(runtime_, left, right, ">") > 0; break;
      case Comparison::kGe: holds = compare(runtime_, left, right, ">=") >= 0; break;
      case Comparison::kIn: holds = contains(runtime_, right, left); break;
      case Comparison::kNotIn: holds = !contains(runtime_, right, left); break;
    }
    if (!holds) return false;
    left = right;
  }
  return true;
}

Value Evaluator::concatenation(const Expr& expr) {
  MarkedText out;
  for (const Expr* item : expr.items) {
    const Value value = evaluate(*item);
    runtime_.set_place(expr.at);
    append_text(runtime_, value, out);
  }
  return runtime_.text(out);
}

Value Evaluator::filtered(const Expr& expr, const Value& value) {
  const Arguments given = arguments(*expr.call);
  runtime_.set_place(expr.at);
  if (expr.filter == nullptr) {
    runtime_.fail(fmt::format("there is no filter named '{}'", names_[expr.name]->text));
  }
  return expr.filter->apply(runtime_, value, given);
}

// Filters in a row, the first of which has no left side.
Value Evaluator::block_filtered(const Expr& expr, const Value& value) {
  return filtered(expr, expr.left != nullptr ? block_filtered(*expr.left, value) : value);
}

bool Evaluator::tested(const Expr& expr) {
  const Value value = evaluate(*expr.left);
  const Arguments given = arguments(*expr.call);
  runtime_.set_place(expr.at);
  if (expr.test == nullptr) {
    runtime_.fail(fmt::format("there is no test named '{}'", names_[expr.name]->text));
  }
  return expr.test->holds(runtime_, value, given);
}

Arguments Evaluator::arguments(const CallSyntax& call) {
  Arguments given;
  given.positional.reserve(call.positional.size());
  for (const Expr* expr : call.positional) given.positional.push_back(evaluate(*expr));
  for (const KeywordArgument& keyword : call.keywords) {
    given.keywords.push_back({names_[keyword.name]->text, evaluate(*keyword.value)});
  }
  if (call.more_positional != nullptr) {
    const Value more = evaluate(*call.more_positional);
    runtime_.set_place(call.more_positional->at);
    const Items items(runtime_, more);
    given.positional.insert(given.positional.end(), items.begin(), items.end());
  }
  if (call.more_keywords != nullptr) {
    const Value more = evaluate(*call.more_keywords);
    runtime_.set_place(call.more_keywords->at);
    if (!more.is(Kind::kDict)) runtime_.fail("'**' stands before a dict only");
    for (const Entry& entry : more.dict->entries) {
      if (!entry.key.is_string()) runtime_.fail("the keys behind '**' are texts");
      given.keywords.push_back({entry.key.text(), entry.value});
    }
  }
  return given;
}

Value Evaluator::call(const Expr& expr, const Value* caller) {
  const Value callee = evaluate(*expr.left);
  Arguments given = arguments(*expr.call);
  if (caller != nullptr) given.keywords.push_back({"caller", *caller});
  runtime_.set_place(expr.at);
  switch (callee.kind) {
    case Kind::kMacro: return call_macro(*callee.macro, given);
    case Kind::kMethod: return callee.method->entry->call(runtime_, callee.method->self, given);
    case Kind::kFunction: return callee.function->call(runtime_, given);
    case Kind::kJoiner: {
      const Parameters none(runtime_, "a joiner", given, {}, 0);
      if (std::exchange(callee.joiner->used, true)) return string(callee.joiner->separator);
      return runtime_.text("");
    }
    case Kind::kLoop: {
      const Parameters parameters(runtime_, "loop", given, {"iterable"}, 1);
      const Loop& outer = *callee.loop;
      if (!outer.syntax->recursive) runtime_.fail("only a recursive loop can be called");
      MarkedText out;
      loop(*outer.syntax, outer.scope, parameters[0], outer.depth + 1, out);
      return runtime_.text(out);
    }
    case Kind::kUndefined: runtime_.fail_undefined(callee);
    default: runtime_.fail(fmt::format("a {} cannot be called", type_name(callee)));
  }
}

}  // namespace quern::text::jinja
