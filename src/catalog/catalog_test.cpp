#include "catalog/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace quern::catalog {
namespace {

TEST(Catalog, HoldsEveryErrorOfTheProgram) {
  std::set<std::string> ids;
  for (const Entry& entry : entries()) ids.insert(entry.id);
  EXPECT_EQ(ids.size(), entries().size());
  for (const ErrorEntry& known : error_entries()) {
    const Entry* entry = find(known.id);
    ASSERT_NE(entry, nullptr) << known.symbol;
    EXPECT_EQ(entry->symbol, known.symbol);
    EXPECT_EQ(entry->slug, known.slug);
    EXPECT_EQ(entry->message(), known.message);
    EXPECT_EQ(entry->text("errorType"), known.type);
  }
}

TEST(Catalog, FindsByEveryName) {
  const Entry* entry = find("0ae807a1c0d1702a");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->symbol, "TrtllmMhaMlaModel");
  for (const char* key : {"trtllm-mha-backend-can-only-be-used-with-non-mla-m", "TrtllmMhaMlaModel",
                          "trtllm_mha_mla_model", "0AE807A1C0D1702A"}) {
    EXPECT_EQ(find(key), entry) << key;
  }
}

TEST(Catalog, KnowsNothingElse) {
  for (const std::string& key :
       {std::string(), std::string("../etc/passwd"), std::string("0ae807a1c0d1702"),
        std::string(1 << 20, 'a'), std::string("null"), std::string("a\0b", 3)}) {
    EXPECT_EQ(find(key), nullptr) << key.substr(0, 40);
  }
}

TEST(Catalog, ShowsWhereQuernRaisesItsOwn) {
  const Entry& entry = *find("InvalidApiKey");
  EXPECT_EQ(entry.record["repo"], "quern");
  EXPECT_EQ(entry.record["filePath"], "src/server/request_checks.cpp");
  EXPECT_THAT(entry.text("sourceCode"), testing::HasSubstr("throw Error(errors::kInvalidApiKey"));
  EXPECT_EQ(entry.raised_at["excerpt"], entry.record["sourceCode"]);
  EXPECT_EQ(entry.raised_at["line"], entry.record["lineNumber"]);
  EXPECT_EQ(entry.text("analyzedSha").size(), 40u);
}

TEST(Catalog, SearchWantsEveryWordAndPrefersTheMessage) {
  const auto found = search({"hpc_ops cross", ""});
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0]->symbol, "HpcOpsCrossAttention");
  for (const Entry* entry : found) {
    EXPECT_NE(entry->haystack.find("hpc_ops"), std::string::npos);
    EXPECT_NE(entry->haystack.find("cross"), std::string::npos);
  }
  EXPECT_TRUE(search({"hpc_ops wordthatstandsnowhere", ""}).empty());
  EXPECT_EQ(search({"", ""}).size(), entries().size());
  EXPECT_EQ(search({" \t\n", ""}).size(), entries().size());
  EXPECT_TRUE(search({"", "tagthatisnone"}).empty());
  EXPECT_EQ(search({std::string(100'000, 'x'), ""}).size(), 0u);
}

TEST(Catalog, NearestForgivesSlips) {
  EXPECT_EQ(nearest("InvalidApiKy", 3).at(0)->symbol, "InvalidApiKey");
  EXPECT_EQ(nearest("0ae807a1c0d1702b", 3).at(0)->symbol, "TrtllmMhaMlaModel");
  EXPECT_TRUE(nearest("zzzzzzzzzzzzzzzzzzzzzzzz", 3).empty());
  EXPECT_TRUE(nearest("", 3).empty());
}

TEST(Catalog, DocumentsStandBesideTheRecord) {
  const Entry& entry = *find("TrtllmMhaMlaModel");
  const Json document = catalog::document(entry);
  EXPECT_EQ(document["record"], entry.record);
  EXPECT_EQ(document["datasetVersion"], dataset_version());
  EXPECT_EQ(summary(entry)["url"], "/errors/trtllm-mha-backend-can-only-be-used-with-non-mla-m");
}

}  // namespace
}  // namespace quern::catalog
