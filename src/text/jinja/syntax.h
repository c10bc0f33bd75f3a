// The syntax tree of a template. Nodes live in the template's Arena, refer to each other by plain
// pointers and never change once parsed. `at` is the byte of the source where the node's operator
// or name stands, for messages.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "text/jinja/value.h"

namespace quern::text::jinja {

struct Filter;  // filters.h
struct Test;    // tests.h

using NameId = std::uint32_t;  // index into the template's names

enum class ExprKind : std::uint8_t {
  kConst,      // constant
  kName,       // name
  kList,       // items
  kTuple,      // items
  kDict,       // items: key, value, key, value …
  kAttribute,  // left.name
  kItem,       // left[right]
  kSlice,      // left[items]; absent parts are null
  kCall,       // left(call)
  kFilter,     // left | filter(call); left is null in filter blocks
  kTest,       // left is test(call)
  kNot,
  kNegative,
  kPositive,
  kAnd,
  kOr,
  kCondition,  // items: test, then, else (may be null)
  kCompare,    // left, then pairs of operator and item
  kConcat,     // items joined by ~
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
};

enum class Comparison : std::uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

struct Expr;

struct KeywordArgument {
  NameId name;
  const Expr* value;
};

struct CallSyntax {
  std::span<const Expr* const> positional{};
  std::span<const KeywordArgument> keywords{};
  const Expr* more_positional = nullptr;  // *x
  const Expr* more_keywords = nullptr;    // **x
};

struct Expr {
  ExprKind kind;
  std::uint32_t at;
  int height = 1;  // nodes down to the deepest leaf
  NameId name = 0;
  Value constant{};
  const Expr* left = nullptr;
  const Expr* right = nullptr;
  std::span<const Expr* const> items{};
  std::span<const Comparison> comparisons{};
  const CallSyntax* call = nullptr;
  const Filter* filter = nullptr;
  const Test* test = nullptr;
};

// What may stand left of `=` or after `for`.
struct Target {
  enum class Kind : std::uint8_t { kName, kAttribute, kTuple } kind;
  std::uint32_t at;
  NameId name = 0;
  NameId attribute = 0;  // of kAttribute: name.attribute
  std::span<const Target* const> items{};
};

enum class StatementKind : std::uint8_t {
  kText,
  kPrint,  // expressions
  kIf,     // branches
  kFor,
  kSet,       // target = value
  kSetBlock,  // target, filter, body
  kWith,      // targets = expressions, body
  kMacro,
  kCallBlock,  // value (a kCall), macro
  kFilterBlock,
  kScope,  // body in a scope of its own: generation, block
  kBreak,
  kContinue,
};

struct Statement;
using Body = std::span<const Statement* const>;

struct Branch {
  const Expr* test;  // null: else
  Body body;
};

struct MacroSyntax {
  NameId name;
  std::span<const NameId> parameters;
  std::span<const Expr* const> defaults;  // of the last parameters
  Body body;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
};

struct ForSyntax {
  const Target* target;
  const Expr* iterable;
  const Expr* filter = nullptr;  // for … if filter
  bool recursive = false;
  Body body, otherwise;
};

struct Statement {
  StatementKind kind;
  std::uint32_t at;
  const Str* text = nullptr;
  std::span<const Expr* const> expressions{};
  std::span<const Branch> branches{};
  const ForSyntax* loop = nullptr;
  const Target* target = nullptr;
  std::span<const Target* const> targets{};
  const Expr* value = nullptr;
  const MacroSyntax* macro = nullptr;
  Body body{};
};

}  // namespace quern::text::jinja
