// The error catalogue over HTTP: JSON under /api/errors, pages for a person under /errors. The same
// pages are files of `quern catalog export`. Needs no engine; answered on the I/O thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"
#include "server/http_types.h"
#include "server/routes.h"

namespace quern::server {

// How pages name each other: as routes of a server, or as files relative to the page's own place.
struct CatalogLinks {
  std::string index, style, script;
  std::string entry, entry_end;  // around a slug
  std::string json, json_end;    // around an id
  std::string list;              // the JSON of all entries

  std::string entry_of(const catalog::Entry& to) const { return entry + to.slug + entry_end; }
  std::string json_of(const catalog::Entry& to) const { return json + to.id + json_end; }
};
CatalogLinks server_links();
// `root` leads from the page to the folder of index.html: "" or "../".
CatalogLinks file_links(const std::string& root);

// Requires: route.is_catalog(). Throws: kCatalogEntryUnknown, kFieldOutOfRange for /api/errors.
Reply catalog_reply(const Route& route, const HttpRequest& request);

// The JSON of a list: the entries of `found` that stand on a page, counted from 1.
catalog::Json catalog_list(const std::vector<const catalog::Entry*>& found, size_t page,
                           size_t per_page);

// Whole HTML documents.
std::string catalog_index_html(const catalog::Query& query, const CatalogLinks& links);
std::string catalog_entry_html(const catalog::Entry& entry, const CatalogLinks& links);
std::string catalog_missing_html(std::string_view key, const CatalogLinks& links);

std::string_view catalog_style();   // CSS
std::string_view catalog_script();  // JavaScript: copy buttons, filtering while one types

}  // namespace quern::server
