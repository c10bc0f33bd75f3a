// What the tests of this folder compare: an answer's text and calls, joined, and the promises that
// hold whatever the text.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "quern/output_parsers.h"

namespace quern::text::test {

struct Call {
  std::string name, arguments, id;
  bool complete = false;
  bool operator==(const Call&) const = default;
};

struct Parsed {
  std::string text;
  std::vector<Call> calls;
  bool operator==(const Parsed&) const = default;
};

inline void PrintTo(const Parsed& parsed, std::ostream* out) {
  *out << "text '" << parsed.text << "'";
  for (const Call& call : parsed.calls) {
    *out << "\n  " << call.name << " " << call.arguments << (call.complete ? "" : " (cut)") << " "
         << call.id;
  }
}

// Events in their order; what breaks that order fails the test.
inline Parsed joined(const std::vector<ToolCallEvent>& events) {
  using Kind = ToolCallEvent::Kind;
  Parsed parsed;
  bool open = false;
  for (const ToolCallEvent& event : events) {
    switch (event.kind) {
      case Kind::kText:
        EXPECT_FALSE(open);
        EXPECT_NE(event.text, "");
        parsed.text += event.text;
        continue;
      case Kind::kBegin:
        EXPECT_FALSE(open);
        EXPECT_EQ(event.index, static_cast<int>(parsed.calls.size()));
        parsed.calls.push_back({event.name, "", event.id});
        open = true;
        continue;
      case Kind::kArguments: parsed.calls.back().arguments += event.text; break;
      case Kind::kEnd:
        parsed.calls.back().complete = event.complete;
        EXPECT_TRUE(open);
        open = false;
        break;
    }
    EXPECT_EQ(event.index, static_cast<int>(parsed.calls.size()) - 1);
  }
  EXPECT_FALSE(open);
  return parsed;
}

// `cuts` in ascending order.
inline Parsed parse(std::string_view format, std::string_view tools, std::string_view text,
                    const std::vector<size_t>& cuts = {}) {
  const auto parser = make_tool_call_parser(format, tools);
  std::vector<ToolCallEvent> events;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    parser->push(text.substr(begin, cut - begin), &events);
    begin = cut;
  }
  parser->push(text.substr(begin), &events);
  parser->finish(&events);
  return joined(events);
}

// The text whole, and that no way to cut it changes anything: at every place, byte by byte, and
// at random.
inline Parsed parse_all_ways(std::string_view format, std::string_view tools,
                             std::string_view text) {
  const Parsed whole = parse(format, tools, text);
  std::vector<size_t> everywhere;
  for (size_t i = 1; i < text.size(); ++i) everywhere.push_back(i);
  EXPECT_EQ(parse(format, tools, text, everywhere), whole) << text;
  for (const size_t cut : everywhere) {
    EXPECT_EQ(parse(format, tools, text, {cut}), whole) << text << " at " << cut;
  }
  std::mt19937 random(static_cast<unsigned>(text.size()));
  for (int round = 0; round < 10; ++round) {
    std::vector<size_t> cuts;
    for (const size_t cut : everywhere) {
      if (random() % 4 == 0) cuts.push_back(cut);
    }
    EXPECT_EQ(parse(format, tools, text, cuts), whole) << text;
  }
  if (whole.calls.empty()) {
    EXPECT_EQ(whole.text, text) << format;
  }
  for (const Call& call : whole.calls) {
    EXPECT_TRUE(!call.complete || nlohmann::json::accept(call.arguments)) << call.arguments;
  }
  return whole;
}

}  // namespace quern::text::test
