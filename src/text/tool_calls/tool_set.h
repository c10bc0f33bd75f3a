// The tools of a request as parsers need them: which functions there are, and of which types their
// parameters may be. Immutable; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace quern::text {

// JSON's types, as bits.
enum TypeBit : std::uint8_t {
  kStringType = 1,
  kIntegerType = 2,
  kNumberType = 4,
  kBooleanType = 8,
  kNullType = 16,
  kObjectType = 32,
  kArrayType = 64,
};
using TypeMask = std::uint8_t;  // 0: nothing is known

class ToolSet {
 public:
  // `json`: an array of {"type":"function","function":{…}} or of {"name","parameters"}. What is no
  // tool in it is passed over. Follows $ref into $defs, and anyOf, oneOf, allOf, enum and const.
  explicit ToolSet(std::string_view json);

  bool empty() const { return functions_.empty(); }
  bool has(std::string_view function) const { return functions_.contains(function); }
  // Of a parameter; 0 where the schema says nothing.
  TypeMask types(std::string_view function, std::string_view parameter) const;

 private:
  using Parameters = std::map<std::string, TypeMask, std::less<>>;
  std::map<std::string, Parameters, std::less<>> functions_;
};

// A parameter's value that a model wrote without quotes, as JSON: what its types allow, where they
// allow text and nothing else fits the text itself. Python's True, False and None count too.
std::string value_as_json(std::string_view text, TypeMask types);

}  // namespace quern::text
