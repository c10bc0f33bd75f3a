// Reads expressions, by recursive descent with Jinja's precedences. The base of the parser of
// statements (parser.cpp).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/arena.h"
#include "text/jinja/lexer.h"
#include "text/jinja/syntax.h"

namespace quern::text::jinja {

// Names of the template by number: variables, attributes, parameters.
class Names {
 public:
  explicit Names(Arena& arena) : arena_(arena) {}
  NameId add(std::string_view name);
  // The number of a name that occurs in the template, or -1.
  std::int64_t find(std::string_view name) const;
  const Str* operator[](NameId id) const { return names_[id]; }

 private:
  Arena& arena_;
  std::map<std::string, NameId, std::less<>> ids_;
  std::vector<const Str*> names_;
};

class ExpressionParser {
 protected:
  // How deep brackets and blocks may nest, and how high an expression's tree may be.
  static constexpr int kMaxNesting = 200, kMaxHeight = 500;

  ExpressionParser(std::string_view source, Arena& arena, Names& names);

  const Expr* expression(bool with_condition = true);
  // Expressions with commas between them make a tuple. `end` ends it, beside the usual marks.
  const Expr* tuple(bool with_condition, std::string_view end, bool in_parentheses);
  // Filters behind an expression; `first` takes one that no | stands before. null: none are there.
  const Expr* filters(const Expr* value, bool first);

  [[noreturn]] void fail(std::uint32_t at, std::string_view reason) const;
  [[noreturn]] void unexpected(const Token& token) const;

  const Token& now() const { return tokens_[next_]; }
  const Token& ahead() const { return tokens_[std::min(next_ + 1, tokens_.size() - 1)]; }
  const Token& take() { return tokens_[next_ + 1 < tokens_.size() ? next_++ : next_]; }
  bool is_operator(std::string_view text) const {
    return now().kind == TokenKind::kOperator && now().text == text;
  }
  bool is_name(std::string_view text) const {
    return now().kind == TokenKind::kName && now().text == text;
  }
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_operator(std::string_view text);
  void expect_name(std::string_view text);
  const Token& expect_any_name();

  // Counts a level of nesting while it lives.
  class Level {
   public:
    explicit Level(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMaxNesting) parser_.too_deep();
    }
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ExpressionParser& parser_;
  };

  std::string_view source_;
  Arena& arena_;
  Names& names_;
  // Of the macros around this place, innermost last: whether their bodies use the special names.
  struct Uses {
    bool caller = false, varargs = false, kwargs = false;
  };
  std::vector<Uses> macros_;
  // Inside of an `if`. There, as in Jinja, an unknown filter or test fails only once it is reached.
  bool soft_ = false;
  // Fails for the first unknown filter or test outside of conditions.
  void refuse_unknown() const;

 private:
  [[noreturn]] void too_deep() const;
  const Expr* make(Expr node) const;
  const Expr* binary(ExprKind kind, std::uint32_t at, const Expr* left, const Expr* right) const;
  const Expr* constant(std::uint32_t at, Value value) const;

  const Expr* condition();
  const Expr* disjunction();
  const Expr* conjunction();
  const Expr* negation();
  const Expr* comparison();
  bool comparison_operator(Comparison& found);
  const Expr* sum();
  const Expr* concatenation();
  const Expr* product();
  const Expr* power();
  const Expr* unary(bool with_filters);
  const Expr* primary();
  const Expr* name_or_literal();
  const Expr* text_literal();
  const Expr* list();
  const Expr* dict();
  const Expr* postfix(const Expr* value);
  const Expr* filters_and_tests(const Expr* value);
  const Expr* attribute(const Expr* value);
  const Expr* subscript(const Expr* value);
  const Expr* subscript_item();
  const Expr* test(const Expr* value);
  const CallSyntax* arguments();

  struct Unknown {
    std::uint32_t at;
    std::string reason;
  };
  NameId unknown(std::uint32_t at, std::string_view kind, const std::string& name);

  std::vector<Unknown> unknown_;
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
  int depth_ = 0;
};

}  // namespace quern::text::jinja
