#include "text/jinja/template.h"

#include <fmt/format.h>

#include <set>

#include "base/error.h"
#include "base/errors/text.h"
#include "text/jinja/parser.h"
#include "text/jinja/position.h"

namespace quern::text::jinja {
namespace {

constexpr std::size_t kMaxSource = 1 << 20, kMaxTree = 256 << 20;

std::string checked(std::string_view source) {
  if (source.size() > kMaxSource) {
    fail_at(errors::kChatTemplateUnsupported, "", 0,
            fmt::format("it has {} bytes, more than {}", source.size(), kMaxSource));
  }
  return normal_newlines(valid_utf8(source));
}

// Looks for a loop over a message's content: over x.content, x['content'], a variable that was set
// to one, or a macro's parameter of that name; through filters and slices.
class ContentLoops {
 public:
  explicit ContentLoops(const Names& names) : names_(names) {}

  bool in(Body body) {
    for (const Statement* statement : body) {
      if (in(*statement)) return true;
    }
    return false;
  }

 private:
  bool in(const Statement& statement) {
    if (statement.kind == StatementKind::kSet && is_content(*statement.value) &&
        statement.target->kind == Target::Kind::kName) {
      variables_.insert(statement.target->name);
    }
    for (const Branch& branch : statement.branches) {
      if (in(branch.body)) return true;
    }
    if (const ForSyntax* loop = statement.loop) {
      if (is_content(*loop->iterable) || in(loop->body) || in(loop->otherwise)) return true;
    }
    return in(statement.body) || (statement.macro != nullptr && in(statement.macro->body));
  }

  bool is_content(const Expr& expr) const {
    switch (expr.kind) {
      case ExprKind::kName:
        return names_[expr.name]->text == "content" || variables_.contains(expr.name);
      case ExprKind::kAttribute: return names_[expr.name]->text == "content";
      case ExprKind::kItem:
        return expr.right->kind == ExprKind::kConst && expr.right->constant.is_string() &&
               expr.right->constant.text() == "content";
      case ExprKind::kFilter:
      case ExprKind::kSlice: return expr.left != nullptr && is_content(*expr.left);
      default: return false;
    }
  }

  const Names& names_;
  std::set<NameId> variables_;
};

}  // namespace

Template::Template(std::string_view source)
    : source_(checked(source)),
      arena_(kMaxTree,
             [this] {
               fail_at(errors::kChatTemplateUnsupported, source_, 0,
                       "its syntax tree gets too large");
             }),
      names_(arena_),
      body_(parse(source_, arena_, names_)),
      iterates_content_(ContentLoops(names_).in(body_)) {}

Rendering::Rendering(const Template& made, const std::tm& now, const Limits& limits)
    : made_(made), runtime_(made.source_, limits, now), evaluator_(runtime_, made.names_) {}

MarkedText Rendering::run() { return evaluator_.run(made_.body_); }

}  // namespace quern::text::jinja
