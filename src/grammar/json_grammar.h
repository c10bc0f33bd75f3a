// The grammar of JSON texts: of any value, and of the values that a JSON schema allows. What is
// written by it satisfies the schema; not every valid value can be written (an order of members, no
// needless escapes, 15 digits). What a grammar cannot hold to, or what nothing satisfies, is
// refused.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "grammar/ebnf.h"
#include "grammar/regex.h"
#include "text/tool_calls/tool_set.h"

namespace quern::grammar {

using Json = nlohmann::ordered_json;  // members are written in the schema's order

inline constexpr size_t kMaxSchemaBytes = 256 << 10;
inline constexpr int kMaxSchemaDepth = 64;
inline constexpr std::int64_t kMaxSchemaValues = 10'000;
inline constexpr std::int64_t kMaxRules = 50'000;        // that a schema may become
inline constexpr std::int64_t kMaxJsonRepeat = 100'000;  // minLength, maxItems and the like

// Where white space may stand.
struct JsonStyle {
  bool any_whitespace = true;        // else ", " and ": " and no other
  std::string whitespace_pattern{};  // a regex in place of: none, a blank, or a new indented line
};

// How values are written.
enum class Wording {
  kJson,
  kPython,  // True, False, None
  kTagged,  // JSON without "<", which begins the tag behind it
};

// How the parameters of a call stand where they are no JSON object, each by itself. With kTagged
// texts have no quotes, and no closing tag in them.
struct ParameterMarks {
  std::string_view before_name{}, before_text{}, before_value{}, after_value{}, separator{};
};

// A schema, or another JSON text, within these limits. Throws: kGrammarInvalid.
Json parse_bounded(std::string_view text);

class JsonGrammar {
 public:
  // Throws: kGrammarInvalid for the style's pattern.
  JsonGrammar(const JsonStyle& style, Ebnf* ebnf, Wording wording = Wording::kJson);

  int value();
  int object();
  // Throws: kGrammarInvalid, which names the place as a JSON pointer.
  int schema(const Json& schema);
  // The parameters that the schema of an object names. `types` are those that a reader of the
  // format knows of each. Throws: kGrammarInvalid.
  using TypesOf = std::function<text::TypeMask(const std::string& name)>;
  int parameters(const Json& schema, const ParameterMarks& marks, const TypesOf& types);
  // Any parameters.
  int parameters(const ParameterMarks& marks);

  // For the reader of schemas: rules of single kinds of values, each made once.
  int text();  // any string
  int integer();
  int number();
  int array();
  // The rule of a kind of text, made once.
  int once(const std::string& kind, const std::function<int()>& make);
  std::string literal(const Json& value) const;                // the notation of one value
  const CharSet& plain_chars() const { return plain_chars_; }  // that strings have as they are
  Wording wording() const { return wording_; }
  // A member's name that is none of `names`, quoted.
  int name_but(const std::vector<std::string>& names);
  // "{" members "}": `members` writes them without the braces; each ends with its white space.
  int wrapped(std::string_view open, Part inside, std::string_view close);
  int colon() const { return colon_; }
  int comma() const { return comma_; }
  int space() const { return space_; }  // after a value
  Ebnf& ebnf() { return ebnf_; }

 private:
  int once(int* rule, int (JsonGrammar::*make)());
  int make_text();
  int make_integer();
  int make_number();
  int make_escape();

  Ebnf& ebnf_;
  const Wording wording_;
  const CharSet plain_chars_;
  int space_, comma_, colon_;
  std::map<std::string, int> texts_;  // by kind
  int text_ = -1, integer_ = -1, number_ = -1, value_ = -1, array_ = -1, object_ = -1, escape_ = -1;
};

// The whole grammar of one JSON text. Throws: kGrammarInvalid.
std::string json_schema_grammar(std::string_view schema, const JsonStyle& style,
                                Behind behind = Behind::kNothing);
std::string json_object_grammar(const JsonStyle& style);
std::string regex_grammar(std::string_view pattern, Behind behind = Behind::kNothing);

}  // namespace quern::grammar
