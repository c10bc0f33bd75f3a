#include "server/pages.h"

#include <ctime>

#include "base/error.h"
#include "base/errors/server.h"
#include "server/json_body.h"
#include "server/output_api.h"
#include "server/text_forms.h"
#include "server/tokenize_api.h"

namespace quern::server {
namespace {

Reply json_reply(const JsonOut& json) {
  Reply reply;
  reply.body = dump(json);
  return reply;
}

JsonOut model_card(const EngineInfo& info) {
  static const std::int64_t started = std::time(nullptr);
  return {{"id", info.served_model_name},
          {"object", "model"},
          {"created", started},
          {"owned_by", "quern"},
          {"root", info.model_path},
          {"parent", nullptr},
          {"max_model_len", info.context_length}};
}

Reply model_page(std::string_view name, const EngineInfo& info) {
  const std::string model = percent_decoded(name);
  if (model == info.served_model_name) return json_reply(model_card(info));
  throw Error(errors::kServedModelUnknown, {{"param", "model"},
                                            {"code", "model_not_found"},
                                            {"model", model},
                                            {"served", info.served_model_name}});
}

JsonOut word_or_null(const std::string& word) {
  return word.empty() ? JsonOut(nullptr) : JsonOut(word);
}

Reply model_info(const EngineInfo& info) {
  return json_reply({{"model_path", info.model_path},
                     {"tokenizer_path", info.model_path},
                     {"is_generation", true},
                     {"served_model_name", info.served_model_name},
                     {"model_name", info.model_name},
                     {"architectures", JsonOut::array({info.architecture})},
                     {"vocab_size", info.vocab},
                     {"num_hidden_layers", info.layers},
                     {"context_length", info.context_length},
                     {"has_chat_template", info.has_chat_template},
                     {"tool_call_parser", word_or_null(info.tool_call_parser)},
                     {"reasoning_parser", word_or_null(info.reasoning_parser)}});
}

Reply server_info(const Engine& engine) {
  const EngineInfo& info = engine.info();
  const EngineStats stats = engine.stats();
  return json_reply({{"model_path", info.model_path},
                     {"served_model_name", info.served_model_name},
                     {"attention_backend", info.attention_backend},
                     {"attention_backend_reason", info.attention_backend_reason},
                     {"dtype", info.dtype},
                     {"kv_cache_dtype", info.kv_cache_dtype},
                     {"isa", info.isa},
                     {"hardware", info.hardware},
                     {"threads", info.threads},
                     {"context_length", info.context_length},
                     {"page_size", info.page_size},
                     {"max_running_requests", info.max_running_requests},
                     {"chunked_prefill_size", info.chunked_prefill_size},
                     {"max_prefill_tokens", info.max_prefill_tokens},
                     {"max_total_num_tokens", info.pages_total * info.page_size},
                     {"kv_bytes_per_token", info.kv_bytes_per_token},
                     {"weight_bytes", info.weight_bytes},
                     {"load_seconds", info.load_seconds},
                     {"running", stats.running},
                     {"queued", stats.queued},
                     {"pages_used", stats.pages_used},
                     {"pages_cached", stats.pages_cached},
                     {"pages_total", stats.pages_total},
                     {"requests_total", stats.requests_total},
                     {"aborted_total", stats.aborted_total},
                     {"prompt_tokens_total", stats.prompt_tokens_total},
                     {"generation_tokens_total", stats.generation_tokens_total},
                     {"cached_tokens_total", stats.cached_tokens_total},
                     {"cache_hit_rate", stats.cache_hit_rate},
                     {"retracted_total", stats.retracted_total},
                     {"step_seconds", stats.step_seconds},
                     {"forward_seconds", stats.forward_seconds},
                     {"steps_total", stats.steps_total}});
}

}  // namespace

Reply page(const Route& route, const HttpRequest& request, const Engine& engine,
           const ServerFacts& facts) {
  switch (route.action) {
    case Action::kIndex: {
      Reply reply;
      reply.content_type = "text/html; charset=utf-8";
      reply.body = index_page(engine.info(), facts);
      return reply;
    }
    case Action::kHealth: {
      Reply reply;
      reply.status = facts.draining ? 503 : 200;
      if (facts.draining) reply.headers.emplace_back("Retry-After", "1");
      reply.content_type = "text/plain";
      return reply;
    }
    case Action::kModels:
      return json_reply(
          {{"object", "list"}, {"data", JsonOut::array({model_card(engine.info())})}});
    case Action::kModel:
      return model_page(std::string_view(request.path).substr(route.path.size()), engine.info());
    case Action::kModelInfo: return model_info(engine.info());
    case Action::kServerInfo: return server_info(engine);
    case Action::kTokenize: return tokenize_reply(request.body, engine);
    case Action::kDetokenize: return detokenize_reply(request.body, engine);
    case Action::kParseFunctionCall: return parse_function_call(request.body, engine.info());
    case Action::kSeparateReasoning: return separate_reasoning(request.body, engine.info());
    case Action::kMetrics:  // connection.cpp, which has the times
    case Action::kCatalogList:
    case Action::kCatalogEntry:
    case Action::kCatalogIndexPage:
    case Action::kCatalogEntryPage:
    case Action::kFlushCache:
    case Action::kAbortRequest:
    case Action::kPauseGeneration:
    case Action::kContinueGeneration:
    case Action::kChatCompletion:
    case Action::kCompletion:
    case Action::kGenerate: break;
  }
  CHECK(!route.generates() && !route.is_catalog() && !route.is_control(), route.path);
  return {};
}

}  // namespace quern::server
