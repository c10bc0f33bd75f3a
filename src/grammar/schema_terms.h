// What a JSON schema's keywords say, apart from any grammar: types, pointers, schemas joined into
// one that means both. Used by the reader of schemas.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/json_grammar.h"

namespace quern::grammar {

// A set of JSON's types.
enum Types : unsigned {
  kString = 1,
  kNumber = 2,
  kInteger = 4,
  kBoolean = 8,
  kObject = 16,
  kArray = 32,
  kNull = 64,
  kAllTypes = 127 & ~4,  // a number may be an integer
};

// "#/properties/a: why"
[[noreturn]] void refuse_schema(const std::string& place, std::string_view why);

std::string place_of(const std::string& place, std::string_view key);
std::string place_of(const std::string& place, std::string_view key, size_t index);

// The member, or null.
const Json* member(const Json& schema, const char* name);

// What `type` says; where there is none, the types that the schema's other keywords speak of, or
// all. Throws: kGrammarInvalid.
unsigned types_of(const Json& schema, const std::string& place);
unsigned type_of_value(const Json& value);  // an integer is kInteger | kNumber

// Whether some keyword other than `but` says anything about a value.
bool asserts(const Json& schema, std::span<const std::string_view> but = {});
// The keywords that speak of one type; of numbers for kInteger too.
std::span<const std::string_view> keywords_of(Types type);
// The first of the type's keywords that the schema has, or "".
std::string_view keyword_in(const Json& schema, Types type);

// The schema at a `$ref`. Throws: kGrammarInvalid where it leads nowhere or out of the text.
const Json& pointed(const Json& root, const std::string& pointer, const std::string& place);

// Whether a value may have a type that both speak of.
bool share_types(const Json& left, const Json& right, const std::string& place);

// What satisfies both. Throws: kGrammarInvalid where no one schema can say so.
Json joined(const Json& left, const Json& right, const std::string& place);

// Whether no value can satisfy both; false where that cannot be told.
bool apart(const Json& root, const Json& left, const Json& right);

// The keyword's number, within what a grammar can count. Throws: kGrammarInvalid.
std::int64_t count_of(const Json& schema, const char* name, std::int64_t otherwise,
                      const std::string& place);

}  // namespace quern::grammar
