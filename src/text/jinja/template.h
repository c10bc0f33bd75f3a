// A Jinja template, compiled once and rendered often. What chat_template.cpp uses of this folder.
#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include "text/jinja/evaluator.h"
#include "text/jinja/marked_text.h"
#include "text/jinja/runtime.h"

namespace quern::text::jinja {

// Immutable; any thread.
class Template {
 public:
  // Throws: kChatTemplateUnsupported, with the place in the source.
  explicit Template(std::string_view source);

  // Whether the template passes over the parts of a message's content, so that it is to be given
  // parts where the request has them; other templates want one text.
  bool iterates_content() const { return iterates_content_; }

 private:
  friend class Rendering;

  std::string source_;
  Arena arena_;
  Names names_;
  Body body_;
  bool iterates_content_;
};

// One rendering: define the variables, then run. Values are made with runtime() and end with this
// object. One thread.
class Rendering {
 public:
  // `made` must outlive this. `now` is the local time, for strftime_now.
  Rendering(const Template& made, const std::tm& now, const Limits& limits = {});

  Runtime& runtime() { return runtime_; }
  void define(std::string_view name, const Value& value) { evaluator_.define(name, value); }
  // Throws: kChatTemplateFailed, kChatTemplateRefused, kChatTemplateLimit.
  MarkedText run();

 private:
  const Template& made_;
  Runtime runtime_;
  Evaluator evaluator_;
};

}  // namespace quern::text::jinja
