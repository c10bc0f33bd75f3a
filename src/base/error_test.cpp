#include "base/error.h"

#include <gtest/gtest.h>

#include <set>

#include "base/errors/base.h"
#include "base/errors/cli.h"

namespace quern {
namespace {

TEST(Error, FillsTheTemplateAndKeepsFields) {
  const Error error(errors::kInvalidFlagValue,
                    {{"flag", "--page-size"}, {"value", 3}, {"allowed", "16, 32"}});
  EXPECT_EQ(error.message(), "--page-size: '3' is not a valid value. Allowed: 16, 32.");
  EXPECT_EQ(error.field("value"), "3");
  EXPECT_EQ(error.field("nosuch"), "");
}

TEST(Error, DoublesNoFullStop) {
  EXPECT_EQ(Error(errors::kUnexpectedFailure, {{"what", "It broke."}}).message(),
            "An unexpected failure: It broke.");
  EXPECT_EQ(Error(errors::kUnexpectedFailure, {{"what", "it broke"}}).message(),
            "An unexpected failure: it broke.");
}

TEST(Error, MessageIsValidUtf8WhateverTheFieldsHold) {
  const Error error(errors::kInvalidFlagValue,
                    {{"flag", "--x"}, {"value", "a\xFF\xC3"}, {"allowed", ""}});
  EXPECT_NE(error.message().find("a\xEF\xBF\xBD\xEF\xBF\xBD"), std::string::npos);
}

TEST(Error, CheckThrowsInternalErrorWithValues) {
  try {
    CHECK(1 + 1 == 3, 42, "rows");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), errors::kInternalError);
    EXPECT_NE(error.message().find("1 + 1 == 3 42 rows"), std::string::npos);
  }
}

TEST(ErrorEntries, IdsAndSlugsAreUniqueAndWellFormed) {
  std::set<std::string> ids, slugs;
  for (const ErrorEntry& entry : error_entries()) {
    EXPECT_EQ(std::string(entry.id).size(), 16u) << entry.symbol;
    EXPECT_EQ(std::string(entry.id).find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_TRUE(ids.insert(entry.id).second) << entry.symbol;
    EXPECT_TRUE(slugs.insert(entry.slug).second) << entry.symbol;
    EXPECT_LE(std::string(entry.slug).size(), 50u);
    EXPECT_GE(entry.http_status, 400);
  }
}

TEST(ValidUtf8, ReplacesBadBytesOnly) {
  EXPECT_EQ(valid_utf8("aé漢😀"), "aé漢😀");
  EXPECT_EQ(valid_utf8("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // a surrogate
  EXPECT_EQ(valid_utf8("\xC0\x80x"), "\xEF\xBF\xBD\xEF\xBF\xBDx");                // overlong
}

}  // namespace
}  // namespace quern
