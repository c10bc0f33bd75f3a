// Values with a life of their own: namespaces, macros, loops, and what can be called.
#pragma once

#include <optional>
#include <string_view>

#include "text/jinja/runtime.h"
#include "text/jinja/syntax.h"
#include "text/jinja/value.h"

namespace quern::text::jinja {

// A variable of a scope or namespace.
struct Variable {
  NameId name;
  Value value;
  Variable* next;
};

struct Scope {
  Scope* outer;
  Variable* variables = nullptr;

  Variable* own(NameId name) const {
    for (Variable* variable = variables; variable != nullptr; variable = variable->next) {
      if (variable->name == name) return variable;
    }
    return nullptr;
  }
  void set(Arena& arena, NameId name, const Value& value) {
    if (Variable* known = own(name)) {
      known->value = value;
    } else {
      variables = arena.make<Variable>(name, value, variables);
    }
  }
};

struct Member {
  const Str* name;
  Value value;
  Member* next;
};

struct Namespace {
  Member* members = nullptr;
  const Member* find(std::string_view name) const {
    for (const Member* member = members; member != nullptr; member = member->next) {
      if (member->name->text == name) return member;
    }
    return nullptr;
  }
  void set(Arena& arena, const Str* name, const Value& value) {
    if (Member* known = const_cast<Member*>(find(name->text))) {
      known->value = value;
    } else {
      members = arena.make<Member>(name, value, members);
    }
  }
};

struct Macro {
  const MacroSyntax* syntax;
  Scope* scope;           // where it was defined
  const Str* name;        // "caller" for the body of a call block
  Value parameter_names;  // a tuple
};

using MethodCode = Value (*)(Runtime& runtime, const Value& self, const Arguments& arguments);
struct MethodEntry {
  std::string_view name;
  MethodCode call;  // null: it would change the value, which a template may not
};
struct Method {
  const MethodEntry* entry;
  Value self;
};

struct Function {
  std::string_view name;
  Value (*call)(Runtime& runtime, const Arguments& arguments);
};

// The state of a loop, which the template sees as `loop`.
struct Loop {
  const ForSyntax* syntax;
  Scope* scope;  // around the loop
  std::span<const Value> items;
  std::size_t index = 0;
  int depth = 0;
  const Sequence* last_changed = nullptr;
};

// The method of a value's type by its name; null where the type has none.
const MethodEntry* find_method(const Value& value, std::string_view name);
// loop.name; nullopt where there is no such member.
std::optional<Value> loop_member(Runtime& runtime, Loop* loop, std::string_view name);
// The environment's own functions: range, namespace, raise_exception …
const Function* find_function(std::string_view name);

}  // namespace quern::text::jinja
