#include "server/openai_api.h"

#include <algorithm>
#include <ctime>
#include <limits>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/errors/server.h"
#include "server/chat_messages.h"
#include "server/chat_output.h"
#include "server/grammar_fields.h"
#include "server/json_body.h"
#include "server/logprob_json.h"
#include "server/sampling_fields.h"
#include "server/sse.h"

namespace quern::server {
namespace {

constexpr std::int64_t kMaxChoices = 8;  // of one prompt
constexpr std::int64_t kMaxBestOf = 20;  // answers that are made of it
constexpr size_t kMaxRequests = 128;     // of one POST
constexpr std::int64_t kCompletionTokens = 16;
constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// Fields of OpenAI and SGLang that would change the answer.
constexpr UnservedField kUnserved[] = {
    {"functions", Harmless::kEmpty, "requests without functions"},
    {"function_call", Harmless::kNoneWord, "function_call \"none\""},
    {"audio", Harmless::kNothing, "requests for text"},
    {"modalities", Harmless::kPlainText, "modalities [\"text\"]"},
    {"prediction", Harmless::kNothing, "requests without prediction"},
    {"web_search_options", Harmless::kNothing, "requests without web search"},
    {"suffix", Harmless::kEmpty, "an empty suffix"},
    {"input_ids", Harmless::kNothing, "token ids in `prompt` of /v1/completions"},
    {"lora_path", Harmless::kEmpty, "the base model"},
    {"custom_logit_processor", Harmless::kEmpty, "the usual sampling"},
};

// Of a prompt that a template makes.
constexpr UnservedField kUnservedWithChat[] = {
    {"echo", Harmless::kFalse, "echo in /v1/completions"},
    {"best_of", Harmless::kOne, "best_of in /v1/completions"},
};

// Of a prompt that no template makes.
constexpr UnservedField kUnservedWithPrompt[] = {
    {"top_logprobs", Harmless::kZero, "a number in logprobs"},
    {"tools", Harmless::kEmpty, "requests without tools"},
    {"tool_choice", Harmless::kNoneWord, "tool_choice \"none\""},
    {"continue_final_message", Harmless::kFalse, "continue_final_message false"},
    {"chat_template_kwargs", Harmless::kEmpty, "an empty chat_template_kwargs"},
};

enum class Kind { kChat, kCompletion };

// SGLang's: the stop string or regex that ended the text, or the token; null where it was neither.
JsonOut matched_stop(const TokenEvent& event) {
  if (event.finish_reason != FinishReason::kStop) return nullptr;
  if (!event.matched_stop.empty()) return event.matched_stop;
  return event.token_ids.empty() ? JsonOut(nullptr) : JsonOut(event.token_ids.back());
}

class OpenAiGeneration : public Generation {
 public:
  OpenAiGeneration(Kind kind, const EngineInfo& info)
      : kind_(kind), model_(info.served_model_name), created_(std::time(nullptr)) {
    id = fresh_id(kind == Kind::kChat ? "chatcmpl-" : "cmpl-");
  }

  void add(size_t choice, const TokenEvent& event) override {
    Choice& state = choices_[choice];
    state.prompt_tokens = event.prompt_tokens;
    state.completion_tokens = event.completion_tokens;
    state.cached_tokens = event.cached_tokens;
    state.reason = event.finish_reason;
    state.matched_stop = matched_stop(event);
    for (const TokenLogprobs& at : event.logprobs) state.logprob_sum += at.token.logprob;
    const std::string text = echo_of(state, event) + event.text;
    JsonOut logprobs = logprobs_of(&state, event);
    std::vector<JsonOut> deltas;
    if (state.output) {
      deltas = state.output->add(event);
    } else if (!stream) {
      state.text += text;
    }
    if (!stream) {
      append(&state.logprobs, logprobs);
      return;
    }
    if (kind_ == Kind::kChat && !state.opened) {
      frame(choice, {{"role", "assistant"}, {"content", ""}}, "", nullptr, FinishReason::kNone);
    }
    state.opened = true;
    if (kind_ == Kind::kCompletion && !(text.empty() && logprobs.is_null())) {
      frame(choice, {}, text, std::move(logprobs), FinishReason::kNone);
    } else if (deltas.empty() && !logprobs.is_null()) {
      deltas.push_back({{"content", ""}});  // of text that is held back
    }
    // What is told of the tokens stands with the first thing they made.
    for (JsonOut& delta : deltas) {
      frame(choice, std::move(delta), "", std::exchange(logprobs, nullptr), FinishReason::kNone);
    }
    if (event.finish_reason != FinishReason::kNone) {
      frame(choice, JsonOut::object(), "", nullptr, event.finish_reason);
    }
  }

  std::string frames() override { return std::exchange(frames_, {}); }

  std::string last_frames() override {
    std::string text;
    if (include_usage) {
      JsonOut chunk = head(true);
      chunk["choices"] = JsonOut::array();
      chunk["usage"] = usage();
      text = sse_event(dump(chunk));
    }
    return text.append(kSseDone);
  }

  std::string body() override {
    JsonOut answer = head(false);
    JsonOut list = JsonOut::array();
    for (const size_t i : told()) {
      JsonOut choice = {{"index", list.size()}};
      if (kind_ == Kind::kChat) {
        choice["message"] = choices_[i].output->message();
      } else {
        choice["text"] = choices_[i].text;
      }
      choice["logprobs"] = std::move(choices_[i].logprobs);
      choice["finish_reason"] = choices_[i].finish_word();
      choice["matched_stop"] = choices_[i].matched_stop;
      list.push_back(std::move(choice));
    }
    answer["choices"] = std::move(list);
    answer["usage"] = usage();
    return dump(answer);
  }

  // `prompts` × `count` requests, with seeds that differ among the choices of one prompt, of which
  // the best `told` will be in the answer; chats say how their messages are to be taken apart.
  void set_requests(std::vector<Request> prompts, size_t count, size_t told,
                    const std::optional<ChatOutputOptions>& output) {
    choices_per_prompt_ = count;
    told_per_prompt_ = told;
    for (Request& prompt : prompts) {
      for (size_t i = 0; i < count; ++i) {
        Request& request = requests.emplace_back(i + 1 < count ? prompt : std::move(prompt));
        if (request.sampling.seed) *request.sampling.seed += i;
      }
    }
    choices_.resize(requests.size());
    for (size_t i = 0; echo && i < requests.size(); ++i) {
      choices_[i].prompt = requests[i].prompt.value_or("");
    }
    if (!output) return;
    for (Choice& choice : choices_) choice.output.emplace(*output);
  }

  bool include_usage = false;
  bool echo = false;  // the prompt stands before the answer
  LogprobOptions logprobs;

 private:
  struct Choice {
    bool opened = false;
    std::string prompt;  // to be echoed; of token ids it comes with their log-probabilities
    bool echoed = false;
    JsonOut logprobs;
    std::int64_t characters = 0;       // of the text whose log-probabilities were told
    std::string text;                  // of a completion
    std::optional<ChatOutput> output;  // of a chat
    FinishReason reason = FinishReason::kNone;
    JsonOut matched_stop;
    std::int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
    double logprob_sum = 0;  // of the tokens drawn, the one that ended it too

    double mean_logprob() const {
      return logprob_sum / static_cast<double>(std::max<std::int64_t>(completion_tokens, 1));
    }

    std::string_view finish_word() const {
      if (reason == FinishReason::kCancelled) return "abort";
      if (output) return output->finish_word(reason);
      return reason == FinishReason::kLength ? "length" : "stop";
    }
  };

  JsonOut head(bool chunk) const {
    const char* object = "text_completion";
    if (kind_ == Kind::kChat) object = chunk ? "chat.completion.chunk" : "chat.completion";
    return {{"id", id}, {"object", object}, {"created", created_}, {"model", model_}};
  }

  // The choices that the answer tells: of each prompt the likeliest per token, where more were made
  // than are told. Equal ones stay in their order.
  std::vector<size_t> told() const {
    std::vector<size_t> order(choices_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    if (told_per_prompt_ == choices_per_prompt_) return order;
    std::vector<size_t> best;
    const auto likelier = [&](size_t a, size_t b) {
      return choices_[a].mean_logprob() > choices_[b].mean_logprob();
    };
    for (auto begin = order.begin(); begin != order.end();) {
      const auto end = begin + static_cast<std::ptrdiff_t>(choices_per_prompt_);
      std::stable_sort(begin, end, likelier);
      best.insert(best.end(), begin, begin + static_cast<std::ptrdiff_t>(told_per_prompt_));
      begin = end;
    }
    return best;
  }

  // The text of the prompt, once.
  std::string echo_of(Choice& choice, const TokenEvent& event) const {
    if (!echo || std::exchange(choice.echoed, true)) return {};
    if (!choice.prompt.empty()) return std::exchange(choice.prompt, {});
    std::string bytes;
    for (const TokenLogprobs& at : event.prompt_logprobs) {
      if (at.token.written) bytes += at.token.bytes;
    }
    return valid_utf8(bytes);
  }

  // Null where there is nothing to tell.
  JsonOut logprobs_of(Choice* choice, const TokenEvent& event) const {
    if (!logprobs.output) return nullptr;
    std::vector<TokenLogprobs> tokens = event.prompt_logprobs;
    const std::vector<TokenLogprobs> answered = answered_logprobs(event);
    tokens.insert(tokens.end(), answered.begin(), answered.end());
    if (tokens.empty()) return nullptr;
    if (kind_ == Kind::kChat) {
      return {{"content", chat_logprobs(tokens, logprobs)}, {"refusal", nullptr}};
    }
    return completion_logprobs(tokens, logprobs, &choice->characters);
  }

  // Joins the lists of two objects of the same shape.
  static void append(JsonOut* all, JsonOut& more) {
    if (more.is_null()) return;
    if (all->is_null()) {
      *all = std::move(more);
      return;
    }
    for (auto& [name, list] : more.items()) {
      if (list.is_array()) (*all)[name].insert((*all)[name].end(), list.begin(), list.end());
    }
  }

  void frame(size_t index, JsonOut delta, std::string_view text, JsonOut told,
             FinishReason reason) {
    JsonOut choice = {{"index", index}};
    if (kind_ == Kind::kChat) {
      choice["delta"] = std::move(delta);
    } else {
      choice["text"] = text;
    }
    choice["logprobs"] = std::move(told);
    choice["finish_reason"] =
        reason == FinishReason::kNone ? JsonOut(nullptr) : JsonOut(choices_[index].finish_word());
    choice["matched_stop"] =
        reason == FinishReason::kNone ? JsonOut(nullptr) : choices_[index].matched_stop;
    JsonOut chunk = head(true);
    chunk["choices"] = JsonOut::array({std::move(choice)});
    if (include_usage) chunk["usage"] = nullptr;
    frames_ += sse_event(dump(chunk));
  }

  // The choices of one prompt share it, so it counts once.
  JsonOut usage() const {
    std::int64_t prompt = 0, completion = 0, cached = 0;
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (i % choices_per_prompt_ == 0) {
        prompt += choices_[i].prompt_tokens;
        cached += choices_[i].cached_tokens;
      }
      completion += choices_[i].completion_tokens;
    }
    JsonOut usage = {{"prompt_tokens", prompt},
                     {"completion_tokens", completion},
                     {"total_tokens", prompt + completion},
                     {"prompt_tokens_details", {{"cached_tokens", cached}}}};
    if (const auto& first = choices_[0].output; first && first->separates_reasoning()) {
      std::int64_t reasoning = 0;
      for (const Choice& choice : choices_) reasoning += choice.output->reasoning_tokens();
      usage["reasoning_tokens"] = reasoning;
      usage["completion_tokens_details"] = {{"reasoning_tokens", reasoning}};
    }
    return usage;
  }

  Kind kind_;
  std::string model_;
  std::int64_t created_;
  size_t choices_per_prompt_ = 1, told_per_prompt_ = 1;
  std::vector<Choice> choices_;
  std::string frames_;
};

void read_stream(const Fields& fields, OpenAiGeneration* generation) {
  generation->stream = fields.boolean("stream").value_or(false);
  const Json* options = fields.find("stream_options");
  if (!options) return;
  if (!options->is_object()) fields.wrong_type("stream_options", "an object", *options);
  if (!generation->stream) {
    fields.out_of_range("stream_options", "absent unless stream is true", *options);
  }
  generation->include_usage =
      Fields(*options, "stream_options.").boolean("include_usage").value_or(false);
}

SamplingParams read_openai_sampling(const Fields& fields, Kind kind, bool echo,
                                    const EngineInfo& info) {
  SamplingParams sampling = read_sampling(fields, info.default_sampling);
  sampling.seed = fields.seed("seed");
  // With the prompt alone in the answer its log-probabilities can be had for nothing more.
  const auto old_name = fields.integer("max_tokens", echo ? 0 : 1, kNoLimit);
  const auto new_name = fields.integer("max_completion_tokens", 1, kNoLimit);
  const std::int64_t unset = kind == Kind::kCompletion ? kCompletionTokens : -1;
  if (const auto limit = fields.integer("max_thinking_tokens", 0, kNoLimit)) {
    if (reasoning_end_mark(info.reasoning_parser).empty()) {
      throw Error(errors::kFieldNotServed,
                  {{"param", "max_thinking_tokens"},
                   {"expected", "it where --reasoning-parser names a format with a closing mark"}});
    }
    sampling.max_thinking_tokens = *limit;
  }
  sampling.max_tokens = new_name ? *new_name : old_name.value_or(unset);
  read_edits(fields, "min_tokens", info, &sampling);
  sampling.grammar = read_grammar(fields);
  return sampling;
}

// How many answers are made of each prompt, of which the best `count` are told.
size_t read_best_of(const Fields& fields, size_t count, bool stream) {
  const auto asked = fields.integer("best_of", 1, kMaxBestOf);
  const auto best_of = static_cast<size_t>(asked.value_or(static_cast<std::int64_t>(count)));
  if (best_of < count) fields.out_of_range("best_of", "at least n", Json(best_of));
  if (best_of > count && stream) {
    fields.out_of_range("best_of", "n where the answer is streamed", Json(best_of));
  }
  return best_of;
}

// A prompt is a text, token ids, or an array of either.
std::vector<Request> read_prompts(const Fields& fields) {
  const Json* prompt = fields.find("prompt");
  if (!prompt) {
    throw Error(errors::kMissingField,
                {{"param", "prompt"}, {"expected", "a text or token ids are needed"}});
  }
  constexpr std::string_view kExpected = "a string, token ids, or an array of either";
  std::vector<Request> requests;
  const auto add = [&](const Json& one) {
    Request& request = requests.emplace_back();
    if (one.is_string()) {
      request.prompt = one.get<std::string>();
    } else if (one.is_array() && !one.empty()) {
      request.token_ids = token_ids(one, "prompt");
    } else if (one.is_array()) {
      fields.out_of_range("prompt", "not empty", *prompt);
    } else {
      fields.wrong_type("prompt", kExpected, one);
    }
  };
  const bool many = prompt->is_array() && !prompt->empty() && !prompt->front().is_number();
  if (!many) {
    add(*prompt);
    return requests;
  }
  if (prompt->size() > kMaxRequests) {
    fields.out_of_range("prompt", fmt::format("at most {} prompts", kMaxRequests), *prompt);
  }
  for (const Json& one : *prompt) add(one);
  return requests;
}

std::unique_ptr<Generation> read(Kind kind, std::string_view body, const EngineInfo& info) {
  const Json json = parse_object(body);
  const Fields fields(json);
  check_model(fields, info);
  refuse_unserved(fields, kUnserved);
  const bool chat = kind == Kind::kChat;
  refuse_unserved(fields,
                  chat ? std::span<const UnservedField>(kUnservedWithChat) : kUnservedWithPrompt);
  auto generation = std::make_unique<OpenAiGeneration>(kind, info);
  read_stream(fields, generation.get());
  generation->id = fields.text("rid").value_or(generation->id);
  const auto count = static_cast<size_t>(fields.integer("n", 1, kMaxChoices).value_or(1));
  const size_t best_of = chat ? count : read_best_of(fields, count, generation->stream);
  generation->echo = !chat && fields.boolean("echo").value_or(false);
  generation->logprobs =
      chat ? read_chat_logprobs(fields) : read_completion_logprobs(fields, generation->echo);
  const SamplingParams sampling = read_openai_sampling(fields, kind, generation->echo, info);

  std::vector<Request> prompts;
  if (kind == Kind::kChat) {
    read_chat(fields, &prompts.emplace_back());
    if (sampling.grammar && prompts[0].chat.call_required) throw Error(errors::kGrammarsConflict);
  } else {
    prompts = read_prompts(fields);
  }
  if (prompts.size() * best_of > kMaxRequests) {
    fields.out_of_range(
        best_of > count ? "best_of" : "n",
        fmt::format("such that all prompts have at most {} choices together", kMaxRequests),
        Json(best_of));
  }
  for (Request& prompt : prompts) {
    prompt.sampling = sampling;
    read_special_tokens(fields, &prompt);
    read_scheduling(fields, &prompt);
    prompt.logprobs = generation->logprobs;
    if (best_of > count) prompt.logprobs.output = true;  // by which they are ranked
    // The text of token ids is known with their log-probabilities only.
    if (generation->echo && prompt.token_ids) prompt.logprobs.prompt_from = 0;
  }
  std::optional<ChatOutputOptions> output;
  if (kind == Kind::kChat) output = read_chat_output(fields, prompts[0], info);
  generation->prompt_param = kind == Kind::kChat ? "messages" : "prompt";
  generation->set_requests(std::move(prompts), best_of, count, output);
  return generation;
}

}  // namespace

void check_model(const Fields& fields, const EngineInfo& info) {
  const std::string model = fields.text("model").value_or("");
  if (model.empty() || model == "default" || model == info.served_model_name) return;
  throw Error(errors::kServedModelUnknown, {{"param", "model"},
                                            {"code", "model_not_found"},
                                            {"model", model},
                                            {"served", info.served_model_name}});
}

std::unique_ptr<Generation> read_chat_completion(std::string_view body, const EngineInfo& info) {
  return read(Kind::kChat, body, info);
}

std::unique_ptr<Generation> read_completion(std::string_view body, const EngineInfo& info) {
  return read(Kind::kCompletion, body, info);
}

}  // namespace quern::server
