#include "load/runner.h"

#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cmath>
#include <csignal>
#include <exception>

#include "base/error.h"
#include "base/errors/load.h"
#include "load/http_client.h"
#include "load/sse_reader.h"
#include "load/wire_api.h"

namespace quern::load {
namespace {

namespace asio = boost::asio;
using asio::awaitable;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kWarmupTokens = 32;
constexpr std::size_t kMaxBodyBytes = 64 << 20;  // of an answer in one piece

// Each request under way has a connection, and the usual soft limit is 1024 files.
void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

class Runner {
 public:
  Runner(const Options& options, const std::vector<Conversation>& workload)
      : options_(options),
        workload_(workload),
        client_(io_, parse_url(options.base_url).value_or(Url()), options.api_key),
        signals_(io_, SIGINT) {
    for (const Conversation& one : workload) requests_ += one.turns.size();
  }

  Result run() {
    raise_file_limit();
    signals_.async_wait([this](const boost::system::error_code& error, int) {
      if (error) return;
      result_.interrupted = true;
      io_.stop();
    });
    std::exception_ptr failure;
    asio::co_spawn(
        io_, [this]() -> awaitable<void> { return prepare(); },
        [this, &failure](std::exception_ptr thrown) {
          failure = thrown;
          if (failure) {
            io_.stop();  // the wait for a signal would go on
          } else {
            start();
          }
        });
    io_.run();
    if (failure) std::rethrow_exception(failure);
    result_.seconds = 0;
    for (const Record& record : result_.records) {
      result_.seconds = std::max(result_.seconds, record.end);
    }
    return std::move(result_);
  }

 private:
  double now() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

  Error refused(const std::string& reason) const {
    return Error(errors::kLoadRefused,
                 {{"url", options_.base_url}, {"reason", reason}, {"param", "--base-url"}});
  }

  // The answer to a request that is not measured. Throws: kLoadUnreachable.
  awaitable<HttpOutcome> ask(std::string_view method, std::string path, std::string* body) {
    auto keep = [body](const HttpOutcome&, std::string_view piece) {
      body->append(piece);
      return body->size() <= kMaxErrorBody;
    };
    HttpRequest request{method, std::move(path), ""};
    HttpOutcome outcome = co_await client_.send(std::move(request), options_.timeout, keep);
    if (outcome.unreachable) {
      throw Error(
          errors::kLoadUnreachable,
          {{"url", options_.base_url}, {"reason", outcome.failure}, {"param", "--base-url"}});
    }
    co_return outcome;
  }

  // Finds the server and its model, and warms it.
  awaitable<void> prepare() {
    std::string body;
    const HttpOutcome models = co_await ask("GET", "/v1/models", &body);
    result_.model = options_.model.empty() ? first_model(body) : options_.model;
    if (result_.model.empty()) {
      if (options_.api != Api::kGenerate) {
        throw refused(models.status == 200 || models.status == 0
                          ? "/v1/models names no model; give --model"
                          : fmt::format("/v1/models: HTTP {}: {}", models.status,
                                        error_text(models.error_body)));
      }
      result_.model = "default";
    }
    for (std::int64_t i = 0; i < options_.warmup_requests; ++i) {
      const Conversation& one = workload_[static_cast<std::size_t>(i) % workload_.size()];
      std::vector<Message> history = one.opening;
      history.push_back({"user", one.turns.front().text});
      Record record;
      co_await measure(history, std::min(one.turns.front().max_tokens, kWarmupTokens), &record);
      if (!record.answered()) throw refused(record.failure);
    }
    if (options_.flush_cache) {
      body.clear();
      const HttpOutcome flushed = co_await ask("POST", "/flush_cache", &body);
      if (flushed.status != 200) {
        throw refused(fmt::format("/flush_cache: HTTP {}", flushed.status));
      }
    }
  }

  // Lets every user begin. A user takes conversations one after the other as they become due.
  void start() {
    began_ = Clock::now();
    arrivals_ = arrivals(workload_.size(), options_.request_rate, options_.seed);
    const std::size_t users =
        options_.max_concurrency > 0
            ? std::min(workload_.size(), static_cast<std::size_t>(options_.max_concurrency))
            : workload_.size();
    users_ = users;
    for (std::size_t i = 0; i < users; ++i) {
      asio::co_spawn(
          io_, [this]() -> awaitable<void> { return use(); },
          [this](std::exception_ptr thrown) {
            if (thrown) std::rethrow_exception(thrown);
            if (--users_ == 0) io_.stop();
          });
    }
  }

  awaitable<void> use() {
    while (next_ < workload_.size()) {
      const std::size_t index = next_++;
      // A closed loop has no times of its own: a user begins where the one before ended.
      const double due = std::isfinite(options_.request_rate) ? arrivals_[index] : now();
      if (due > now()) {
        asio::steady_timer timer(io_, began_ + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(due)));
        boost::system::error_code ignored;
        co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
      }
      co_await converse(workload_[index], due);
    }
  }

  awaitable<void> converse(const Conversation& conversation, double due) {
    std::vector<Message> history = conversation.opening;
    std::int64_t number = 0;
    for (const Turn& turn : conversation.turns) {
      history.push_back({"user", turn.text});
      Record record;
      record.turn = number++;
      record.due = due;
      result_.peak = std::max(result_.peak, ++under_way_);
      const std::string answer = co_await measure(history, turn.max_tokens, &record);
      --under_way_;
      const bool answered = record.answered();
      due = record.end;
      result_.records.push_back(std::move(record));
      if (options_.on_progress) {
        options_.on_progress(static_cast<std::int64_t>(result_.records.size()),
                             static_cast<std::int64_t>(requests_));
      }
      if (!answered) co_return;  // what follows would lack its history
      history.push_back({"assistant", answer});
    }
  }

  // One request: fills the record and returns the answer's text.
  awaitable<std::string> measure(const std::vector<Message>& history, std::int64_t max_tokens,
                                 Record* record) {
    Answer answer(options_.api);
    SseReader reader;
    std::string body;
    bool is_stream = false, sound = true;
    double last = 0;
    const auto on_event = [&](std::string_view data) {
      if (!sound || answer.done()) return;
      sound = answer.add(data, false);
      if (!sound || answer.added_tokens() == 0) return;
      const double time = now();
      if (record->first == 0) {
        record->first = time;
      } else {
        const auto added = static_cast<std::size_t>(answer.added_tokens());
        record->gaps.insert(record->gaps.end(), added,
                            static_cast<float>((time - last) / static_cast<double>(added)));
      }
      last = time;
    };
    auto on_body = [&](const HttpOutcome& head, std::string_view piece) {
      is_stream = head.content_type.starts_with("text/event-stream");
      if (is_stream) return reader.push(piece, on_event) && sound;
      body += piece;
      return body.size() <= kMaxBodyBytes;
    };
    HttpRequest request{"POST", std::string(path_of(options_.api)),
                        request_body(options_, result_.model, history, max_tokens)};
    record->sent = now();
    HttpOutcome outcome = co_await client_.send(std::move(request), options_.timeout, on_body);
    record->end = now();
    if (!is_stream && outcome.failure.empty() && outcome.status == 200 && !options_.stream) {
      sound = answer.add(body, true);
      record->first = record->end;
    }
    record->failure = failure_of(outcome, answer, is_stream, reader.inside_event());
    record->prompt_tokens = answer.prompt_tokens();
    record->output_tokens = answer.output_tokens();
    record->cached_tokens = answer.cached_tokens();
    record->counted = answer.counted();
    if (record->first == 0) record->first = record->end;
    co_return answer.text();
  }

  std::string failure_of(const HttpOutcome& outcome, const Answer& answer, bool is_stream,
                         bool inside_event) const {
    if (!answer.failure().empty()) return answer.failure();
    if (!outcome.failure.empty()) return outcome.failure;
    if (outcome.status != 200) {
      return fmt::format("HTTP {}: {}", outcome.status, error_text(outcome.error_body));
    }
    if (options_.stream && !is_stream) {
      return fmt::format(
          "it sent {} where a stream of events was asked for",
          outcome.content_type.empty() ? "nothing" : error_text(outcome.content_type));
    }
    if (!answer.done() && (!answer.finished() || inside_event)) {
      return "its stream ended without a finish_reason";
    }
    return "";
  }

  const Options& options_;
  const std::vector<Conversation>& workload_;
  asio::io_context io_{1};
  HttpClient client_;
  asio::signal_set signals_;
  Result result_;
  std::vector<double> arrivals_;
  std::size_t next_ = 0, users_ = 0, requests_ = 0;
  std::int64_t under_way_ = 0;
  Clock::time_point began_ = Clock::now();
};

}  // namespace

Result run_load(const Options& options, const std::vector<Conversation>& workload) {
  CHECK(!workload.empty() && parse_url(options.base_url), options.base_url);
  return Runner(options, workload).run();
}

}  // namespace quern::load
