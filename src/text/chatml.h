// Recognises ChatML in a model's Jinja text: a template is taken only if all of it is understood,
// so that what is rendered is byte for byte what Jinja would give.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quern::text {

// before [default_system] between (open role middle content close)* after [generation] end
struct ChatMl {
  std::string before;
  std::string default_system;  // where the first message is not a system message
  std::string between;
  std::string open, middle, close;  // open ends in <|im_start|>, close begins with <|im_end|>
  std::string after;
  std::string generation;  // where the prompt asks for an answer
  std::string end;
  bool trim = false;  // content loses the white space around it
  // What the template says when user and other messages do not alternate; unset: it does not mind.
  std::optional<std::string> alternation_error;
};

// nullopt for whatever is not ChatML. `bos_token` is what the template's bos_token stands for;
// a template that prints it is not recognised without.
std::optional<ChatMl> parse_chatml(std::string_view source,
                                   const std::optional<std::string>& bos_token);

}  // namespace quern::text
