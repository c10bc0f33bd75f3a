// Real templates against what Python's Jinja makes of them. The references are third-party files
// that stand outside of the project; without them these tests are skipped.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/errors/text.h"
#include "text/chat_template.h"
#include "text/jinja/json_values.h"
#include "text/jinja/position.h"
#include "text/test_support.h"

namespace quern::text {
namespace {

using json = nlohmann::ordered_json;

std::filesystem::path folder() {
  const std::filesystem::path shared = test::shared_folder();
  return shared.empty() ? shared : shared / "chat-templates";
}

json read(const std::string& name) { return json::parse(test::read_file(folder() / name)); }

// 2024-07-26 12:34:56, the clock of the references.
std::tm reference_time() {
  std::tm time = {};
  time.tm_year = 124;
  time.tm_mon = 6;
  time.tm_mday = 26;
  time.tm_hour = 12;
  time.tm_min = 34;
  time.tm_sec = 56;
  time.tm_wday = 5;
  time.tm_yday = 207;
  return time;
}

struct Outcome {
  std::string text;
  std::string error;  // the symbol of the error, or ""
  std::string reason, line;
};

template <typename Action>
Outcome outcome_of(Action action) {
  try {
    return {action(), "", "", ""};
  } catch (const Error& error) {
    return {"", error.entry().symbol, std::string(error.field("reason")),
            std::string(error.field("line"))};
  }
}

Outcome render(const std::string& source, const json& context) {
  return outcome_of([&] {
    const jinja::Template made(source);
    jinja::Rendering rendering(made, reference_time());
    for (const auto& [name, value] : context.items()) {
      const auto parsed = jinja::parse_json(rendering.runtime(), value.dump());
      rendering.define(name, parsed.value());
    }
    return rendering.run().bytes();
  });
}

std::string shown(const Outcome& outcome) {
  return outcome.error.empty() ? outcome.text : outcome.error + ": " + outcome.reason;
}

bool matches(const Outcome& outcome, const json& golden) {
  if (golden.contains("expected")) {
    return outcome.error.empty() && outcome.text == golden["expected"].get<std::string>();
  }
  const json& error = golden["error"];
  const std::string type = error["type"];
  if (outcome.error.empty()) return false;
  if (type == "TemplateError") return outcome.reason == error["message"].get<std::string>();
  if (!error.contains("line")) return true;
  return outcome.line == std::to_string(error["line"].get<int>());
}

TEST(ChatTemplateGolden, FeaturesOfJinja) {
  if (folder().empty()) GTEST_SKIP() << "skipped 194 cases: there are no shared fixtures";
  int cases = 0, passed = 0;
  const json features = read("jinja-features.json");
  for (const json& item : features["cases"]) {
    const Outcome outcome = render(item["template"], item["context"]);
    const bool good = matches(outcome, item);
    EXPECT_TRUE(good) << item["name"] << "\n"
                      << item["template"] << "\n--- got\n"
                      << shown(outcome) << "\n--- expected\n"
                      << (item.contains("expected") ? item["expected"] : item["error"]);
    ++cases;
    passed += good;
  }
  RecordProperty("cases", cases);
  std::printf("%d of %d cases\n", passed, cases);
  EXPECT_GE(cases, 194);
}

TEST(ChatTemplateGolden, StopsTemplatesWithoutEnd) {
  if (folder().empty()) GTEST_SKIP() << "skipped 14 cases: there are no shared fixtures";
  const json features = read("jinja-features.json");
  for (const json& item : features["limits"]) {
    const Outcome outcome = render(item["template"], json::object());
    EXPECT_TRUE(outcome.error == "ChatTemplateLimit" ||
                outcome.error == "ChatTemplateUnsupported" || outcome.error == "ChatTemplateFailed")
        << item["name"] << ": " << shown(outcome).substr(0, 200);
  }
}

json context_of(const json& conversation, const json& info) {
  json context = {{"messages", conversation["messages"]}, {"tools", conversation["tools"]}};
  if (conversation["tools"].is_null() && info.contains("tools_if_null")) {
    context["tools"] = info["tools_if_null"];
  }
  context["documents"] = nullptr;
  context["add_generation_prompt"] = conversation["add_generation_prompt"];
  context.update(conversation["vars"]);
  context["bos_token"] = info["bos_token"];
  context["eos_token"] = info["eos_token"];
  return context;
}

// The same through the interface that requests take.
Outcome render_chat(const std::string& source, const json& conversation, const json& context) {
  return outcome_of([&] {
    const ChatTemplate chat({{{"default", source}}, context["bos_token"], context["eos_token"]});
    std::vector<ChatMessage> messages;
    for (const json& message : conversation["messages"]) {
      json fields = message;
      fields.erase("role");
      const bool text = message.contains("content") && message["content"].is_string();
      if (text) fields.erase("content");
      if (!text && !message.contains("content")) fields["content"] = nullptr;
      messages.push_back(
          {message["role"], text ? message["content"].get<std::string>() : "", fields.dump()});
    }
    ChatOptions options;
    options.add_generation_prompt = conversation["add_generation_prompt"];
    options.continue_final_message = conversation.value("continue_final_message", false);
    if (!context["tools"].is_null()) options.tools = context["tools"].dump();
    options.template_kwargs = conversation["vars"].dump();
    std::string text;
    for (const PromptPiece& piece : chat.render(messages, options, reference_time())) {
      text += piece.text;
    }
    return text;
  });
}

TEST(ChatTemplateGolden, RealTemplatesRenderAsInPython) {
  if (folder().empty()) GTEST_SKIP() << "skipped 42 templates: there are no shared fixtures";
  std::map<std::string, json> conversations;
  const json chats_of_all = read("conversations.json");
  for (const json& item : chats_of_all) conversations[item["name"]] = item;
  int plain = 0, chats = 0, templates = 0;
  const json all = read("templates.json");
  for (const auto& [name, info] : all.items()) {
    const std::string source = test::read_file(folder() / (name + ".jinja"));
    ++templates;
    const bool parts = jinja::Template(source).iterates_content();
    const json golden = read(name + ".golden.json");
    for (const json& result : golden["results"]) {
      const std::string what = result["name"];
      const json& conversation = conversations.at(what);
      const json context = context_of(conversation, info);
      if (!conversation.contains("continue_final_message")) {
        const Outcome outcome = render(source, context);
        EXPECT_TRUE(matches(outcome, result)) << name << " " << what << "\n--- got\n"
                                              << shown(outcome) << "\n--- expected\n"
                                              << result.dump(1);
        ++plain;
      }
      // Where a request is read otherwise on purpose: arguments as an object, an empty chat, parts
      // as one text.
      if (what == "tool-call-string-arguments" || what == "no-messages" ||
          (!parts && (what.starts_with("content-parts") || what == "image-part"))) {
        continue;
      }
      const Outcome outcome = render_chat(source, conversation, context);
      const json& expected = result.contains("hf") ? result["hf"] : result;
      EXPECT_TRUE(matches(outcome, expected)) << name << " " << what << " as a request\n--- got\n"
                                              << shown(outcome) << "\n--- expected\n"
                                              << expected.dump(1);
      ++chats;
    }
  }
  std::printf("%d templates, %d renderings, %d requests\n", templates, plain, chats);
  EXPECT_EQ(templates, 42);
}

}  // namespace
}  // namespace quern::text
