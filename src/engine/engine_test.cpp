// The whole engine on a small model: batching, limits, cancelling, faults.
#include "quern/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/error.h"
#include "base/errors/attention.h"
#include "base/errors/base.h"
#include "base/errors/checkpoint.h"
#include "base/errors/engine.h"
#include "kernels/test_safetensors.h"

namespace quern {
namespace {

const std::string kModel = QUERN_TEST_DATA "/models/llama";

EngineOptions options(const std::string& path = kModel) {
  EngineOptions o;
  o.model_path = path;
  o.max_total_tokens = 4096;
  o.random_seed = 1;
  return o;
}

Request ids_request(std::vector<std::int32_t> ids, std::int64_t max_tokens,
                    SamplingParams sampling = {.temperature = 0}) {
  Request request;
  request.token_ids = std::move(ids);
  request.sampling = std::move(sampling);
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  return request;
}

struct Answer {
  std::vector<std::int32_t> ids;
  std::string text;
  TokenEvent last;
};

Answer collect(TokenStream stream) {
  Answer answer;
  while (auto event = stream.next()) {
    answer.ids.insert(answer.ids.end(), event->token_ids.begin(), event->token_ids.end());
    answer.text += event->text;
    answer.last = *event;
  }
  return answer;
}

// The stats once nothing runs: they are published after the last event.
EngineStats settled(Engine& engine) {
  while (engine.stats().running + engine.stats().queued > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return engine.stats();
}

ErrorId refusal(Engine& engine, const Request& request) {
  try {
    engine.submit(request);
  } catch (const Error& error) {
    return error.id();
  }
  return errors::kInternalError;
}

std::vector<std::int32_t> ids_of(int count, int seed = 0) {
  std::vector<std::int32_t> ids;
  for (int i = 0; i < count; ++i) ids.push_back(4 + (i * 37 + seed * 11) % 500);
  return ids;
}

TEST(Engine, GreedyContinuesAsTheGoldenInFloat32) {
  auto o = options();
  o.dtype = o.kv_cache_dtype = "float32";
  for (const std::string backend : {"torch_native", "cpu_flash"}) {
    o.attention_backend = backend;
    auto engine = Engine::open(o);
    EXPECT_EQ(engine->info().attention_backend, backend);
    EXPECT_EQ(engine->info().kv_cache_dtype, "float32");
    const GoldenArrays golden(kModel + "/golden.safetensors");
    for (int p = 0; p < 7; ++p) {
      const std::string name = "p" + std::to_string(p);
      const auto answer =
          collect(engine->submit(ids_request(golden.as<std::int32_t>(name + ".ids"), 32)));
      EXPECT_EQ(answer.ids, golden.as<std::int32_t>(name + ".greedy_ids")) << backend << " " << p;
      EXPECT_EQ(answer.last.finish_reason, FinishReason::kLength);
      EXPECT_EQ(answer.last.completion_tokens, 32);
    }
  }
}

// 64 prompts at once give, each, the same tokens as alone; with other chunks, threads and a cache
// so small that requests are retracted, too.
TEST(Engine, AnswersDoNotDependOnWhatElseRuns) {
  const std::string path = kModel + "/gguf/llama-Q4_1.gguf";
  std::vector<Request> requests;
  for (int i = 0; i < 64; ++i) {
    requests.push_back(ids_request(ids_of(1 + i * 3, i), 24,
                                   {.temperature = i % 2 ? 0.9 : 0.0, .top_p = 0.95, .seed = i}));
  }
  std::vector<std::vector<std::int32_t>> alone;
  {
    auto engine = Engine::open(options(path));
    for (const Request& request : requests) alone.push_back(collect(engine->submit(request)).ids);
  }
  struct Variant {
    std::int64_t tokens, chunk, page_size;
    int threads;
  };
  for (const Variant& v :
       {Variant{16384, 512, 16, 2}, Variant{16384, 7, 64, 1}, Variant{700, 64, 16, 2}}) {
    auto o = options(path);
    o.max_total_tokens = v.tokens;
    o.chunked_prefill_size = v.chunk;
    o.page_size = v.page_size;
    o.threads = v.threads;
    auto engine = Engine::open(o);
    std::vector<TokenStream> streams;
    for (const Request& request : requests) streams.push_back(engine->submit(request));
    for (size_t i = 0; i < streams.size(); ++i) {
      EXPECT_EQ(collect(std::move(streams[i])).ids, alone[i])
          << "request " << i << ", chunk " << v.chunk << ", cache " << v.tokens;
    }
    engine->drain(std::chrono::seconds(1));
    EXPECT_EQ(engine->stats().pages_used, 0);
  }
}

TEST(Engine, WeightsThatStayInTheFileGiveTheSameAnswers) {
  for (const char* const name : {"/gguf/llama-Q4_1.gguf", ""}) {
    auto o = options(kModel + name);
    const auto answer_of = [&] {
      auto engine = Engine::open(o);
      return collect(engine->submit(ids_request(ids_of(90), 24))).ids;
    };
    const auto packed = answer_of();
    EXPECT_EQ(packed.size(), 24u);
    o.no_repack = true;
    EXPECT_EQ(answer_of(), packed) << name;
  }
}

TEST(Engine, RefusesWhatItCannotServe) {
  auto o = options();
  o.context_length = 100;
  o.max_total_tokens = 64;
  auto engine = Engine::open(o);
  EXPECT_EQ(refusal(*engine, Request{}), errors::kRequestFormInvalid);
  EXPECT_EQ(refusal(*engine, ids_request({}, 1)), errors::kPromptEmpty);
  EXPECT_EQ(refusal(*engine, ids_request({512}, 1)), errors::kTokenIdOutOfRange);
  EXPECT_EQ(refusal(*engine, ids_request({-1}, 1)), errors::kTokenIdOutOfRange);
  EXPECT_EQ(refusal(*engine, ids_request(ids_of(100), 1)), errors::kContextLengthExceeded);
  EXPECT_EQ(refusal(*engine, ids_request(ids_of(64), 1)), errors::kCacheTooSmall);
  EXPECT_EQ(refusal(*engine, ids_request({5}, 1, {.top_p = 2})), errors::kSamplingParamInvalid);
  EXPECT_EQ(engine->stats().requests_total, 0);
}

TEST(Engine, EndsAtTheContextAndAtTheCache) {
  auto o = options();
  o.context_length = 50;
  auto engine = Engine::open(o);
  auto answer = collect(engine->submit(ids_request(ids_of(49), 100)));
  EXPECT_EQ(answer.ids.size(), 1u);
  EXPECT_EQ(answer.last.finish_reason, FinishReason::kLength);
  o = options();
  o.max_total_tokens = 64;
  engine = Engine::open(o);
  answer = collect(engine->submit(ids_request(ids_of(20), -1)));
  EXPECT_EQ(answer.ids.size(), 45u);  // the last one needs no place in the cache
  EXPECT_EQ(answer.last.finish_reason, FinishReason::kLength);
}

TEST(Engine, RefusesFlagsBeforeWeights) {
  const auto error_of = [](EngineOptions o) {
    try {
      Engine::open(o);
    } catch (const Error& error) {
      return error.id();
    }
    return errors::kInternalError;
  };
  auto o = options();
  o.context_length = 4096;
  EXPECT_EQ(error_of(o), errors::kContextLengthTooLarge);
  o = options();
  o.dtype = "int3";
  EXPECT_EQ(error_of(o), errors::kInvalidFlagValue);
  o = options();
  o.kv_cache_dtype = "nosuch";
  EXPECT_EQ(error_of(o), errors::kInvalidFlagValue);
  o = options();
  o.attention_backend = "nosuch";
  EXPECT_EQ(error_of(o), errors::kInvalidAttentionBackend);
  EXPECT_EQ(error_of(options("/nonexistent/model.gguf")), errors::kModelNotFound);
}

TEST(Engine, StopsAtStopTokensAndStopStrings) {
  auto engine = Engine::open(options());
  const auto free = collect(engine->submit(ids_request(ids_of(9), 30)));
  ASSERT_EQ(free.ids.size(), 30u);
  const std::int32_t stop_id = free.ids[10];
  const auto first = std::find(free.ids.begin(), free.ids.end(), stop_id) - free.ids.begin();
  auto request = ids_request(ids_of(9), 30);
  request.sampling.stop_token_ids = {stop_id};
  auto answer = collect(engine->submit(request));
  EXPECT_EQ(static_cast<std::ptrdiff_t>(answer.ids.size()), first + 1);
  EXPECT_EQ(answer.last.finish_reason, FinishReason::kStop);
  const std::string stop = free.text.substr(free.text.size() / 2, 3);
  if (valid_utf8(stop) == stop) {
    request = ids_request(ids_of(9), 30);
    request.sampling.stop = {stop};
    answer = collect(engine->submit(request));
    EXPECT_EQ(answer.text, free.text.substr(0, free.text.find(stop)));
    EXPECT_EQ(answer.last.matched_stop, stop);
  }
}

TEST(Engine, ACancelledRequestGivesItsPagesBack) {
  auto engine = Engine::open(options());
  for (int round = 0; round < 5; ++round) {
    std::vector<TokenStream> streams;
    for (int i = 0; i < 8; ++i) streams.push_back(engine->submit(ids_request(ids_of(60, i), 1500)));
    streams[0].next();
    engine->cancel(streams[1].id());
    while (auto event = streams[1].next()) {
      if (event->finish_reason != FinishReason::kNone) {
        EXPECT_EQ(event->finish_reason, FinishReason::kCancelled);
      }
    }
    streams.clear();  // the others are cancelled by their destructors
    for (int i = 0; i < 2000 && engine->stats().running + engine->stats().queued > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(engine->stats().pages_used, 0);
  }
  EXPECT_EQ(engine->stats().aborted_total, 40);
}

// Cold, wholly cached, partly cached, from another's answer; with prompts around a page's size.
TEST(Engine, ACachedPrefixGivesTheSameTokens) {
  for (const std::string kind : {"bf16", "float32"}) {
    auto o = options(kModel + "/gguf/llama-Q4_1.gguf");
    o.kv_cache_dtype = kind;
    o.chunked_prefill_size = 50;
    auto engine = Engine::open(o);
    o.disable_radix_cache = true;
    auto cold = Engine::open(o);
    for (const int length : {1, 15, 16, 17, 64, 200}) {
      const auto expected = collect(cold->submit(ids_request(ids_of(length), 24)));
      EXPECT_EQ(expected.last.cached_tokens, 0);
      auto whole = ids_of(length);
      for (int round = 0; round < 3; ++round) {
        if (round == 2) whole.insert(whole.end(), expected.ids.begin(), expected.ids.end());
        const auto answer = collect(engine->submit(ids_request(whole, 24)));
        if (round < 2) {
          EXPECT_EQ(answer.ids, expected.ids) << length << " " << round;
        }
        if (round == 0) continue;
        EXPECT_GE(answer.last.cached_tokens, (length - 1) / 16 * 16);
        EXPECT_LT(answer.last.cached_tokens, answer.last.prompt_tokens);
        if (round == 2) {
          // The answer was cached too, but for its last token, which was never computed.
          EXPECT_EQ(answer.last.cached_tokens, (length + 23) / 16 * 16);
          EXPECT_EQ(answer.ids, collect(cold->submit(ids_request(whole, 24))).ids);
        }
      }
      // The beginning of it, and another end.
      auto part = ids_of(length);
      part.back() ^= 1;
      EXPECT_EQ(collect(engine->submit(ids_request(part, 8))).ids,
                collect(cold->submit(ids_request(part, 8))).ids);
    }
    EXPECT_GT(engine->stats().cache_hit_rate, 0.3);
    EXPECT_EQ(cold->stats().cached_tokens_total, 0);
    EXPECT_EQ(settled(*cold).pages_cached, 0);
  }
}

TEST(Engine, SpacesAreKeptApart) {
  auto engine = Engine::open(options());
  auto request = ids_request(ids_of(100), 4);
  const auto first = collect(engine->submit(request));
  request.cache_space = "tenant";
  EXPECT_EQ(collect(engine->submit(request)).last.cached_tokens, 0);
  const auto again = collect(engine->submit(request));
  EXPECT_EQ(again.last.cached_tokens, 96);
  EXPECT_EQ(again.ids, first.ids);
}

TEST(Engine, FlushForgetsWhatNobodyUses) {
  auto engine = Engine::open(options());
  collect(engine->submit(ids_request(ids_of(100), 4)));
  EXPECT_EQ(settled(*engine).pages_cached, 6);
  EXPECT_TRUE(engine->flush_cache({}));
  EXPECT_EQ(engine->stats().pages_cached, 0);
  EXPECT_EQ(collect(engine->submit(ids_request(ids_of(100), 4))).last.cached_tokens, 0);
  auto stream = engine->submit(ids_request(ids_of(100), 1900));
  stream.next();
  EXPECT_FALSE(engine->flush_cache(std::chrono::milliseconds(5)));
  EXPECT_GT(engine->stats().pages_used, 0);
  engine->cancel(stream.id());
  EXPECT_TRUE(engine->flush_cache(std::chrono::seconds(30)));
  EXPECT_EQ(engine->stats().pages_cached, 0);
}

TEST(Engine, PausesInPlaceByRetractingAndByAborting) {
  auto engine = Engine::open(options());
  const auto expected = collect(engine->submit(ids_request(ids_of(40), 60)));
  for (const PauseMode mode : {PauseMode::kInPlace, PauseMode::kRetract}) {
    auto running = engine->submit(ids_request(ids_of(40), 60));
    const auto first = running.next();
    engine->pause(mode);
    engine->pause(mode);
    const EngineStats paused = engine->stats();
    EXPECT_EQ(engine->flush_cache({}), mode == PauseMode::kRetract);
    auto later = engine->submit(ids_request(ids_of(40), 60));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(engine->stats().steps_total, paused.steps_total);
    EXPECT_EQ(paused.pages_used > 0, mode == PauseMode::kInPlace);
    engine->resume();
    auto ids = first->token_ids;
    const auto rest = collect(std::move(running));
    ids.insert(ids.end(), rest.ids.begin(), rest.ids.end());
    EXPECT_EQ(ids, expected.ids);
    EXPECT_EQ(collect(std::move(later)).ids, expected.ids);
  }
  auto running = engine->submit(ids_request(ids_of(40), 1900));
  engine->pause(PauseMode::kAbort);
  EXPECT_EQ(collect(std::move(running)).last.finish_reason, FinishReason::kCancelled);
  auto waiting = engine->submit(ids_request(ids_of(40), 60));
  engine->cancel_all();
  EXPECT_EQ(collect(std::move(waiting)).last.finish_reason, FinishReason::kCancelled);
  engine->resume();
  EXPECT_EQ(collect(engine->submit(ids_request(ids_of(40), 60))).ids, expected.ids);
}

TEST(Engine, DrainFinishesWhatRunsAndRefusesTheRest) {
  auto engine = Engine::open(options());
  auto stream = engine->submit(ids_request(ids_of(5), 40));
  engine->drain(std::chrono::seconds(30));
  EXPECT_EQ(collect(std::move(stream)).ids.size(), 40u);
  EXPECT_EQ(refusal(*engine, ids_request({5}, 1)), errors::kEngineStopping);
  engine = Engine::open(options());
  stream = engine->submit(ids_request(ids_of(5), 1900));
  engine->drain(std::chrono::milliseconds(1));
  EXPECT_EQ(collect(std::move(stream)).last.finish_reason, FinishReason::kCancelled);
}

TEST(Engine, DestroyingItCancelsWhatRuns) {
  auto engine = Engine::open(options());
  std::atomic<int> ends{0};
  for (int i = 0; i < 4; ++i) {
    engine->submit(ids_request(ids_of(5), 1900), [&](const TokenEvent& event) {
      ends += event.finish_reason == FinishReason::kCancelled ? 1 : 0;
    });
  }
  engine.reset();
  EXPECT_EQ(ends, 4);
}

// A NaN in one row of the embedding: only prompts with that token meet it.
TEST(Engine, ANumericFaultEndsItsRequestAlone) {
  const auto folder = std::filesystem::temp_directory_path() / "quern_engine_test_nan";
  std::filesystem::create_directories(folder);
  std::ifstream in(kModel + "/gguf/llama-F32.gguf", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  // The embedding [512, 128] f32 is found by its golden values: row 77 becomes NaN.
  auto o = options(kModel + "/gguf/llama-F32.gguf");
  const GoldenArrays weights(kModel + "/model.safetensors");
  const auto embedding = weights.floats("model.embed_tokens.weight");
  const std::string row(reinterpret_cast<const char*>(&embedding[77 * 128]), 128 * 4);
  const size_t at = bytes.find(row);
  ASSERT_NE(at, std::string::npos);
  const float nan = std::nanf("");
  std::memcpy(&bytes[at], &nan, 4);
  const std::string path = (folder / "nan.gguf").string();
  std::ofstream(path, std::ios::binary) << bytes;

  auto clean = Engine::open(o);
  const auto expected = collect(clean->submit(ids_request({5, 6, 7}, 40)));
  o.model_path = path;
  // The tied head holds the same row, so logit 77 is NaN for every request ...
  auto engine = Engine::open(o);
  auto faulty = collect(engine->submit(ids_request({5, 77, 7}, 40)));
  EXPECT_EQ(faulty.last.finish_reason, FinishReason::kError);
  EXPECT_EQ(faulty.last.error_http_status, 500);
  EXPECT_NE(faulty.last.error_message.find("step 1"), std::string::npos);
  EXPECT_EQ(engine->stats().pages_used, 0);
  // ... and the engine lives on to answer the next one.
  faulty = collect(engine->submit(ids_request({5, 6, 7}, 40)));
  EXPECT_EQ(faulty.last.finish_reason, FinishReason::kError);
  EXPECT_EQ(expected.ids.size(), 40u);
  std::filesystem::remove_all(folder);
}

TEST(Engine, TextPromptsAndChatsBecomeTokens) {
  auto engine = Engine::open(options());
  Request chat;
  chat.messages = {{{"user", "How many pages does a prompt of 130 tokens need?"}}};
  const std::vector<std::int32_t> expected = {1,   88,  360, 202, 487, 274, 462, 461, 385, 262, 275,
                                              302, 355, 87,  296, 224, 20,  22,  19,  473, 466, 34,
                                              2,   202, 1,   298, 86,  76,  359, 494, 202};
  EXPECT_EQ(engine->tokenize(chat), expected);
  Request text;
  text.prompt = "a<|endoftext|>b";
  const std::vector<std::int32_t> plain = engine->tokenize(text);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), 0), 0);
  EXPECT_EQ(engine->detokenize(plain), *text.prompt);
  text.parse_special_tokens = true;
  EXPECT_EQ(engine->tokenize(text), (std::vector<std::int32_t>{68, 0, 69}));
  EXPECT_EQ(engine->detokenize({68, 0, 69}), "ab");
  EXPECT_EQ(engine->detokenize({68, 0, 69}, false), *text.prompt);
  for (const std::int32_t id : {-1, 512}) {
    try {
      engine->detokenize({68, id});
      ADD_FAILURE() << id;
    } catch (const Error& error) {
      EXPECT_EQ(error.id(), errors::kTokenIdOutOfRange);
      EXPECT_EQ(error.field("position"), "1");
    }
  }
  EXPECT_TRUE(engine->info().has_chat_template);
}

}  // namespace
}  // namespace quern
