// `quern generate`: one prompt, one answer, streamed to stdout as it comes.
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/errors/cli.h"
#include "cli/commands.h"
#include "cli/progress.h"

namespace quern::cli {
namespace {

constexpr std::int64_t kDefaultMaxTokens = 512;  // a small model may never end by itself

const char* word_for(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: return "cancelled";
    default: return "error";
  }
}

Request request_of(const Options& options, const EngineInfo& info) {
  Request request;
  request.sampling = sampling_of(options, info.default_sampling);
  if (request.sampling.max_tokens < 0) request.sampling.max_tokens = kDefaultMaxTokens;
  if (options.raw || !info.has_chat_template) {
    request.prompt = options.prompt;
    request.parse_special_tokens = true;  // often a template's output
    return request;
  }
  std::vector<ChatMessage> messages;
  if (!options.system_prompt.empty()) messages.push_back({"system", options.system_prompt});
  messages.push_back({"user", options.prompt});
  request.messages = std::move(messages);
  return request;
}

}  // namespace

int generate_command(const Options& options) {
  EngineOptions engine_options = options.engine;
  Progress progress("Loading");
  engine_options.on_progress = progress.callback();
  const auto engine = Engine::open(engine_options);
  progress.finish();
  TokenStream stream = engine->submit(request_of(options, engine->info()));
  std::string text;
  while (const std::optional<TokenEvent> event = stream.next()) {
    if (options.json) {
      text += event->text;
    } else {
      std::fwrite(event->text.data(), 1, event->text.size(), stdout);
      std::fflush(stdout);
    }
    if (event->finish_reason == FinishReason::kNone) continue;
    if (event->finish_reason == FinishReason::kError) {
      throw Error(errors::kAnswerFailed,
                  {{"id", event->error_id}, {"reason", event->error_message}});
    }
    if (options.json) {
      text = nlohmann::ordered_json{{"text", text},
                                    {"finish_reason", word_for(event->finish_reason)},
                                    {"prompt_tokens", event->prompt_tokens},
                                    {"completion_tokens", event->completion_tokens}}
                 .dump();
    }
    std::puts(text.c_str());
  }
  return 0;
}

}  // namespace quern::cli
