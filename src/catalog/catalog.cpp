#include "catalog/catalog.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <unordered_map>

#include "base/error.h"
#include "base/nearest.h"
#include "catalog/data.h"

namespace quern::catalog {
namespace {

constexpr std::size_t kMaxWords = 32;
constexpr std::size_t kMaxKey = 200;

std::string lower(std::string_view text) {
  std::string made(text);
  for (char& c : made) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return made;
}

std::string snake_case(std::string_view symbol) {
  std::string word;
  for (const char c : symbol) {
    if (std::isupper(static_cast<unsigned char>(c)) && !word.empty()) word += '_';
    word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return word;
}

struct Catalog {
  std::string version;
  std::vector<Entry> entries;
  std::unordered_map<std::string, const Entry*> by_key;
};

Entry entry_of(Json& source) {
  Entry entry;
  entry.symbol = source["symbol"];
  entry.area = source["area"];
  entry.anchor = source["anchor"];
  entry.literal = source["literal"];
  entry.record = std::move(source["record"]);
  entry.raised_at = std::move(source["raisedAt"]);
  for (const Json& id : source["related"]) entry.related.push_back(id);
  entry.id = entry.record["id"];
  entry.slug = entry.record["slug"];
  std::string all = entry.symbol;
  for (const Json& field : entry.record) {
    if (field.is_string()) all += '\n' + field.get_ref<const std::string&>();
    if (!field.is_array()) continue;
    for (const Json& item : field) all += '\n' + item.get<std::string>();
  }
  entry.haystack = lower(all);
  return entry;
}

Catalog load() {
  Json source = Json::parse(data(), nullptr, false);
  CHECK(source.is_object());
  Catalog catalog;
  catalog.version = source["datasetVersion"];
  for (Json& entry : source["entries"]) catalog.entries.push_back(entry_of(entry));
  for (const Entry& entry : catalog.entries) {
    for (const std::string& key :
         {snake_case(entry.symbol), lower(entry.symbol), entry.slug, entry.id}) {
      catalog.by_key[key] = &entry;
    }
  }
  return catalog;
}

const Catalog& catalog() {
  static const Catalog instance = load();
  return instance;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(lower(text));
  std::vector<std::string> words;
  for (std::string word; words.size() < kMaxWords && stream >> word;) words.push_back(word);
  return words;
}

bool has_tag(const Entry& entry, const std::string& tag) {
  if (tag.empty() || entry.record["backgroundTag"] == tag) return true;
  return std::ranges::any_of(entry.record["tags"], [&](const Json& own) { return own == tag; });
}

// 0 where a word is missing.
int score_of(const Entry& entry, const std::vector<std::string>& words) {
  const std::string title = lower(entry.message() + '\n' + entry.symbol + '\n' + entry.slug);
  int score = 0;
  for (const std::string& word : words) {
    if (entry.haystack.find(word) == std::string::npos) return 0;
    score += 1;
    if (title.find(word) != std::string::npos) score += 8;
    if (has_tag(entry, word)) score += 4;
  }
  return score;
}

}  // namespace

std::string Entry::text(const char* field) const {
  const Json& value = record.at(field);
  return value.is_string() ? value.get<std::string>() : std::string();
}

const std::string& Entry::message() const {
  return record.at("errorMessage").get_ref<const std::string&>();
}

const std::vector<Entry>& entries() { return catalog().entries; }

const std::string& dataset_version() { return catalog().version; }

const Entry* find(std::string_view key) {
  if (key.size() > kMaxKey) return nullptr;
  const auto found = catalog().by_key.find(lower(key));
  return found == catalog().by_key.end() ? nullptr : found->second;
}

std::vector<const Entry*> nearest(std::string_view key, std::size_t count) {
  if (key.empty() || key.size() > kMaxKey) return {};
  const std::string wanted = lower(key);
  std::vector<std::pair<std::size_t, const Entry*>> found;
  for (const Entry& entry : entries()) {
    const std::size_t distance =
        std::min({edit_distance(wanted, entry.slug), edit_distance(wanted, lower(entry.symbol)),
                  edit_distance(wanted, entry.id)});
    if (distance <= std::max<std::size_t>(2, wanted.size() / 3))
      found.emplace_back(distance, &entry);
  }
  std::ranges::stable_sort(found, {}, &std::pair<std::size_t, const Entry*>::first);
  std::vector<const Entry*> best;
  for (const auto& [distance, entry] : found) {
    if (best.size() < count) best.push_back(entry);
  }
  return best;
}

std::vector<const Entry*> search(const Query& query) {
  const std::vector<std::string> words = words_of(query.words);
  const std::string tag = lower(query.tag);
  std::vector<std::pair<int, const Entry*>> found;
  for (const Entry& entry : entries()) {
    if (!has_tag(entry, tag)) continue;
    const int score = words.empty() ? 1 : score_of(entry, words);
    if (score > 0) found.emplace_back(-score, &entry);
  }
  std::ranges::stable_sort(found, {}, &std::pair<int, const Entry*>::first);
  std::vector<const Entry*> ordered;
  for (const auto& [score, entry] : found) ordered.push_back(entry);
  return ordered;
}

Json document(const Entry& entry) {
  return {{"record", entry.record},
          {"related", entry.related},
          {"raisedAt", entry.raised_at},
          {"datasetVersion", dataset_version()}};
}

Json summary(const Entry& entry) {
  Json made;
  for (const char* field : {"id", "slug", "errorCode", "errorMessage", "errorType", "errorClass",
                            "httpStatus", "severity", "tags", "backgroundTag"}) {
    made[field] = entry.record.at(field);
  }
  made["url"] = "/errors/" + entry.slug;
  return made;
}

}  // namespace quern::catalog
