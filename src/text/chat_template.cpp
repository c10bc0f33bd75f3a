#include "text/chat_template.h"

#include <algorithm>

#include "base/error.h"
#include "base/errors/text.h"
#include "text/jinja/json_values.h"
#include "text/jinja/protocol.h"
#include "text/jinja/unicode.h"

namespace quern::text {
namespace {

using jinja::Entry;
using jinja::Kind;
using jinja::Runtime;
using jinja::Value;

// Behind the text of a message that is to be continued; the blank shows whether the template trims.
constexpr std::string_view kContinueMark = "QUERN_CONTINUES_HERE ";

// Templates put these names between marks, as in <|user|>, so they count as the template's words.
constexpr std::string_view kRoles[] = {"system", "user",      "assistant",
                                       "tool",   "developer", "function"};

[[noreturn]] void refuse(std::string_view reason) {
  throw Error(errors::kChatTemplateRefused, {{"reason", reason}, {"param", "messages"}});
}

[[noreturn]] void invalid(std::string_view what, std::string_view expected) {
  throw Error(errors::kChatInputInvalid, {{"what", what}, {"expected", expected}, {"param", what}});
}

// JSON of the request, of one type.
Value parsed(Runtime& runtime, std::string_view json, Kind kind, std::string_view what,
             std::string_view expected) {
  const std::optional<Value> value = jinja::parse_json(runtime, json);
  if (!value || !value->is(kind)) invalid(what, expected);
  return *value;
}

class MessageReader {
 public:
  MessageReader(Runtime& runtime, bool keep_parts) : runtime_(runtime), keep_parts_(keep_parts) {}

  Value read(const ChatMessage& message) {
    entries_.clear();
    const bool known =
        std::find(std::begin(kRoles), std::end(kRoles), message.role) != std::end(kRoles);
    set("role", runtime_.text(message.role, !known));
    bool content = false;
    if (!message.fields.empty()) {
      const Value fields = parsed(runtime_, message.fields, Kind::kDict, "messages",
                                  "messages whose further members are a JSON object");
      content = jinja::find(*fields.dict, "content") != nullptr;
      if (!content) set("content", runtime_.text(message.content, true));
      for (const Entry& entry : fields.dict->entries) member(entry);
    } else {
      set("content", runtime_.text(message.content, true));
    }
    alias("reasoning_content", "thinking");
    alias("thinking", "reasoning_content");
    return runtime_.dict(entries_);
  }

 private:
  void set(std::string_view name, const Value& value) {
    entries_.push_back({runtime_.text(name), value});
  }

  void member(const Entry& entry) {
    if (entry.value.is(Kind::kNone) || entry.key.text() == "role") return;
    Value value = entry.value;
    if (entry.key.text() == "content") value = content_of(value);
    if (entry.key.text() == "tool_calls") value = calls_of(value);
    entries_.push_back({entry.key, value});
  }

  void alias(std::string_view from, std::string_view to) {
    const Value* given = nullptr;
    for (const Entry& entry : entries_) {
      if (entry.key.text() == to) return;
      if (entry.key.text() == from) given = &entry.value;
    }
    if (given != nullptr) set(to, Value(*given));
  }

  Value content_of(const Value& value) {
    if (keep_parts_ || !value.is(Kind::kList)) return value;
    jinja::MarkedText text;
    for (const Value& part : value.sequence->items) {
      const Value* words = part.is(Kind::kDict) ? jinja::find(*part.dict, "text") : nullptr;
      if (words == nullptr || !words->is_string()) continue;
      if (text.size() > 0) text.append(" ");
      text.append(*words->string);
    }
    return runtime_.text(text);
  }

  Value calls_of(const Value& value) {
    if (!value.is(Kind::kList)) return value;
    std::vector<Value> calls;
    for (const Value& call : value.sequence->items) {
      calls.push_back(with(call, "function", [this](const Value& function) {
        return with(function, "arguments", [this](const Value& arguments) {
          if (!arguments.is_string()) return arguments;
          const std::optional<Value> object = jinja::parse_json(runtime_, arguments.text());
          return object && object->is(Kind::kDict) ? *object : arguments;
        });
      }));
    }
    return runtime_.list(calls);
  }

  // The dict with one member changed.
  template <typename Change>
  Value with(const Value& dict, std::string_view name, Change change) {
    if (!dict.is(Kind::kDict)) return dict;
    std::vector<Entry> entries(dict.dict->entries.begin(), dict.dict->entries.end());
    for (Entry& entry : entries) {
      if (entry.key.text() == name) entry.value = change(entry.value);
    }
    return runtime_.dict(entries);
  }

  Runtime& runtime_;
  bool keep_parts_;
  std::vector<Entry> entries_;
};

// The message with the mark behind its text. Refuses one without text.
Value marked(Runtime& runtime, const Value& message) {
  std::vector<Entry> entries(message.dict->entries.begin(), message.dict->entries.end());
  const auto content = std::find_if(entries.begin(), entries.end(), [](const Entry& entry) {
    return entry.key.text() == "content";
  });
  const auto append = [&runtime](const Value& text) {
    jinja::MarkedText longer;
    longer.append(*text.string);
    longer.append(kContinueMark);
    return runtime.text(longer);
  };
  bool done = false;
  if (content != entries.end() && content->value.is_string()) {
    content->value = append(content->value);
    done = true;
  } else if (content != entries.end() && content->value.is(Kind::kList)) {
    const auto old = content->value.sequence->items;
    std::vector<Value> parts(old.begin(), old.end());
    for (auto part = parts.rbegin(); part != parts.rend() && !done; ++part) {
      if (!part->is(Kind::kDict)) continue;
      std::vector<Entry> members(part->dict->entries.begin(), part->dict->entries.end());
      for (Entry& member : members) {
        if (member.key.text() != "text" || !member.value.is_string()) continue;
        member.value = append(member.value);
        done = true;
      }
      *part = runtime.dict(members);
    }
    content->value = runtime.list(parts);
  }
  if (!done) refuse("continue_final_message is set, but the last message has no text");
  return runtime.dict(entries);
}

// Where the prompt ends that is to be continued.
std::size_t continued_end(const std::string& prompt) {
  const std::string_view mark = kContinueMark.substr(0, kContinueMark.size() - 1);
  const std::size_t at = prompt.rfind(mark);
  if (at == std::string::npos) {
    refuse("continue_final_message is set, but the last message does not appear in the prompt");
  }
  if (std::string_view(prompt).substr(at).starts_with(kContinueMark)) return at;
  return jinja::strip_back(std::string_view(prompt).substr(0, at)).size();
}

std::vector<PromptPiece> pieces_of(const jinja::MarkedText& text, std::size_t end) {
  std::vector<PromptPiece> pieces;
  const auto add = [&](std::size_t from, std::size_t to, bool trusted) {
    to = std::min(to, end);
    if (from < to) pieces.push_back({text.bytes().substr(from, to - from), trusted});
  };
  std::size_t at = 0;
  for (const jinja::Bytes& data : text.data()) {
    add(at, data.begin, true);
    add(data.begin, data.end, false);
    at = data.end;
  }
  add(at, end, true);
  return pieces;
}

std::tm local_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  return local;
}

}  // namespace

ChatTemplate::ChatTemplate(const ChatTemplateSource& source)
    : bos_token_(source.bos_token), eos_token_(source.eos_token), stop_(source.stop) {
  for (const auto& [name, text] : source.templates) {
    templates_.emplace_back(name, std::make_unique<const jinja::Template>(text));
  }
}

const jinja::Template& ChatTemplate::chosen(bool with_tools) const {
  const auto named = [this](std::string_view name) {
    return std::find_if(templates_.begin(), templates_.end(),
                        [name](const auto& item) { return item.first == name; });
  };
  auto found = with_tools ? named("tool_use") : templates_.end();
  if (found == templates_.end()) found = named("default");
  if (found == templates_.end()) found = templates_.begin();
  return *found->second;
}

std::vector<PromptPiece> ChatTemplate::render(const std::vector<ChatMessage>& messages,
                                              const ChatOptions& options,
                                              const std::tm& now) const {
  if (fault_) throw Error(*fault_);
  if (!usable()) throw Error(errors::kChatTemplateMissing);
  if (messages.empty()) throw Error(errors::kMessagesEmpty, {{"param", "messages"}});
  const jinja::Template& made = chosen(!options.tools.empty());
  jinja::Rendering rendering(made, now);
  Runtime& runtime = rendering.runtime();
  const auto list_of = [&runtime](const std::string& json, std::string_view what) {
    return json.empty() ? jinja::none() : parsed(runtime, json, Kind::kList, what, "a JSON array");
  };
  MessageReader reader(runtime, made.iterates_content());
  std::vector<Value> list;
  for (const ChatMessage& message : messages) list.push_back(reader.read(message));
  if (options.continue_final_message) list.back() = marked(runtime, list.back());
  if (bos_token_) rendering.define("bos_token", runtime.text(*bos_token_));
  if (eos_token_) rendering.define("eos_token", runtime.text(*eos_token_));
  if (!options.template_kwargs.empty()) {
    const Value kwargs = parsed(runtime, options.template_kwargs, Kind::kDict,
                                "chat_template_kwargs", "a JSON object");
    for (const Entry& entry : kwargs.dict->entries) rendering.define(entry.key.text(), entry.value);
  }
  rendering.define("messages", runtime.list(list));
  rendering.define("tools", list_of(options.tools, "tools"));
  rendering.define("documents", list_of(options.documents, "documents"));
  rendering.define("add_generation_prompt", jinja::boolean(options.add_generation_prompt));
  const jinja::MarkedText text = rendering.run();
  return pieces_of(text,
                   options.continue_final_message ? continued_end(text.bytes()) : text.size());
}

std::vector<PromptPiece> ChatTemplate::render(const std::vector<ChatMessage>& messages,
                                              const ChatOptions& options) const {
  return render(messages, options, local_now());
}

}  // namespace quern::text
