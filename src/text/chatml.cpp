#include "text/chatml.h"

#include <array>
#include <utility>
#include <vector>

#include "text/jinja_lexer.h"

namespace quern::text {
namespace {

using Kind = JinjaToken::Kind;
using Tokens = std::vector<JinjaToken>;

struct Part {
  enum class What { kLiteral, kRole, kContent, kTrimmedContent } what;
  std::string text;
};
using Parts = std::vector<Part>;

void add_literal(Parts& parts, std::string_view text) {
  if (text.empty()) return;
  if (parts.empty() || parts.back().what != Part::What::kLiteral) {
    parts.push_back({Part::What::kLiteral, {}});
  }
  parts.back().text += text;
}

bool all_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

class Parser {
 public:
  Parser(const std::vector<JinjaNode>& nodes, const std::optional<std::string>& bos_token)
      : nodes_(nodes), bos_token_(bos_token) {}

  std::optional<ChatMl> run() {
    if (!head() || !loop() || !tail()) return std::nullopt;
    return std::move(shape_);
  }

 private:
  // Statements with one spelling: x['role'] as x.role, one kind of quotes, the loop's variable as
  // @.
  std::string spelling(const Tokens& tokens) const {
    std::string out;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const JinjaToken& token = tokens[i];
      if (!out.empty()) out += ' ';
      if (token.is(Kind::kOperator, "[") && i + 2 < tokens.size() &&
          tokens[i + 1].kind == Kind::kString && tokens[i + 2].is(Kind::kOperator, "]")) {
        out += ". " + tokens[i + 1].text;
        i += 2;
      } else if (token.kind == Kind::kString) {
        out += "'" + token.text + "'";
      } else {
        out += !variable_.empty() && token.is(Kind::kName, variable_) ? "@" : token.text;
      }
    }
    return out;
  }

  const JinjaNode* next() { return at_ < nodes_.size() ? &nodes_[at_++] : nullptr; }

  bool expect(std::string_view statement) {
    const JinjaNode* node = next();
    return node != nullptr && node->kind == JinjaNode::Kind::kStatement &&
           spelling(node->tokens) == statement;
  }

  // Reads x, x + y, x ~ y of strings, bos_token and, inside the loop, role and content.
  bool print(const Tokens& tokens, Parts& parts) const {
    std::size_t i = 0;
    while (true) {
      if (!term(tokens, i, parts)) return false;
      if (i == tokens.size()) return true;
      if (!tokens[i].is(Kind::kOperator, "+") && !tokens[i].is(Kind::kOperator, "~")) return false;
      ++i;
    }
  }

  bool term(const Tokens& tokens, std::size_t& i, Parts& parts) const {
    if (i >= tokens.size()) return false;
    if (tokens[i].kind == Kind::kString) {
      add_literal(parts, tokens[i++].text);
      return true;
    }
    if (tokens[i].is(Kind::kName, "bos_token") && bos_token_) {
      add_literal(parts, *bos_token_);
      ++i;
      return true;
    }
    if (variable_.empty() || !tokens[i].is(Kind::kName, variable_)) return false;
    std::size_t end = i + 1;
    while (end < tokens.size() && !tokens[end].is(Kind::kOperator, "+") &&
           !tokens[end].is(Kind::kOperator, "~")) {
      ++end;
    }
    const std::string field = spelling({tokens.begin() + static_cast<std::ptrdiff_t>(i),
                                        tokens.begin() + static_cast<std::ptrdiff_t>(end)});
    constexpr std::array<std::pair<std::string_view, Part::What>, 3> kFields = {
        {{"@ . role", Part::What::kRole},
         {"@ . content", Part::What::kContent},
         {"@ . content | trim", Part::What::kTrimmedContent}}};
    for (const auto& [name, what] : kFields) {
      if (field != name) continue;
      parts.push_back({what, {}});
      i = end;
      return true;
    }
    return false;
  }

  bool print_literal(const JinjaNode& node, std::string& out) const {
    if (node.kind == JinjaNode::Kind::kText) {
      out += node.text;
      return true;
    }
    Parts parts;
    if (!print(node.tokens, parts)) return false;
    for (const Part& part : parts) {
      if (part.what != Part::What::kLiteral) return false;
      out += part.text;
    }
    return true;
  }

  // The text of an if without else, up to its endif.
  bool literal_block(std::string& out) {
    while (const JinjaNode* node = next()) {
      if (node->kind == JinjaNode::Kind::kStatement) return spelling(node->tokens) == "endif";
      if (!print_literal(*node, out)) return false;
    }
    return false;
  }

  bool head() {
    std::string* text = &shape_.before;
    while (const JinjaNode* node = next()) {
      if (node->kind != JinjaNode::Kind::kStatement) {
        if (!print_literal(*node, *text)) return false;
        continue;
      }
      const Tokens& tokens = node->tokens;
      const std::string statement = spelling(tokens);
      if (tokens.size() == 4 && tokens[0].is(Kind::kName, "for") && tokens[1].kind == Kind::kName &&
          tokens[2].is(Kind::kName, "in") && tokens[3].is(Kind::kName, "messages")) {
        return begin_loop(tokens[1].text);
      }
      if (statement == "if not add_generation_prompt is defined" ||
          statement == "if add_generation_prompt is not defined") {
        // It always is defined.
        if (!expect("set add_generation_prompt = false") || !expect("endif")) return false;
      } else if (statement == "if messages [ 0 ] . role == 'system'") {
        if (!expect("set offset = 1") || !expect("else") || !expect("set offset = 0") ||
            !expect("endif")) {
          return false;
        }
        has_offset_ = true;
      } else if (statement == "if messages [ 0 ] . role != 'system'" && text == &shape_.before) {
        if (!literal_block(shape_.default_system)) return false;
        text = &shape_.between;
      } else {
        return false;
      }
    }
    return false;
  }

  // A variable that hides a name we know would change what the rest means.
  bool begin_loop(const std::string& name) {
    for (const std::string_view taken :
         {"messages", "loop", "offset", "bos_token", "add_generation_prompt", "raise_exception"}) {
      if (name == taken) return false;
    }
    variable_ = name;
    return true;
  }

  bool loop() {
    Parts parts;
    while (const JinjaNode* node = next()) {
      if (node->kind == JinjaNode::Kind::kText) {
        add_literal(parts, node->text);
        continue;
      }
      if (node->kind == JinjaNode::Kind::kPrint) {
        if (!print(node->tokens, parts)) return false;
        continue;
      }
      const std::string statement = spelling(node->tokens);
      if (statement == "endfor") return take_message(parts);
      if (statement == "if loop . first and messages [ 0 ] . role != 'system'") {
        if (!parts.empty() || !shape_.default_system.empty()) return false;
        if (!literal_block(shape_.default_system)) return false;
      } else if (statement == "if ( @ . role == 'user' ) != ( loop . index0 % 2 == offset )" &&
                 has_offset_) {
        if (!refusal()) return false;
      } else {
        return false;
      }
    }
    return false;
  }

  // raise_exception('…') and the endif behind it.
  bool refusal() {
    const JinjaNode* node = next();
    while (node != nullptr && node->kind == JinjaNode::Kind::kText) node = next();
    if (node == nullptr || node->kind != JinjaNode::Kind::kPrint || node->tokens.size() != 4 ||
        !node->tokens[0].is(Kind::kName, "raise_exception") ||
        !node->tokens[1].is(Kind::kOperator, "(") || node->tokens[2].kind != Kind::kString ||
        !node->tokens[3].is(Kind::kOperator, ")")) {
      return false;
    }
    shape_.alternation_error = node->tokens[2].text;
    std::string unreached;
    return literal_block(unreached);
  }

  bool take_message(const Parts& parts) {
    using What = Part::What;
    if (parts.size() != 5 || parts[0].what != What::kLiteral || parts[1].what != What::kRole ||
        parts[2].what != What::kLiteral || parts[4].what != What::kLiteral) {
      return false;
    }
    if (parts[3].what != What::kContent && parts[3].what != What::kTrimmedContent) return false;
    constexpr std::string_view kStart = "<|im_start|>", kEnd = "<|im_end|>";
    const std::string_view open = parts[0].text, close = parts[4].text;
    if (!open.ends_with(kStart) || !all_blank(open.substr(0, open.size() - kStart.size())) ||
        parts[2].text != "\n" || !close.starts_with(kEnd) ||
        !all_blank(close.substr(kEnd.size()))) {
      return false;
    }
    shape_.open = open;
    shape_.middle = parts[2].text;
    shape_.close = close;
    shape_.trim = parts[3].what == What::kTrimmedContent;
    variable_.clear();
    return true;
  }

  bool tail() {
    std::string* text = &shape_.after;
    while (const JinjaNode* node = next()) {
      if (node->kind != JinjaNode::Kind::kStatement) {
        if (!print_literal(*node, *text)) return false;
      } else if (spelling(node->tokens) == "if add_generation_prompt" && text == &shape_.after) {
        if (!literal_block(shape_.generation)) return false;
        text = &shape_.end;
      } else {
        return false;
      }
    }
    return true;
  }

  const std::vector<JinjaNode>& nodes_;
  const std::optional<std::string>& bos_token_;
  std::size_t at_ = 0;
  std::string variable_;  // of the loop, inside it
  bool has_offset_ = false;
  ChatMl shape_;
};

}  // namespace

std::optional<ChatMl> parse_chatml(std::string_view source,
                                   const std::optional<std::string>& bos_token) {
  const std::optional<std::vector<JinjaNode>> nodes = lex_jinja(source);
  if (!nodes) return std::nullopt;
  return Parser(*nodes, bos_token).run();
}

}  // namespace quern::text
