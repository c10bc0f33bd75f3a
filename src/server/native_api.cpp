#include "server/native_api.h"

#include <chrono>
#include <limits>

#include "base/error.h"
#include "base/errors/server.h"
#include "server/grammar_fields.h"
#include "server/json_body.h"
#include "server/logprob_json.h"
#include "server/sampling_fields.h"
#include "server/sse.h"

namespace quern::server {
namespace {

constexpr std::int64_t kDefaultNewTokens = 128;

constexpr UnservedField kUnserved[] = {
    {"input_embeds", Harmless::kEmpty, "text or input_ids"},
    {"image_data", Harmless::kEmpty, "text or input_ids"},
    {"audio_data", Harmless::kEmpty, "text or input_ids"},
    {"video_data", Harmless::kEmpty, "text or input_ids"},
    {"return_hidden_states", Harmless::kFalse, "return_hidden_states false"},
    {"return_routed_experts", Harmless::kFalse, "return_routed_experts false"},
    {"session_params", Harmless::kEmpty, "requests without a session"},
    {"lora_path", Harmless::kEmpty, "the base model"},
    {"custom_logit_processor", Harmless::kEmpty, "the usual sampling"},
};

constexpr UnservedField kUnservedSampling[] = {
    {"n", Harmless::kOne, "an n of 1"},
    {"custom_params", Harmless::kEmpty, "the usual sampling"},
};

class NativeGeneration : public Generation {
 public:
  NativeGeneration(std::string rid, NativeLogprobs logprobs) : logprobs_(std::move(logprobs)) {
    id = std::move(rid);
  }

  void add(size_t, const TokenEvent& event) override {
    text_ += event.text;
    ids_.insert(ids_.end(), event.token_ids.begin(), event.token_ids.end());
    logprobs_.add(event);
    last_ = event;
    added_ = true;
  }

  std::string frames() override {
    if (!std::exchange(added_, false)) return {};
    return sse_event(body());
  }

  std::string last_frames() override { return std::string(kSseDone); }

  std::string body() override {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
    JsonOut meta = {{"id", id},
                    {"finish_reason", finish_reason()},
                    {"prompt_tokens", last_.prompt_tokens},
                    {"completion_tokens", last_.completion_tokens},
                    {"cached_tokens", last_.cached_tokens},
                    {"e2e_latency", elapsed.count()}};
    logprobs_.put(&meta);
    return dump(JsonOut{{"text", text_}, {"output_ids", ids_}, {"meta_info", std::move(meta)}});
  }

 private:
  JsonOut finish_reason() const {
    if (last_.finish_reason == FinishReason::kNone) return nullptr;
    if (last_.finish_reason == FinishReason::kCancelled) {
      return {{"type", "abort"}, {"message", "The request was aborted."}};
    }
    if (last_.finish_reason == FinishReason::kLength) {
      return {{"type", "length"}, {"length", last_.completion_tokens}};
    }
    if (!last_.matched_stop.empty()) return {{"type", "stop"}, {"matched", last_.matched_stop}};
    return {{"type", "stop"}, {"matched", ids_.empty() ? JsonOut(nullptr) : JsonOut(ids_.back())}};
  }

  NativeLogprobs logprobs_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::string text_;
  std::vector<std::int32_t> ids_;
  TokenEvent last_;
  bool added_ = false;
};

Request read_request(const Fields& fields) {
  Request request;
  const Json* text = fields.find("text");
  const Json* ids = fields.find("input_ids");
  if (!text && !ids) {
    throw Error(errors::kMissingField,
                {{"param", "text"}, {"expected", "give either text or input_ids"}});
  }
  if (text && ids) fields.out_of_range("input_ids", "absent where text is given", *ids);
  if (text && text->is_array()) {
    throw Error(errors::kFieldNotServed, {{"param", "text"}, {"expected", "one text a request"}});
  }
  if (text) {
    request.prompt = fields.text("text");
    return request;
  }
  request.token_ids = token_ids(*ids, "input_ids");
  if (ids->empty()) fields.out_of_range("input_ids", "not empty", *ids);
  return request;
}

}  // namespace

std::unique_ptr<Generation> read_generate(std::string_view body, const EngineInfo& info) {
  const Json json = parse_object(body);
  const Fields fields(json);
  refuse_unserved(fields, kUnserved);
  const Json* given = fields.find("sampling_params");
  const Json none = Json::object();
  if (given && !given->is_object()) fields.wrong_type("sampling_params", "an object", *given);
  const Fields params(given ? *given : none, "sampling_params.");
  refuse_unserved(params, kUnservedSampling);

  Request request = read_request(fields);
  read_special_tokens(fields, &request);
  read_scheduling(fields, &request);
  request.sampling = read_sampling(params, info.default_sampling);
  request.sampling.seed = params.seed("sampling_seed");
  request.sampling.max_tokens =
      params.integer("max_new_tokens", 0, std::numeric_limits<std::int64_t>::max())
          .value_or(kDefaultNewTokens);
  read_edits(params, "min_new_tokens", info, &request.sampling);
  request.sampling.grammar = read_grammar(params);
  request.logprobs = read_native_logprobs(fields, info);
  const bool with_text = fields.boolean("return_text_in_logprobs").value_or(false);
  auto generation = std::make_unique<NativeGeneration>(fields.text("rid").value_or(fresh_id("")),
                                                       NativeLogprobs(request.logprobs, with_text));
  generation->stream = fields.boolean("stream").value_or(false);
  generation->prompt_param = request.prompt ? "text" : "input_ids";
  generation->requests.push_back(std::move(request));
  return generation;
}

}  // namespace quern::server
