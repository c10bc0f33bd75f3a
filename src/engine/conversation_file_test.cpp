#include "engine/conversation_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/errors/base.h"
#include "base/errors/checkpoint.h"
#include "engine/chat_templates.h"

namespace quern::engine {
namespace {

class ConversationFileTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  std::string written(const std::string& json) const {
    std::ofstream(path_) << json;
    return path_;
  }
  std::string rendered(const std::string& json, const std::vector<ChatMessage>& messages,
                       bool answer = true) const {
    ChatOptions options;
    options.add_generation_prompt = answer;
    std::string text;
    for (const PromptPiece& piece :
         open_chat_template(written(json), nullptr)->render(messages, options)) {
      text += piece.text;
    }
    return text;
  }
  ErrorId refusal(const std::string& json) const {
    try {
      read_conversation_file(written(json));
    } catch (const Error& error) {
      return error.id();
    }
    return errors::kInternalError;
  }

  const std::string path_ =
      testing::TempDir() + "conversation_" + std::to_string(::getpid()) + ".json";
};

std::string styled(const std::string& style, const std::string& sep) {
  return R"({"name":"n","system":"S'","user":"U","assistant":"A","sep_style":")" + style +
         R"(","sep":")" + sep + R"(","stop_str":["U","A"]})";
}

const std::vector<ChatMessage> kChat = {
    {"system", "be"}, {"user", "one"}, {"assistant", "two"}, {"user", "three"}};

// As SGLang's Conversation.get_prompt writes these styles.
TEST_F(ConversationFileTest, WritesEachStyle) {
  EXPECT_EQ(rendered(styled("CHATML", "<|e|>"), kChat),
            "S'\nbe<|e|>\nU\none<|e|>\nA\ntwo<|e|>\nU\nthree<|e|>\nA\n");
  EXPECT_EQ(rendered(styled("ADD_COLON_SINGLE", R"(\n)"), kChat),
            "S'\nbe\nU: one\nA: two\nU: three\nA:");
  EXPECT_EQ(rendered(styled("ADD_COLON_SPACE_SINGLE", R"(\n)"), kChat),
            "S'\nbe\nU: one\nA: two\nU: three\nA: ");
  EXPECT_EQ(rendered(styled("ADD_NEW_LINE_SINGLE", R"(\\#)"), kChat),
            "S'\nbe\\#U\none\\#A\ntwo\\#U\nthree\\#A\n");
  EXPECT_EQ(rendered(styled("NO_COLON_SINGLE", "|"), kChat), "S'\nbeUone|Atwo|Uthree|A");
  EXPECT_EQ(rendered(styled("CHATML", "|"), {{"user", "a"}}, false), "S'\n|\nU\na|\n");
}

TEST_F(ConversationFileTest, GivesStopStringsToEveryChat) {
  EXPECT_EQ(read_conversation_file(written(styled("CHATML", "|"))).stop,
            (std::vector<std::string>{"U", "A"}));
  EXPECT_EQ(open_chat_template(path_, nullptr)->stop(), (std::vector<std::string>{"U", "A"}));
  const std::string one = R"({"system":"S","user":"U","assistant":"A","sep_style":"CHATML",
                              "stop_str":"X"})";
  EXPECT_EQ(read_conversation_file(written(one)).stop, std::vector<std::string>{"X"});
}

TEST_F(ConversationFileTest, RefusesWhatIsNoConversation) {
  EXPECT_EQ(refusal("["), errors::kCheckpointJsonInvalid);
  EXPECT_EQ(refusal("[]"), errors::kCheckpointJsonInvalid);
  EXPECT_EQ(refusal("{}"), errors::kConfigFieldMissing);
  EXPECT_EQ(refusal(R"({"sep_style":"CHATML","system":"S","user":"U"})"),
            errors::kConfigFieldMissing);
  EXPECT_EQ(refusal(styled("LLAMA2", "|")), errors::kConfigFieldInvalid);
  EXPECT_EQ(refusal(styled("chatml", "|")), errors::kConfigFieldInvalid);
  for (const char* bad : {R"("sep":1)", R"("user":["U"])", R"("stop_str":[1])",
                          R"("stop_str":[""])", R"("system_message":{})"}) {
    EXPECT_EQ(refusal(R"({"system":"S","user":"U","assistant":"A","sep_style":"CHATML",)" +
                      std::string(bad) + "}"),
              errors::kConfigFieldInvalid)
        << bad;
  }
  EXPECT_THROW(rendered(styled("CHATML", "|"), {{"tool", "a"}}), Error);
}

}  // namespace
}  // namespace quern::engine
