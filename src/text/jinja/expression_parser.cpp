#include "text/jinja/expression_parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/errors/text.h"
#include "text/jinja/filters.h"
#include "text/jinja/position.h"

namespace quern::text::jinja {

NameId Names::add(std::string_view name) {
  const auto found = ids_.find(name);
  if (found != ids_.end()) return found->second;
  const auto id = static_cast<NameId>(names_.size());
  names_.push_back(arena_.make<Str>(arena_.copy(name)));
  ids_.emplace(name, id);
  return id;
}

std::int64_t Names::find(std::string_view name) const {
  const auto found = ids_.find(name);
  return found == ids_.end() ? -1 : std::int64_t{found->second};
}

ExpressionParser::ExpressionParser(std::string_view source, Arena& arena, Names& names)
    : source_(source), arena_(arena), names_(names), tokens_(tokenize(source)) {}

void ExpressionParser::fail(std::uint32_t at, std::string_view reason) const {
  fail_at(errors::kChatTemplateUnsupported, source_, at, reason);
}

void ExpressionParser::too_deep() const {
  fail(now().at, fmt::format("more than {} levels are nested", kMaxNesting));
}

void ExpressionParser::unexpected(const Token& token) const {
  switch (token.kind) {
    case TokenKind::kEnd: fail(token.at, "the template ends inside a tag or block");
    case TokenKind::kPrintEnd:
    case TokenKind::kStatementEnd: fail(token.at, "an expression is missing before the tag's end");
    case TokenKind::kString: fail(token.at, "unexpected string");
    case TokenKind::kInteger:
    case TokenKind::kFloat: fail(token.at, "unexpected number");
    default: fail(token.at, fmt::format("unexpected '{}'", token.text));
  }
}

bool ExpressionParser::skip_operator(std::string_view text) {
  if (!is_operator(text)) return false;
  take();
  return true;
}

bool ExpressionParser::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  take();
  return true;
}

void ExpressionParser::expect_operator(std::string_view text) {
  if (!skip_operator(text)) fail(now().at, fmt::format("'{}' is expected here", text));
}

void ExpressionParser::expect_name(std::string_view text) {
  if (!skip_name(text)) fail(now().at, fmt::format("'{}' is expected here", text));
}

const Token& ExpressionParser::expect_any_name() {
  if (now().kind != TokenKind::kName) fail(now().at, "a name is expected here");
  return take();
}

const Expr* ExpressionParser::make(Expr node) const {
  int height = 0;
  const auto under = [&height](const Expr* child) {
    if (child != nullptr) height = std::max(height, child->height);
  };
  under(node.left);
  under(node.right);
  for (const Expr* item : node.items) under(item);
  if (node.call != nullptr) {
    for (const Expr* item : node.call->positional) under(item);
    for (const KeywordArgument& item : node.call->keywords) under(item.value);
    under(node.call->more_positional);
    under(node.call->more_keywords);
  }
  node.height = height + 1;
  if (node.height > kMaxHeight) {
    fail(node.at, fmt::format("the expression has more than {} operators in a row", kMaxHeight));
  }
  return arena_.make<Expr>(node);
}

const Expr* ExpressionParser::binary(ExprKind kind, std::uint32_t at, const Expr* left,
                                     const Expr* right) const {
  return make({.kind = kind, .at = at, .left = left, .right = right});
}

const Expr* ExpressionParser::constant(std::uint32_t at, Value value) const {
  return make({.kind = ExprKind::kConst, .at = at, .constant = value});
}

const Expr* ExpressionParser::expression(bool with_condition) {
  const Level level(*this);
  return with_condition ? condition() : disjunction();
}

void ExpressionParser::refuse_unknown() const {
  if (!unknown_.empty()) fail(unknown_.front().at, unknown_.front().reason);
}

NameId ExpressionParser::unknown(std::uint32_t at, std::string_view kind, const std::string& name) {
  if (!soft_) unknown_.push_back({at, fmt::format("there is no {} named '{}'", kind, name)});
  return names_.add(name);
}

const Expr* ExpressionParser::condition() {
  const std::size_t known = unknown_.size();
  const Expr* value = disjunction();
  while (is_name("if")) {
    const std::uint32_t at = take().at;
    std::vector<const Expr*> parts = {disjunction(), value, nullptr};
    if (skip_name("else")) parts[2] = expression();
    unknown_.resize(known);
    value = make({.kind = ExprKind::kCondition, .at = at, .items = arena_.copy(parts)});
  }
  return value;
}

const Expr* ExpressionParser::disjunction() {
  const Expr* left = conjunction();
  while (is_name("or")) {
    const std::uint32_t at = take().at;
    left = binary(ExprKind::kOr, at, left, conjunction());
  }
  return left;
}

const Expr* ExpressionParser::conjunction() {
  const Expr* left = negation();
  while (is_name("and")) {
    const std::uint32_t at = take().at;
    left = binary(ExprKind::kAnd, at, left, negation());
  }
  return left;
}

const Expr* ExpressionParser::negation() {
  if (!is_name("not")) return comparison();
  const Level level(*this);
  const std::uint32_t at = take().at;
  return make({.kind = ExprKind::kNot, .at = at, .left = negation()});
}

bool ExpressionParser::comparison_operator(Comparison& found) {
  constexpr std::pair<std::string_view, Comparison> kOperators[] = {
      {"==", Comparison::kEq}, {"!=", Comparison::kNe}, {"<", Comparison::kLt},
      {"<=", Comparison::kLe}, {">", Comparison::kGt},  {">=", Comparison::kGe}};
  for (const auto& [text, comparison] : kOperators) {
    if (!skip_operator(text)) continue;
    found = comparison;
    return true;
  }
  if (skip_name("in")) {
    found = Comparison::kIn;
    return true;
  }
  if (is_name("not") && ahead().kind == TokenKind::kName && ahead().text == "in") {
    take();
    take();
    found = Comparison::kNotIn;
    return true;
  }
  return false;
}

const Expr* ExpressionParser::comparison() {
  const Expr* left = sum();
  const std::uint32_t at = now().at;
  std::vector<Comparison> comparisons;
  std::vector<const Expr*> items;
  Comparison found;
  while (comparison_operator(found)) {
    comparisons.push_back(found);
    items.push_back(sum());
  }
  if (items.empty()) return left;
  return make({.kind = ExprKind::kCompare,
               .at = at,
               .left = left,
               .items = arena_.copy(items),
               .comparisons = arena_.copy(comparisons)});
}

const Expr* ExpressionParser::sum() {
  const Expr* left = concatenation();
  while (is_operator("+") || is_operator("-")) {
    const Token& token = take();
    const ExprKind kind = token.text == "+" ? ExprKind::kAdd : ExprKind::kSubtract;
    left = binary(kind, token.at, left, concatenation());
  }
  return left;
}

const Expr* ExpressionParser::concatenation() {
  const Expr* first = product();
  if (!is_operator("~")) return first;
  const std::uint32_t at = now().at;
  std::vector<const Expr*> items = {first};
  while (skip_operator("~")) items.push_back(product());
  return make({.kind = ExprKind::kConcat, .at = at, .items = arena_.copy(items)});
}

const Expr* ExpressionParser::product() {
  constexpr std::pair<std::string_view, ExprKind> kOperators[] = {{"*", ExprKind::kMultiply},
                                                                  {"/", ExprKind::kDivide},
                                                                  {"//", ExprKind::kFloorDivide},
                                                                  {"%", ExprKind::kModulo}};
  const Expr* left = power();
  while (now().kind == TokenKind::kOperator) {
    const auto found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                    [this](const auto& item) { return is_operator(item.first); });
    if (found == std::end(kOperators)) break;
    const std::uint32_t at = take().at;
    left = binary(found->second, at, left, power());
  }
  return left;
}

const Expr* ExpressionParser::power() {
  const Expr* left = unary(true);
  while (is_operator("**")) {
    const std::uint32_t at = take().at;
    left = binary(ExprKind::kPower, at, left, unary(true));
  }
  return left;
}

const Expr* ExpressionParser::unary(bool with_filters) {
  const Expr* value = nullptr;
  if (is_operator("-") || is_operator("+")) {
    const Level level(*this);
    const Token& token = take();
    value = make({.kind = token.text == "-" ? ExprKind::kNegative : ExprKind::kPositive,
                  .at = token.at,
                  .left = unary(false)});
  } else {
    value = primary();
  }
  value = postfix(value);
  return with_filters ? filters_and_tests(value) : value;
}

const Expr* ExpressionParser::primary() {
  const Token& token = now();
  switch (token.kind) {
    case TokenKind::kName: return name_or_literal();
    case TokenKind::kString: return text_literal();
    case TokenKind::kInteger: take(); return constant(token.at, integer(token.integer));
    case TokenKind::kFloat: take(); return constant(token.at, real(token.real));
    default: break;
  }
  if (skip_operator("(")) {
    const Expr* value = tuple(true, "", true);
    expect_operator(")");
    return value;
  }
  if (is_operator("[")) return list();
  if (is_operator("{")) return dict();
  unexpected(token);
}

const Expr* ExpressionParser::name_or_literal() {
  const Token& token = take();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return constant(token.at, boolean(true));
  if (name == "false" || name == "False") return constant(token.at, boolean(false));
  if (name == "none" || name == "None") return constant(token.at, none());
  for (Uses& macro : macros_) {
    macro.caller |= name == "caller";
    macro.varargs |= name == "varargs";
    macro.kwargs |= name == "kwargs";
  }
  return make({.kind = ExprKind::kName, .at = token.at, .name = names_.add(name)});
}

const Expr* ExpressionParser::text_literal() {
  const std::uint32_t at = now().at;
  std::string text;
  while (now().kind == TokenKind::kString) text += take().text;
  return constant(at, string(arena_.make<Str>(arena_.copy(text))));
}

const Expr* ExpressionParser::tuple(bool with_condition, std::string_view end,
                                    bool in_parentheses) {
  const std::uint32_t at = now().at;
  std::vector<const Expr*> items;
  bool commas = false;
  while (true) {
    if (now().kind == TokenKind::kPrintEnd || now().kind == TokenKind::kStatementEnd ||
        is_operator(")") || (!end.empty() && is_name(end))) {
      break;
    }
    items.push_back(expression(with_condition));
    if (!skip_operator(",")) break;
    commas = true;
  }
  if (!commas && items.size() == 1) return items[0];
  if (!commas && !in_parentheses) fail(at, "an expression is expected here");
  return make({.kind = ExprKind::kTuple, .at = at, .items = arena_.copy(items)});
}

const Expr* ExpressionParser::list() {
  const std::uint32_t at = take().at;
  std::vector<const Expr*> items;
  while (!is_operator("]")) {
    if (!items.empty()) expect_operator(",");
    if (is_operator("]")) break;
    items.push_back(expression());
  }
  expect_operator("]");
  return make({.kind = ExprKind::kList, .at = at, .items = arena_.copy(items)});
}

const Expr* ExpressionParser::dict() {
  const std::uint32_t at = take().at;
  std::vector<const Expr*> items;
  while (!is_operator("}")) {
    if (!items.empty()) expect_operator(",");
    if (is_operator("}")) break;
    items.push_back(expression());
    expect_operator(":");
    items.push_back(expression());
  }
  expect_operator("}");
  return make({.kind = ExprKind::kDict, .at = at, .items = arena_.copy(items)});
}

const Expr* ExpressionParser::postfix(const Expr* value) {
  while (true) {
    if (is_operator(".")) {
      value = attribute(value);
    } else if (is_operator("[")) {
      value = subscript(value);
    } else if (is_operator("(")) {
      const std::uint32_t at = now().at;
      value = make({.kind = ExprKind::kCall, .at = at, .left = value, .call = arguments()});
    } else {
      return value;
    }
  }
}

const Expr* ExpressionParser::filters_and_tests(const Expr* value) {
  while (true) {
    if (is_operator("|")) {
      value = filters(value, false);
    } else if (is_name("is")) {
      value = test(value);
    } else if (is_operator("(")) {
      const std::uint32_t at = now().at;
      value = make({.kind = ExprKind::kCall, .at = at, .left = value, .call = arguments()});
    } else {
      return value;
    }
  }
}

const Expr* ExpressionParser::attribute(const Expr* value) {
  take();
  const Token& token = take();
  if (token.kind == TokenKind::kInteger) {
    return binary(ExprKind::kItem, token.at, value, constant(token.at, integer(token.integer)));
  }
  if (token.kind != TokenKind::kName) fail(token.at, "a name or number is expected here");
  return make({.kind = ExprKind::kAttribute,
               .at = token.at,
               .name = names_.add(token.text),
               .left = value});
}

namespace {

// A slice whose left is still to come.
bool is_open_slice(const Expr& expr) {
  return expr.kind == ExprKind::kSlice && expr.left == nullptr;
}

}  // namespace

const Expr* ExpressionParser::subscript(const Expr* value) {
  const std::uint32_t at = take().at;
  std::vector<const Expr*> items;
  while (!is_operator("]")) {
    if (!items.empty()) expect_operator(",");
    items.push_back(subscript_item());
  }
  expect_operator("]");
  if (items.size() != 1) {
    // A tuple as key. Python cannot compile slices within it either.
    for (const Expr* item : items) {
      if (is_open_slice(*item)) fail(item->at, "a slice must stand alone between the brackets");
    }
    const Expr* key = make({.kind = ExprKind::kTuple, .at = at, .items = arena_.copy(items)});
    return binary(ExprKind::kItem, at, value, key);
  }
  if (is_open_slice(*items[0])) {
    return make({.kind = ExprKind::kSlice, .at = at, .left = value, .items = items[0]->items});
  }
  return binary(ExprKind::kItem, at, value, items[0]);
}

// An index, or a slice whose left is still null.
const Expr* ExpressionParser::subscript_item() {
  const std::uint32_t at = now().at;
  std::vector<const Expr*> parts = {nullptr, nullptr, nullptr};
  const auto part_follows = [this] {
    return !is_operator(":") && !is_operator("]") && !is_operator(",");
  };
  if (!is_operator(":")) {
    parts[0] = expression();
    if (!is_operator(":")) return parts[0];
  }
  take();
  if (part_follows()) parts[1] = expression();
  if (skip_operator(":") && part_follows()) parts[2] = expression();
  return make({.kind = ExprKind::kSlice, .at = at, .items = arena_.copy(parts)});
}

const CallSyntax* ExpressionParser::arguments() {
  const std::uint32_t at = now().at;
  expect_operator("(");
  std::vector<const Expr*> positional;
  std::vector<KeywordArgument> keywords;
  CallSyntax call;
  const auto require = [&](bool in_order) {
    if (!in_order) fail(now().at, "the arguments of this call are not in order");
  };
  for (bool first = true; !is_operator(")"); first = false) {
    if (!first) expect_operator(",");
    if (is_operator(")")) break;
    if (skip_operator("*")) {
      require(call.more_positional == nullptr && call.more_keywords == nullptr);
      call.more_positional = expression();
    } else if (skip_operator("**")) {
      require(call.more_keywords == nullptr);
      call.more_keywords = expression();
    } else if (now().kind == TokenKind::kName && ahead().kind == TokenKind::kOperator &&
               ahead().text == "=") {
      require(call.more_keywords == nullptr);
      const NameId name = names_.add(take().text);
      take();
      for (const KeywordArgument& known : keywords) {
        if (known.name == name) fail(at, "a keyword argument stands twice");
      }
      keywords.push_back({name, expression()});
    } else {
      require(call.more_positional == nullptr && call.more_keywords == nullptr && keywords.empty());
      positional.push_back(expression());
    }
  }
  expect_operator(")");
  call.positional = arena_.copy(positional);
  call.keywords = arena_.copy(keywords);
  return arena_.make<CallSyntax>(call);
}

const Expr* ExpressionParser::filters(const Expr* value, bool first) {
  while (first || is_operator("|")) {
    if (!first) take();
    first = false;
    const Token& token = expect_any_name();
    std::string name = token.text;
    while (skip_operator(".")) name += "." + expect_any_name().text;
    const Filter* filter = find_filter(name);
    const NameId id = filter == nullptr ? unknown(token.at, "filter", name) : NameId{0};
    const CallSyntax* call = is_operator("(") ? arguments() : arena_.make<CallSyntax>();
    value = make({.kind = ExprKind::kFilter,
                  .at = token.at,
                  .name = id,
                  .left = value,
                  .call = call,
                  .filter = filter});
  }
  return value;
}

const Expr* ExpressionParser::test(const Expr* value) {
  take();
  const std::uint32_t not_at = now().at;
  const bool negated = skip_name("not");
  const Token& token = expect_any_name();
  std::string name = token.text;
  while (skip_operator(".")) name += "." + expect_any_name().text;
  const Test* found = find_test(name);
  const NameId id = found == nullptr ? unknown(token.at, "test", name) : NameId{0};
  const CallSyntax* call = nullptr;
  const TokenKind kind = now().kind;
  const bool operand =
      kind == TokenKind::kString || kind == TokenKind::kInteger || kind == TokenKind::kFloat ||
      is_operator("[") || is_operator("{") ||
      (kind == TokenKind::kName && !is_name("else") && !is_name("or") && !is_name("and"));
  if (is_operator("(")) {
    call = arguments();
  } else if (operand) {
    if (is_name("is")) fail(now().at, "tests cannot be chained with 'is'");
    const Level level(*this);
    const std::vector<const Expr*> items = {postfix(primary())};
    call = arena_.make<CallSyntax>(arena_.copy(items));
  } else {
    call = arena_.make<CallSyntax>();
  }
  const Expr* result = make({.kind = ExprKind::kTest,
                             .at = token.at,
                             .name = id,
                             .left = value,
                             .call = call,
                             .test = found});
  return negated ? make({.kind = ExprKind::kNot, .at = not_at, .left = result}) : result;
}

}  // namespace quern::text::jinja
