#include "server/catalog_pages.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/errors/server.h"
#include "server/json_body.h"
#include "server/text_forms.h"

namespace quern::server {
namespace {

constexpr std::int64_t kMaxPage = 1'000'000;
constexpr std::int64_t kMaxPerPage = 200;
constexpr std::int64_t kPerPage = 50;
constexpr size_t kNearest = 3;

Reply typed(std::string_view content_type, std::string body) {
  Reply reply;
  reply.content_type = content_type;
  reply.body = std::move(body);
  reply.headers = {{"X-Content-Type-Options", "nosniff"}, {"Cache-Control", "no-cache"}};
  return reply;
}

// Everything a page loads comes from this server, and nothing runs that stands in its text.
Reply html(std::string body) {
  Reply reply = typed("text/html; charset=utf-8", std::move(body));
  reply.headers.emplace_back(
      "Content-Security-Policy",
      "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; "
      "form-action 'self'; base-uri 'none'; frame-ancestors 'none'");
  reply.headers.emplace_back("Referrer-Policy", "no-referrer");
  return reply;
}

Reply json(const catalog::Json& body) { return typed("application/json", dump(body)); }

std::int64_t number(const HttpRequest& request, const char* name, std::int64_t otherwise,
                    std::int64_t high) {
  const std::string text = query_value(request.query, name);
  if (text.empty()) return otherwise;
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < 1 || value > high) {
    throw Error(errors::kFieldOutOfRange,
                {{"param", name},
                 {"expected", fmt::format("an integer from 1 to {}", high)},
                 {"actual", valid_utf8(text.substr(0, 40))}});
  }
  return value;
}

catalog::Query query_of(const HttpRequest& request) {
  return {query_value(request.query, "q"), query_value(request.query, "tag")};
}

std::string argument(const Route& route, const HttpRequest& request) {
  return percent_decoded(std::string_view(request.path).substr(route.path.size()));
}

const catalog::Entry& entry_named(const std::string& key) {
  if (const catalog::Entry* entry = catalog::find(key)) return *entry;
  std::string hint = "Search: /api/errors?q=WORDS.";
  for (const catalog::Entry* near : catalog::nearest(key, kNearest)) {
    hint += fmt::format("\nDid you mean {} ({})?", near->slug, near->id);
  }
  throw Error(errors::kCatalogEntryUnknown,
              {{"entry", key.substr(0, 100)}, {"param", "id"}, {"hint", hint}});
}

Reply entry_page(const std::string& key) {
  if (key == "style.css") return typed("text/css; charset=utf-8", std::string(catalog_style()));
  if (key == "page.js") {
    return typed("text/javascript; charset=utf-8", std::string(catalog_script()));
  }
  const catalog::Entry* entry = catalog::find(key);
  if (entry) return html(catalog_entry_html(*entry, server_links()));
  Reply reply = html(catalog_missing_html(valid_utf8(key.substr(0, 100)), server_links()));
  reply.status = 404;
  return reply;
}

}  // namespace

CatalogLinks server_links() {
  return {.index = "/errors",
          .style = "/errors/style.css",
          .script = "/errors/page.js",
          .entry = "/errors/",
          .entry_end = "",
          .json = "/api/errors/",
          .json_end = "",
          .list = "/api/errors"};
}

CatalogLinks file_links(const std::string& root) {
  return {.index = root + "index.html",
          .style = root + "style.css",
          .script = root + "page.js",
          .entry = root + "errors/",
          .entry_end = ".html",
          .json = root + "api/errors/",
          .json_end = ".json",
          .list = root + "api/errors.json"};
}

catalog::Json catalog_list(const std::vector<const catalog::Entry*>& found, size_t page,
                           size_t per_page) {
  catalog::Json entries = catalog::Json::array();
  const size_t begin = std::min(found.size(), (page - 1) * per_page);
  const size_t end = std::min(found.size(), begin + per_page);
  for (size_t i = begin; i < end; ++i) entries.push_back(catalog::summary(*found[i]));
  return {{"total", found.size()},
          {"page", page},
          {"per_page", per_page},
          {"errors", std::move(entries)},
          {"datasetVersion", catalog::dataset_version()}};
}

Reply catalog_reply(const Route& route, const HttpRequest& request) {
  switch (route.action) {
    case Action::kCatalogList: {
      const auto page = number(request, "page", 1, kMaxPage);
      const auto per_page = number(request, "per_page", kPerPage, kMaxPerPage);
      return json(catalog_list(catalog::search(query_of(request)), static_cast<size_t>(page),
                               static_cast<size_t>(per_page)));
    }
    case Action::kCatalogEntry:
      return json(catalog::document(entry_named(argument(route, request))));
    case Action::kCatalogIndexPage:
      return html(catalog_index_html(query_of(request), server_links()));
    case Action::kCatalogEntryPage: return entry_page(argument(route, request));
    default: break;
  }
  CHECK(!route.is_catalog(), route.path);
  return {};
}

}  // namespace quern::server
