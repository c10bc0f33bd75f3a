// The parts of a load without a server: events, workloads, requests, answers, figures and the plot.
#include "load/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "base/errors/engine.h"
#include "base/errors/load.h"
#include "load/http_client.h"
#include "load/sse_reader.h"
#include "load/wire_api.h"

namespace quern::load {
namespace {

std::vector<std::string> events_of(std::string_view stream, std::size_t step) {
  SseReader reader;
  std::vector<std::string> events;
  for (std::size_t at = 0; at < stream.size(); at += step) {
    EXPECT_TRUE(reader.push(stream.substr(at, step),
                            [&](std::string_view data) { events.emplace_back(data); }));
  }
  return events;
}

TEST(SseReader, ReadsEventsHoweverTheyAreCut) {
  const std::string stream =
      ": comment\n\ndata: one\n\ndata:two\r\ndata: more\r\n\r\nevent: x\ndata\n\nid: 5\rdata: "
      "last\r\r"
      "data: unfinished";
  const std::vector<std::string> expected = {"one", "two\nmore", "", "last"};
  for (std::size_t step = 1; step <= stream.size(); ++step) {
    EXPECT_EQ(events_of(stream, step), expected) << step;
  }
}

TEST(SseReader, EndsAtAnEventWithoutEnd) {
  SseReader reader;
  const std::string part(1 << 20, 'x');
  int taken = 0;
  while (taken < 100 && reader.push(part, [](std::string_view) {})) ++taken;
  EXPECT_EQ(taken, static_cast<int>(kMaxEventBytes >> 20));
}

TEST(LoadUrl, TakesHttpAndNothingElse) {
  const auto url = parse_url("http://example.org:8080/a/b/");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->host + "|" + url->port + "|" + url->prefix, "example.org|8080|/a/b");
  EXPECT_EQ(parse_url("HTTP://[::1]:30000")->host, "::1");
  EXPECT_EQ(parse_url("http://h")->port, "80");
  for (const char* bad :
       {"", "http://", "https://h", "h:80", "http://h:0", "http://h:70000", "http://h:x",
        "http://a b", "http://h/a\r\nX: y", "http://u@h", "http://h?x"}) {
    EXPECT_FALSE(parse_url(bad)) << bad;
  }
}

std::int64_t words_in(const std::string& text) { return std::count(text.begin(), text.end(), ' '); }

TEST(Workload, IsTheSameForTheSameSeed) {
  Options options;
  options.num_prompts = 50;
  options.input_len = 100;
  options.output_len = 20;
  options.range_ratio = 0.5;
  const auto first = make_workload(options), second = make_workload(options);
  options.seed = 2;
  const auto other = make_workload(options);
  ASSERT_EQ(first.size(), 50u);
  std::set<std::int64_t> lengths;
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].turns[0].text, second[i].turns[0].text);
    EXPECT_NE(first[i].turns[0].text, other[i].turns[0].text);
    const std::int64_t length = words_in(first[i].turns[0].text);
    EXPECT_TRUE(length >= 50 && length <= 100) << length;
    EXPECT_TRUE(first[i].turns[0].max_tokens >= 10 && first[i].turns[0].max_tokens <= 20);
    lengths.insert(length);
  }
  EXPECT_GT(lengths.size(), 10u);
}

TEST(Workload, GroupsShareTheirBeginningAndComeMixed) {
  Options options;
  options.workload = Workload::kSharedPrefix;
  options.prefix_groups = 3;
  options.prompts_per_group = 8;
  options.prefix_len = 40;
  const auto made = make_workload(options);
  ASSERT_EQ(made.size(), 24u);
  std::map<std::string, int> groups;
  std::set<std::string> questions;
  int changes = 0;
  for (std::size_t i = 0; i < made.size(); ++i) {
    ++groups[made[i].opening.at(0).content];
    questions.insert(made[i].turns[0].text);
    changes += i > 0 && made[i].opening[0].content != made[i - 1].opening[0].content;
    EXPECT_EQ(words_in(made[i].opening[0].content), 40);
  }
  EXPECT_EQ(groups.size(), 3u);
  EXPECT_EQ(questions.size(), 24u);
  EXPECT_GT(changes, 5);
  for (const auto& [text, count] : groups) EXPECT_EQ(count, 8);
}

TEST(Workload, ArrivalsAreAPoissonProcess) {
  const auto at = arrivals(20000, 50, 7);
  EXPECT_EQ(at.front(), 0.0);
  EXPECT_TRUE(std::is_sorted(at.begin(), at.end()));
  EXPECT_NEAR(at.back(), 400, 12);
  double squares = 0;  // the gaps of a Poisson process spread as much as they last
  for (std::size_t i = 1; i < at.size(); ++i) {
    squares += (at[i] - at[i - 1] - 0.02) * (at[i] - at[i - 1] - 0.02);
  }
  EXPECT_NEAR(std::sqrt(squares / 20000), 0.02, 0.001);
  for (const double time : arrivals(5, INFINITY, 7)) EXPECT_EQ(time, 0.0);
}

TEST(Workload, ReadsLinesOfEveryForm) {
  std::string reason;
  auto one = read_line(R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":
      [{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]}],"max_tokens":9})",
                       5, &reason);
  ASSERT_EQ(one.turns.size(), 1u) << reason;
  EXPECT_EQ(one.turns[0].text, "ab");
  EXPECT_EQ(one.turns[0].max_tokens, 9);
  EXPECT_EQ(one.opening.at(0).content, "s");
  EXPECT_EQ(read_line(R"({"prompt":"p"})", 5, &reason).turns.at(0).max_tokens, 5);
  EXPECT_EQ(read_line(R"({"text":"t","output_len":3})", 5, &reason).turns.at(0).max_tokens, 3);
  one = read_line(R"({"conversations":[{"from":"human","value":"v"},{"value":"w"}]})", 5, &reason);
  EXPECT_EQ(one.turns.at(0).text, "v");
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& bad :
       {std::string("[]"), std::string("{"), std::string("{}"), std::string(R"({"prompt":""})"),
        std::string(R"({"prompt":5})"), std::string(R"({"prompt":"p","max_tokens":0})"),
        std::string(R"({"prompt":"p","max_tokens":1.5})"), std::string(R"({"messages":[{}]})"),
        std::string(R"({"messages":"x"})"), std::string(R"({"conversations":[]})"), deep}) {
    reason.clear();
    EXPECT_TRUE(read_line(bad, 5, &reason).turns.empty()) << bad.substr(0, 80);
    EXPECT_FALSE(reason.empty()) << bad.substr(0, 80);
  }
}

TEST(Workload, NamesTheLineOfAFileThatIsNoRequest) {
  const auto path = std::filesystem::temp_directory_path() / "quern_load_lines.jsonl";
  Options options;
  options.workload = Workload::kFile;
  options.file = path.string();
  const auto error_of = [&](const std::string& text) -> std::optional<Error> {
    std::ofstream(path, std::ios::binary) << text;
    try {
      make_workload(options);
    } catch (const Error& error) {
      return error;
    }
    return std::nullopt;
  };
  EXPECT_FALSE(error_of("{\"prompt\":\"a\"}\r\n\n{\"prompt\":\"b\"}"));
  EXPECT_EQ(make_workload(options).size(), 2u);
  options.num_prompts = 1;
  EXPECT_EQ(make_workload(options).size(), 1u);
  auto error = error_of("{\"prompt\":\"a\"}\n\nnonsense\n");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->id(), errors::kLoadLineInvalid);
  EXPECT_EQ(error->field("line"), "3");
  EXPECT_TRUE(error_of("\n\n"));
  EXPECT_TRUE(error_of("{\"prompt\":\"" + std::string(kMaxLineBytes, 'x')));
  options.file = std::filesystem::temp_directory_path().string();
  error.reset();
  try {
    make_workload(options);
  } catch (const Error& caught) {
    error = caught;
  }
  ASSERT_TRUE(error);
  EXPECT_EQ(error->id(), errors::kFileUnreadable);
  std::filesystem::remove(path);
}

TEST(WireApi, TakesWhateverAServerSends) {
  const std::string deep =
      "{\"usage\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  for (const Api api : {Api::kChat, Api::kCompletions, Api::kGenerate}) {
    for (const bool whole : {false, true}) {
      for (const std::string& text :
           {std::string("{}"), std::string("null"), std::string("\xff{"), deep,
            std::string(R"({"choices":5,"usage":[],"meta_info":"x","text":7})"),
            std::string(
                R"({"choices":[null,[],{"delta":[],"text":{}}],"usage":{"completion_tokens":-1}})"),
            std::string(
                R"({"usage":{"prompt_tokens":1e300,"completion_tokens":18446744073709551615}})"),
            std::string(R"({"meta_info":{"completion_tokens":99999999999999999},"text":"x"})")}) {
        Answer answer(api);
        answer.add(text, whole);
        EXPECT_GE(answer.output_tokens(), 0);
        EXPECT_LT(answer.output_tokens(), std::int64_t{1} << 41);
        EXPECT_LT(answer.added_tokens(), std::int64_t{1} << 41);
        EXPECT_LT(answer.failure().size(), 300u);
      }
    }
  }
}

TEST(WireApi, CountsNoMoreTokensInAnEventThanItCanHold) {
  Answer answer(Api::kGenerate);
  answer.add(R"({"text":"ab","meta_info":{"completion_tokens":1000000000000}})", false);
  EXPECT_LE(answer.added_tokens(), 2);
}

TEST(WireApi, IncrementalAndWholeTextsOfGenerate) {
  Answer whole(Api::kGenerate), parts(Api::kGenerate);
  for (const char* text : {R"({"text":"one"})", R"({"text":"one two"})"}) whole.add(text, false);
  for (const char* text : {R"({"text":"one"})", R"({"text":" two"})"}) parts.add(text, false);
  EXPECT_EQ(whole.text(), "one two");
  EXPECT_EQ(parts.text(), "one two");
}

TEST(Report, FiguresOfKnownValues) {
  std::vector<double> values;
  for (int i = 1; i <= 200; ++i) values.push_back(201 - i);
  const Spread spread = spread_of(values);
  EXPECT_DOUBLE_EQ(spread.mean, 100.5);
  EXPECT_EQ(spread.p50, 100);
  EXPECT_EQ(spread.p90, 180);
  EXPECT_EQ(spread.p99, 198);
  EXPECT_EQ(spread.most, 200);
  EXPECT_EQ(spread_of({5}).p99, 5);
  EXPECT_EQ(spread_of({}).mean, 0);
}

Result sample() {
  Result result;
  result.model = "m";
  result.seconds = 4;
  for (int i = 0; i < 4; ++i) {
    Record record;
    record.sent = i * 0.5;
    record.first = record.sent + 0.1 * (i + 1);
    record.gaps = {0.05f, 0.15f};
    record.end = record.first + 0.2;
    record.prompt_tokens = 10;
    record.output_tokens = 3;
    record.cached_tokens = i;
    record.counted = true;
    result.records.push_back(record);
  }
  result.records[3].failure = "HTTP 503: <full & \"busy\">";
  return result;
}

TEST(Report, SumsAnsweredRequestsOnly) {
  const Result result = sample();
  const Summary summary = summarize(result);
  EXPECT_EQ(summary.completed, 3);
  EXPECT_EQ(summary.failed, 1);
  EXPECT_EQ(summary.output_tokens, 9);
  EXPECT_NEAR(summary.first_token.mean, 200, 1e-6);
  EXPECT_NEAR(summary.per_token.p50, 100, 1e-6);
  EXPECT_NEAR(summary.between_tokens.p50, 50, 1e-3);
  const Json json = json_of(summary, Options(), result, true);
  EXPECT_DOUBLE_EQ(json["request_throughput"].get<double>(), 0.75);
  EXPECT_DOUBLE_EQ(json["output_throughput"].get<double>(), 2.25);
  EXPECT_EQ(json["request_rate"], "inf");
  EXPECT_EQ(json["requests"].size(), 4u);
  EXPECT_EQ(json["failures"][0]["count"], 1);
  for (const char* name : {"ttft", "tpot", "itl", "e2e_latency"}) {
    for (const char* figure : {"mean_", "median_", "p90_", "p99_"}) {
      EXPECT_TRUE(json.contains(std::string(figure) + name + "_ms"));
    }
  }
  const std::string text = text_of(summary);
  EXPECT_NE(text.find("3 answered, 1 failed"), text.npos);
  EXPECT_NE(text.find("1 × HTTP 503"), text.npos);
}

// Every tag that begins ends, and what servers said is escaped.
TEST(Report, ThePlotIsWellFormed) {
  for (const Result& result : {sample(), Result()}) {
    const std::string svg = plot_of(result, "a < b & c");
    EXPECT_EQ(svg.find("<full"), svg.npos);
    EXPECT_NE(svg.find("a &lt; b &amp; c"), svg.npos);
    std::vector<std::string> open;
    for (std::size_t at = svg.find('<'); at != svg.npos; at = svg.find('<', at + 1)) {
      const std::size_t end = svg.find('>', at);
      ASSERT_NE(end, svg.npos);
      if (svg[end - 1] == '/') continue;
      const std::string name = svg.substr(at + 1, svg.find_first_of(" >", at + 1) - at - 1);
      if (name.starts_with('/')) {
        ASSERT_FALSE(open.empty());
        EXPECT_EQ("/" + open.back(), name);
        open.pop_back();
      } else {
        open.push_back(name);
      }
    }
    EXPECT_TRUE(open.empty());
    EXPECT_EQ(svg.find("nan"), svg.npos);
    EXPECT_EQ(svg.find("inf"), svg.npos);
  }
}

}  // namespace
}  // namespace quern::load
