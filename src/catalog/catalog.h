// The error catalogue: every entry with its texts, as built into the program
// (tools/generate_catalog.py makes the data; docs/catalogue.md tells what an entry is). Looked up
// and searched by `quern explain`, by `quern catalog` and by the server's pages. Immutable after
// the first use; any thread.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace quern::catalog {

using Json = nlohmann::ordered_json;

struct Entry {
  std::string id;      // 16 hex digits
  std::string slug;    // for links
  std::string symbol;  // TrtllmMhaMlaModel
  std::string area;    // the folder of its source; "sglang": no code of quern raises it
  Json record;         // the 31 fields of schema.json
  std::vector<std::string> related;  // ids
  Json raised_at;                    // {file, line, excerpt} in quern's sources, or null

  std::string anchor;  // the longest fixed piece of the message, "" where the pattern is its own
  std::size_t literal = 0;  // fixed characters of the message
  std::string haystack;     // every text in lower case, for searching

  // A text field of the record; "" where it is null.
  std::string text(const char* field) const;
  const std::string& message() const;
};

// Every entry, ordered by area and symbol.
const std::vector<Entry>& entries();
const std::string& dataset_version();

// By id, slug, symbol or the symbol in snake_case (the `code` of HTTP errors), without regard to
// case; null where there is none. Cost: one hash look-up.
const Entry* find(std::string_view key);

// The keys nearest to a mistyped one, best first: at most `count` entries.
std::vector<const Entry*> nearest(std::string_view key, std::size_t count);

struct Query {
  std::string words;  // each must stand in some text of the entry; "": all entries
  std::string tag;    // one of its tags or its backgroundTag; "": any
};

// Ordered by where the words stand (message and names first, then tags, then texts), without words
// as entries(). At most the first 32 words count. Cost: O(text of the catalogue · words).
std::vector<const Entry*> search(const Query& query);

// What stands beside the record: {"record", "related", "raisedAt", "datasetVersion"}.
Json document(const Entry& entry);
// The fields of a list: id, slug, errorMessage, errorCode, …, tags, url.
Json summary(const Entry& entry);

}  // namespace quern::catalog
