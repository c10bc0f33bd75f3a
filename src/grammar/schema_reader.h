// One JSON schema becomes rules of a grammar, one for each schema in it, so that references may go
// round. Whatever a keyword demands is either written into the rules or refused; words that only
// describe are passed over.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grammar/schema_terms.h"

namespace quern::grammar {

class SchemaReader {
 public:
  // Requires: both outlive it.
  SchemaReader(const Json& root, JsonGrammar* grammar) : root_(root), grammar_(*grammar) {}

  // Throws: kGrammarInvalid.
  int root();
  // Of an object's members, each written as a parameter. Throws: kGrammarInvalid.
  int parameters(const ParameterMarks& marks, const JsonGrammar::TypesOf& types);

 private:
  // Where a schema stands. `made`: it was put together from several, and may allow nothing.
  // `taken_for`: texts stand without quotes, and a reader takes them for one of these types where
  // they look like it; 0: they are quoted.
  struct At {
    std::string place = "#";
    int depth = 0;
    bool made = false;
    text::TypeMask taken_for = 0;
    At inside(std::string at) const { return {std::move(at), depth + 1, made}; }
    At option(std::string at) const { return {std::move(at), depth + 1, made, taken_for}; }
    At joined(std::string at) const { return {std::move(at), depth + 1, true, taken_for}; }
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
  int matching_text(const std::string& pattern, const Regex& regex, const At& at);
  int counted_text(std::int64_t min, std::int64_t max, const At& at);
  int number_rule(const Json& schema, bool integer, const At& at);
  void add_multiples(int rule, const Json& schema, bool integer, const At& at);
  int array_rule(const Json& schema, const At& at);
  int object_rule(const Json& schema, const At& at);
  // What a schema says of an object's members.
  struct Members {
    struct Member {
      std::string name;
      const Json* schema;
      std::string place;
      bool required;
    };
    std::vector<Member> named{};
    const Json* more = nullptr;  // of all others; null: it does not speak of them
    std::string more_place{};
    bool open = false;  // others are written
    std::int64_t min = 0, max = kNoMaximum;
  };
  std::optional<Members> members_of(const Json& schema, const At& at);
  int patterned_member(const Json& patterns, const At& at);
  int other_member(const Members& members, const Json* naming,
                   const std::vector<std::string>& names, const At& at);
  int unnamed_member(int name, int value);

  int parameter_rule(const Members::Member& parameter, const ParameterMarks& marks,
                     text::TypeMask types);
  bool allows_null(const Json& schema, const At& at);
  int plain_text(const At& at);
  bool is_plain_text(const std::string& text, const At& at) const;
  static CharSet first_of_others(text::TypeMask taken_for);

  const Json& root_;
  JsonGrammar& grammar_;
  std::map<std::pair<const Json*, text::TypeMask>, int> rules_;
  std::string closing_tag_;  // that texts without quotes have not in them
  std::deque<Json> kept_;    // schemas that were put together
  std::int64_t kept_values_ = 0;
};

// The members of one object schema, in order: which may follow how many. Made by SchemaReader.
struct ObjectRules {
  struct Member {
    int rule = 0;  // writes it, with the white space behind it
    bool required = false;
  };
  std::vector<Member> members{};
  int comma = 0;
  int others = -1;  // writes any further member; −1: there are none
  std::int64_t min = 0, max = kNoMaximum;

  // The rule of all members with the commas between them. Nothing satisfies it where the counts
  // cannot be met.
  int add_to(Ebnf* ebnf) const;
};

}  // namespace quern::grammar
