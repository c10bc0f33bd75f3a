// One JSON schema becomes rules of a grammar, one for each schema in it, so that references may go
// round. Whatever a keyword demands is either written into the rules or refused; words that only
// describe are passed over.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <unordered_map>

#include "grammar/schema_terms.h"

namespace quern::grammar {

class SchemaReader {
 public:
  // Requires: both outlive it.
  SchemaReader(const Json& root, JsonGrammar* grammar) : root_(root), grammar_(*grammar) {}

  // Throws: kGrammarInvalid.
  int root();

 private:
  // Where a schema stands. `made`: it was put together from several, and may allow nothing.
  struct At {
    std::string place = "#";
    int depth = 0;
    bool made = false;
    At inside(std::string at) const { return {std::move(at), depth + 1, made}; }
  };

  int rule_of(const Json& schema, const At& at);
  void fill(int rule, const Json& schema, const At& at);
  bool fill_combined(int rule, const Json& schema, const At& at);
  void fill_options(int rule, const Json& schema, const char* word, const At& at);
  void fill_values(int rule, const Json& schema, const At& at);
  void fill_type(int rule, Types type, const Json& schema, const At& at);
  void refuse_unknown_meaning(const Json& schema, const At& at) const;
  const Json& keep(Json schema, const At& at);
  void check_size() const;
  // Nothing satisfies it: an error, but where it is one of several possibilities.
  void impossible(const At& at, std::string_view why) const;

  int string_rule(const Json& schema, const At& at);
  int number_rule(const Json& schema, bool integer, const At& at);
  void add_multiples(int rule, const Json& schema, bool integer, const At& at);
  int array_rule(const Json& schema, const At& at);
  int object_rule(const Json& schema, const At& at);

  const Json& root_;
  JsonGrammar& grammar_;
  std::unordered_map<const Json*, int> rules_;
  std::deque<Json> kept_;  // schemas that were put together
  std::int64_t kept_values_ = 0;
};

// The members of one object schema, in order: which may follow how many. Made by SchemaReader.
struct ObjectRules {
  struct Member {
    int rule = 0;  // writes it, with the white space behind it
    bool required = false;
  };
  std::vector<Member> members{};
  int others = -1;  // writes any further member; −1: there are none
  std::int64_t min = 0, max = kNoMaximum;

  // The rule of all members with the commas between them. Nothing satisfies it where the counts
  // cannot be met.
  int add_to(JsonGrammar* grammar) const;
};

}  // namespace quern::grammar
