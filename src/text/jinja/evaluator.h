// Walks the syntax tree: statements write text, expressions give values. One for each rendering.
#pragma once

#include <span>

#include "text/jinja/expression_parser.h"
#include "text/jinja/objects.h"
#include "text/jinja/runtime.h"
#include "text/jinja/syntax.h"

namespace quern::text::jinja {

class Evaluator {
 public:
  Evaluator(Runtime& runtime, const Names& names);

  // A variable that the template finds; names that it never mentions are left out.
  void define(std::string_view name, const Value& value);
  // Throws: kChatTemplateFailed, kChatTemplateRefused, kChatTemplateLimit.
  MarkedText run(Body body);

 private:
  // How a body ended.
  enum class Flow : std::uint8_t { kOn, kBreak, kContinue };

  // statements (evaluator.cpp)
  Flow run(Body body, MarkedText& out);
  Flow run(const Statement& statement, MarkedText& out);
  Flow run_if(const Statement& statement, MarkedText& out);
  Flow run_for(const Statement& statement, MarkedText& out);
  Flow run_scope(const Statement& statement, MarkedText& out);
  Flow run_set_block(const Statement& statement);
  Flow run_filter_block(const Statement& statement, MarkedText& out);
  void run_with(const Statement& statement, MarkedText& out, Flow& flow);
  void run_call_block(const Statement& statement, MarkedText& out);
  Flow loop(const ForSyntax& syntax, Scope* around, const Value& iterable, int depth,
            MarkedText& out);
  void assign(const Target& target, const Value& value);
  Value make_macro(const MacroSyntax& syntax);

  // expressions (evaluator_expressions.cpp)
  Value evaluate(const Expr& expr);
  Value operate(const Expr& expr);
  Value name(const Expr& expr);
  Value collection(const Expr& expr);
  Value dict(const Expr& expr);
  Value slice_of(const Expr& expr);
  Value condition(const Expr& expr);
  bool comparison(const Expr& expr);
  Value concatenation(const Expr& expr);
  Value filtered(const Expr& expr, const Value& value);
  Value block_filtered(const Expr& expr, const Value& value);
  bool tested(const Expr& expr);
  Arguments arguments(const CallSyntax& call);
  Value call(const Expr& expr, const Value* caller);
  Value call_macro(const Macro& macro, const Arguments& arguments);
  void bind(const Macro& macro, const Arguments& arguments, Scope* scope);

  Runtime& runtime_;
  const Names& names_;
  Scope* scope_;
  std::int64_t loop_name_, caller_name_, varargs_name_, kwargs_name_;  // -1: never mentioned
};

}  // namespace quern::text::jinja
