// Loads against a server that this file scripts: what is sent, what is measured, and what becomes
// of servers that misbehave.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "base/errors/load.h"
#include "load/bounded_json.h"
#include "load/fake_server.h"
#include "load/report.h"
#include "load/runner.h"

namespace quern::load {
namespace {

using Call = FakeServer::Call;

constexpr std::string_view kModels = R"({"object":"list","data":[{"id":"tiny"}]})";

Options options_for(const FakeServer& server) {
  Options options;
  options.base_url = server.url();
  options.input_len = 5;
  options.output_len = 3;
  options.num_prompts = 6;
  options.warmup_requests = 0;
  options.timeout = std::chrono::seconds(20);
  return options;
}

Result run(const Options& options) { return run_load(options, make_workload(options)); }

// A chat whose answer is "a b c", token by token, with usage.
bool answer_chat(const Call& call, const Json& request, std::chrono::milliseconds pause = {}) {
  call.begin_stream();
  call.event(R"({"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]})");
  for (const char* text : {"a ", "b ", "c"}) {
    std::this_thread::sleep_for(pause);
    call.event(Json{{"choices", {{{"delta", {{"content", text}}}}}}}.dump());
  }
  call.event(R"({"choices":[{"index":0,"delta":{},"finish_reason":"length"}]})");
  if (request.contains("stream_options")) {
    call.event(R"({"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,)"
               R"("prompt_tokens_details":{"cached_tokens":2}}})");
  }
  call.event("[DONE]");
  call.end_stream();
  return true;
}

FakeServer::Handler chat_server() {
  return [](const Call& call) {
    if (call.path == "/v1/models") return call.reply(200, "application/json", kModels), true;
    return answer_chat(call, parse_bounded(call.body));
  };
}

std::optional<Error> refusal(const Options& options) {
  try {
    run(options);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

// The one reason for which all requests to a server failed.
std::string failure_with(FakeServer::Handler handler, bool stream = true,
                         std::chrono::seconds timeout = std::chrono::seconds(20)) {
  FakeServer server([&](const Call& call) {
    if (call.path == "/v1/models") return call.reply(200, "application/json", kModels), true;
    return handler(call);
  });
  Options options = options_for(server);
  options.num_prompts = 2;
  options.stream = stream;
  options.timeout = timeout;
  const Summary summary = summarize(run(options));
  EXPECT_EQ(summary.completed, 0);
  EXPECT_EQ(summary.failed, 2);
  return summary.failures.size() == 1 ? summary.failures[0].first : "several reasons";
}

TEST(Load, MeasuresAStreamedChat) {
  FakeServer server([](const Call& call) {
    if (call.path == "/v1/models") return call.reply(200, "application/json", kModels), true;
    const Json request = parse_bounded(call.body);
    EXPECT_EQ(request["model"], "tiny");
    EXPECT_EQ(request["max_tokens"], 3);
    EXPECT_EQ(request["ignore_eos"], true);
    EXPECT_EQ(request["top_k"], 7);
    EXPECT_NE(call.head.find("Authorization: Bearer secret"), call.head.npos);
    return answer_chat(call, request, std::chrono::milliseconds(20));
  });
  Options options = options_for(server);
  options.api_key = "secret";
  options.extra_body = R"({"top_k":7})";
  options.max_concurrency = 1;
  const Result result = run(options);
  const Summary summary = summarize(result);
  EXPECT_EQ(summary.completed, 6);
  EXPECT_EQ(summary.prompt_tokens, 42);
  EXPECT_EQ(summary.output_tokens, 18);
  EXPECT_EQ(summary.cached_tokens, 12);
  EXPECT_TRUE(summary.counted);
  EXPECT_EQ(summary.peak, 1);
  EXPECT_EQ(server.connections(), 1);  // one user's connection is kept
  for (const Record& record : result.records) {
    EXPECT_EQ(record.gaps.size(), 2u);
    EXPECT_GE(record.first_token(), 0.02);
    EXPECT_GE(record.latency(), 0.06);
    for (const float gap : record.gaps) EXPECT_GE(gap, 0.015f);
  }
}

TEST(Load, AClosedLoopKeepsItsUsersBusyAndNoMore) {
  std::atomic<int> now = 0, most = 0;
  FakeServer server([&](const Call& call) {
    if (call.path == "/v1/models") return call.reply(200, "application/json", kModels), true;
    const int count = ++now;
    for (int seen = most; seen < count && !most.compare_exchange_weak(seen, count);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    --now;
    return answer_chat(call, parse_bounded(call.body));
  });
  Options options = options_for(server);
  options.num_prompts = 40;
  options.max_concurrency = 4;
  const Result result = run(options);
  EXPECT_EQ(most, 4);
  EXPECT_EQ(result.peak, 4);
  EXPECT_EQ(result.records.size(), 40u);
  EXPECT_EQ(server.connections(), 4);
}

TEST(Load, AnOpenLoopSendsAtItsTimes) {
  FakeServer server(chat_server());
  Options options = options_for(server);
  options.num_prompts = 30;
  options.request_rate = 100;
  Result result = run(options);
  const std::vector<double> due = arrivals(30, 100, options.seed);
  std::sort(result.records.begin(), result.records.end(),
            [](const Record& a, const Record& b) { return a.due < b.due; });
  ASSERT_EQ(result.records.size(), 30u);
  for (std::size_t i = 0; i < 30; ++i) {
    EXPECT_DOUBLE_EQ(result.records[i].due, due[i]);
    EXPECT_GE(result.records[i].sent, due[i]);
  }
  EXPECT_GE(result.seconds, due.back());
}

TEST(Load, AConversationsAnswersComeBackAsItsHistory) {
  std::mutex mutex;
  std::vector<Json> requests;
  FakeServer server([&](const Call& call) {
    if (call.path == "/v1/models") return call.reply(200, "application/json", kModels), true;
    const Json request = parse_bounded(call.body);
    {
      const std::lock_guard lock(mutex);
      requests.push_back(request);
    }
    return answer_chat(call, request);
  });
  Options options = options_for(server);
  options.workload = Workload::kMultiTurn;
  options.num_prompts = 1;
  options.num_turns = 3;
  options.prefix_groups = 1;
  options.prefix_len = 4;
  const Result result = run(options);
  ASSERT_EQ(requests.size(), 3u);
  const Json& last = requests[2]["messages"];
  ASSERT_EQ(last.size(), 6u);
  EXPECT_EQ(last[0]["role"], "system");
  EXPECT_EQ(last[1]["role"], "user");
  EXPECT_EQ(last[2], (Json{{"role", "assistant"}, {"content", "a b c"}}));
  EXPECT_EQ(last[4], (Json{{"role", "assistant"}, {"content", "a b c"}}));
  EXPECT_EQ(requests[0]["messages"][1], last[1]);
  EXPECT_EQ(summarize(result).first_token_of_turn.size(), 3u);
}

TEST(Load, CompletionsAndGenerateSpeakTheirOwnApis) {
  FakeServer server([](const Call& call) {
    if (call.path == "/v1/models") return call.reply(404, "application/json", "{}"), true;
    const Json request = parse_bounded(call.body);
    call.begin_stream();
    if (call.path == "/generate") {
      EXPECT_EQ(request["sampling_params"]["max_new_tokens"], 3);
      // Two tokens in the second event, the text cumulative.
      call.event(R"({"text":"a","meta_info":{"prompt_tokens":5,"completion_tokens":1}})");
      call.event(R"({"text":"abc","meta_info":{"prompt_tokens":5,"completion_tokens":3,)"
                 R"("cached_tokens":4,"finish_reason":{"type":"length"}}})");
    } else {
      EXPECT_EQ(call.path, "/v1/completions");
      EXPECT_TRUE(request["prompt"].is_string());
      call.event(R"({"choices":[{"text":"a"}]})");
      call.event(R"({"choices":[{"text":"b","finish_reason":"stop"}]})");
    }
    call.event("[DONE]");
    call.end_stream();
    return true;
  });
  Options options = options_for(server);
  options.api = Api::kGenerate;
  Summary summary = summarize(run(options));
  EXPECT_EQ(summary.completed, 6);
  EXPECT_EQ(summary.output_tokens, 18);
  EXPECT_EQ(summary.cached_tokens, 24);
  options.api = Api::kCompletions;
  options.model = "m";
  summary = summarize(run(options));
  EXPECT_EQ(summary.completed, 6);
  EXPECT_EQ(summary.output_tokens, 12);
  EXPECT_FALSE(summary.counted);  // no usage came
}

TEST(Load, AnswersInOnePieceHaveNoGaps) {
  FakeServer server([](const Call& call) {
    if (call.path == "/v1/models") return call.reply(200, "application/json", kModels), true;
    EXPECT_EQ(parse_bounded(call.body)["stream"], false);
    return call.reply(200, "application/json",
                      R"({"choices":[{"message":{"content":"abc"},"finish_reason":"stop"}],)"
                      R"("usage":{"prompt_tokens":7,"completion_tokens":3}})"),
           true;
  });
  Options options = options_for(server);
  options.stream = false;
  const Summary summary = summarize(run(options));
  EXPECT_EQ(summary.completed, 6);
  EXPECT_EQ(summary.output_tokens, 18);
  EXPECT_EQ(summary.between_tokens.most, 0);
  EXPECT_EQ(summary.first_token.p50, summary.latency.p50);
}

TEST(Load, AClosedKeptConnectionIsMadeAnew) {
  FakeServer server([](const Call& call) {
    if (call.path == "/v1/models") return call.reply(200, "application/json", kModels), true;
    answer_chat(call, parse_bounded(call.body));
    return false;
  });
  Options options = options_for(server);
  options.max_concurrency = 1;
  EXPECT_EQ(summarize(run(options)).completed, 6);
}

TEST(Load, TellsOfAServerThatIsNotThere) {
  Options options;
  {
    FakeServer server(chat_server());
    options = options_for(server);
  }
  const auto error = refusal(options);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->id(), errors::kLoadUnreachable);
  EXPECT_EQ(error->field("reason"), "the connection was refused");
}

TEST(Load, TheFirstRequestTellsWhatAllWouldMeet) {
  FakeServer server([](const Call& call) {
    if (call.path == "/v1/models") return call.reply(200, "application/json", kModels), true;
    return call.reply(400, "application/json",
                      R"({"object":"error","message":"ignore_eos is\nunknown","code":400})"),
           true;
  });
  Options options = options_for(server);
  options.warmup_requests = 1;
  auto error = refusal(options);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->id(), errors::kLoadRefused);
  EXPECT_EQ(error->field("reason"), "HTTP 400: ignore_eos is unknown");
  EXPECT_EQ(server.calls(), 2);

  FakeServer nameless(
      [](const Call& call) { return call.reply(200, "application/json", R"({"data":[]})"), true; });
  options = options_for(nameless);
  error = refusal(options);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->field("reason"), "/v1/models names no model; give --model");
}

TEST(Load, SaysWhyRequestsFailed) {
  EXPECT_EQ(failure_with([](const Call& call) {
              return call.reply(503, "application/json", R"({"error":{"message":"full"}})"), true;
            }),
            "HTTP 503: full");
  EXPECT_EQ(failure_with([](const Call& call) {
              return call.reply(200, "text/html", "<p>hello</p>"), true;
            }),
            "it sent text/html where a stream of events was asked for");
  EXPECT_EQ(failure_with([](const Call& call) {
              call.begin_stream();
              call.event(R"({"choices":[{"delta":{"content":"a"}}]})");
              return false;
            }),
            "it closed the connection before its answer was complete");
  EXPECT_EQ(failure_with([](const Call& call) {
              call.begin_stream();
              call.event(R"({"choices":[{"delta":{"content":"a"}}]})");
              call.end_stream();
              return true;
            }),
            "its stream ended without a finish_reason");
  EXPECT_EQ(failure_with([](const Call& call) {
              call.begin_stream();
              call.event(R"({"error":{"message":"numeric fault","code":500}})");
              call.end_stream();
              return true;
            }),
            "it sent an error: numeric fault");
  EXPECT_EQ(failure_with([](const Call& call) {
              call.begin_stream();
              call.event("not json");
              call.end_stream();
              return true;
            }),
            "it sent no JSON: not json");
  EXPECT_EQ(failure_with(
                [](const Call& call) { return call.reply(200, "application/json", "[1,2"), true; },
                false),
            "it sent no JSON: [1,2");
  EXPECT_EQ(failure_with([](const Call& call) {
              return call.send("nonsense\r\n\r\n"), false;
            }).substr(0, 27),
            "its answer is not valid HTT");
  EXPECT_EQ(failure_with(
                [](const Call& call) {
                  call.begin_stream();
                  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
                  return false;
                },
                true, std::chrono::seconds(1)),
            "it did not answer in time");
}

TEST(Load, AnErrorPageWithoutEndIsCutOff) {
  const std::string reason = failure_with([](const Call& call) {
    call.send("HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n");
    const std::string part(1 << 16, 'x');
    for (int i = 0; i < 40; ++i) call.send("10000\r\n" + part + "\r\n");
    return false;
  });
  EXPECT_LT(reason.size(), 300u);
  EXPECT_EQ(reason.substr(0, 12), "HTTP 500: xx");
}

}  // namespace
}  // namespace quern::load
