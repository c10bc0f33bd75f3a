// The catalogue's pages as HTML. Every text is escaped where it is put in; a page is whole without
// its script, which adds only comfort.
#include <fmt/format.h>

#include <map>

#include "base/error.h"
#include "server/catalog_pages.h"
#include "server/text_forms.h"

namespace quern::server {
namespace {

using catalog::Entry;
using catalog::Json;

constexpr std::string_view kIcon =
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Ccircle "
    "cx='8' cy='8' r='6.5' fill='none' stroke='%23b4540a' stroke-width='3'/%3E%3Ccircle cx='8' "
    "cy='8' r='1.5' fill='%23b4540a'/%3E%3C/svg%3E";

std::string document(std::string_view title, const CatalogLinks& links, std::string_view main) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n"
      "<link rel=\"icon\" href=\"{}\">\n<link rel=\"stylesheet\" href=\"{}\">\n"
      "<script src=\"{}\" defer></script>\n</head>\n<body>\n"
      "<a class=\"skip\" href=\"#main\">Skip to the content</a>\n"
      "<header class=\"top\"><a href=\"{}\">quern <span>errors</span></a></header>\n"
      "<main id=\"main\">\n{}</main>\n<footer><p>Catalogue of {}. "
      "<a href=\"{}\">All entries as JSON</a></p></footer>\n</body>\n</html>\n",
      html_escaped(title), kIcon, html_escaped(links.style), html_escaped(links.script),
      html_escaped(links.index), main, html_escaped(catalog::dataset_version()),
      html_escaped(links.list));
}

// Escaped, with `words` in backticks as code.
std::string inline_text(std::string_view text) {
  std::string made;
  while (true) {
    const size_t open = text.find('`');
    const size_t close = open == text.npos ? text.npos : text.find('`', open + 1);
    if (close == text.npos) return made + html_escaped(text);
    made += html_escaped(text.substr(0, open));
    made += "<code>" + html_escaped(text.substr(open + 1, close - open - 1)) + "</code>";
    text.remove_prefix(close + 1);
  }
}

std::string paragraphs(std::string_view text) {
  std::string made;
  while (!text.empty()) {
    const size_t end = text.find("\n\n");
    made += "<p>" + inline_text(text.substr(0, end)) + "</p>\n";
    text.remove_prefix(end == text.npos ? text.size() : end + 2);
  }
  return made;
}

std::string code_block(std::string_view code, std::string_view name, bool copies) {
  return fmt::format("<pre tabindex=\"0\" aria-label=\"{}\"{}><code>{}</code></pre>\n",
                     html_escaped(name), copies ? " data-copy" : "", html_escaped(code));
}

// "" where there is nothing to show.
std::string section(std::string_view id, std::string_view title, const std::string& body) {
  if (body.empty()) return "";
  return fmt::format("<section aria-labelledby=\"{0}\">\n<h2 id=\"{0}\">{1}</h2>\n{2}</section>\n",
                     id, title, body);
}

std::string code_section(const Entry& entry, const char* field, std::string_view id,
                         std::string_view title) {
  const std::string code = entry.text(field);
  return section(id, title, code.empty() ? "" : code_block(code, title, true));
}

std::string list_section(const Entry& entry, const char* field, std::string_view id,
                         std::string_view title, std::string_view tag) {
  std::string items;
  for (const Json& item : entry.record.at(field)) {
    items += "<li>" + inline_text(item.get_ref<const std::string&>()) + "</li>\n";
  }
  if (items.empty()) return "";
  return section(id, title, fmt::format("<{0}>\n{1}</{0}>\n", tag, items));
}

std::string fix_section(const Entry& entry) {
  constexpr std::string_view kBefore = "# before\n", kAfter = "\n\n# after\n";
  const std::string fix = entry.text("exampleFix");
  const size_t middle = fix.find(kAfter);
  if (!fix.starts_with(kBefore) || middle == fix.npos) return "";
  const std::string_view all = fix;
  return section(
      "fix", "Example fix",
      "<h3 class=\"before\">Before</h3>\n" +
          code_block(all.substr(kBefore.size(), middle - kBefore.size()), "Before", false) +
          "<h3 class=\"after\">After</h3>\n" +
          code_block(all.substr(middle + kAfter.size()), "After", true));
}

std::string place(std::string_view file, const Json& line) {
  return line.is_number() ? fmt::format("{}:{}", file, line.get<int>()) : std::string(file);
}

std::string source_section(const Entry& entry) {
  const std::string url = entry.text("githubUrl"), file = entry.text("filePath");
  const Json& record = entry.record;
  const std::string where = html_escaped(place(file, record.at("lineNumber")));
  std::string body;
  if (url.starts_with("https://")) {
    std::string lines;
    if (record.at("sourceCodeStart").is_number() && record.at("sourceCodeEnd").is_number()) {
      lines = fmt::format(", lines {}–{}", record.at("sourceCodeStart").get<int>(),
                          record.at("sourceCodeEnd").get<int>());
    }
    body = fmt::format("<p>{}: <a href=\"{}\"><code>{}</code></a>{} (commit <code>{}</code>)</p>\n",
                       html_escaped(entry.text("repo")), html_escaped(url), where, lines,
                       html_escaped(entry.text("analyzedSha").substr(0, 12)));
  }
  if (entry.raised_at.is_object()) {
    const std::string own = entry.raised_at.at("file");
    body += fmt::format("<p>quern raises it at <code>{}</code>:</p>\n",
                        html_escaped(place(own, entry.raised_at.at("line"))));
    body += code_block(entry.raised_at.at("excerpt").get<std::string>(), "Source", false);
  } else {
    body +=
        "<p>quern itself does not raise it: it explains it for those who meet it in SGLang.</p>\n";
  }
  return section("source", "Source", body);
}

std::string related_section(const Entry& entry, const CatalogLinks& links) {
  std::string items;
  for (const std::string& id : entry.related) {
    const Entry* other = catalog::find(id);
    if (!other) continue;
    items += fmt::format("<li><a href=\"{}\">{}</a></li>\n", html_escaped(links.entry_of(*other)),
                         html_escaped(other->message()));
  }
  if (items.empty()) return "";
  return section("related", "Related errors", "<ul class=\"plain\">\n" + items + "</ul>\n");
}

std::string badges(const Entry& entry) {
  const std::string severity = entry.text("severity");
  std::string made = fmt::format(
      "<p class=\"badges\"><span class=\"badge {0}\">{0}</span> <span class=\"badge\">{1}</span>",
      html_escaped(severity), html_escaped(entry.text("errorClass")));
  if (const Json& status = entry.record.at("httpStatus"); status.is_number()) {
    made += fmt::format(" <span class=\"badge\">HTTP {}</span>", status.get<int>());
  }
  if (const std::string code = entry.text("errorCode"); !code.empty()) {
    made += fmt::format(" <span class=\"badge\">{}</span>", html_escaped(code));
  }
  return made + "</p>\n";
}

std::string tags(const Entry& entry, const CatalogLinks& links) {
  std::string made;
  for (const Json& tag : entry.record.at("tags")) {
    const std::string name = tag;
    made += fmt::format("<a class=\"tag\" href=\"{}?tag={}\">{}</a> ", html_escaped(links.index),
                        percent_encoded(name), html_escaped(name));
  }
  return made.empty() ? "" : "<p class=\"tags\"><span>Tags</span> " + made + "</p>\n";
}

std::string search_form(std::string_view words, const CatalogLinks& links) {
  return fmt::format(
      "<form action=\"{}\" method=\"get\" role=\"search\" id=\"search\">\n"
      "<label for=\"q\">Search messages and explanations</label>\n"
      "<div><input id=\"q\" name=\"q\" type=\"search\" value=\"{}\" autocomplete=\"off\" "
      "spellcheck=\"false\" placeholder=\"trtllm_mha MLA\"> <button>Search</button></div>\n"
      "</form>\n",
      html_escaped(links.index), html_escaped(words));
}

std::string list_item(const Entry& entry, const CatalogLinks& links) {
  std::string words = entry.symbol + ' ' + entry.id + ' ' + entry.slug + ' ' + entry.message();
  for (const Json& tag : entry.record.at("tags")) words += ' ' + tag.get<std::string>();
  return fmt::format(
      "<li data-words=\"{}\" data-tags=\"{}\"><a href=\"{}\">{}</a> <span class=\"meta\">"
      "<span class=\"dot {}\" aria-hidden=\"true\"></span>{} · {}</span></li>\n",
      html_escaped(words),
      html_escaped(
          fmt::format("{} {}", entry.record.at("tags").dump(), entry.text("backgroundTag"))),
      html_escaped(links.entry_of(entry)), html_escaped(entry.message()),
      html_escaped(entry.text("severity")), html_escaped(entry.text("severity")),
      html_escaped(entry.symbol));
}

// What a backgroundTag is called, in the order of the page.
const std::vector<std::pair<std::string, std::string>>& group_titles() {
  static const std::vector<std::pair<std::string, std::string>> titles = {
      {"attention-backends", "Attention backends"},
      {"mla", "Multi-head latent attention (MLA)"},
      {"kv-cache", "KV cache"},
      {"speculative-decoding", "Speculative decoding"},
      {"hardware", "Hardware"},
      {"checkpoints", "Checkpoints"},
      {"tokenizers", "Tokenizers"},
      {"chat-templates", "Chat templates"},
      {"http-api", "HTTP API"},
      {"structured-output", "Structured output"},
      {"command-line", "Command line"},
      {"memory", "Memory"},
      {"internals", "Internals"},
      {"", "Other"}};
  return titles;
}

std::string groups(const std::vector<const Entry*>& found, const CatalogLinks& links) {
  std::map<std::string, std::string> items;
  for (const Entry* entry : found) {
    items[entry->text("backgroundTag")] += list_item(*entry, links);
  }
  std::string contents, lists;
  for (const auto& [tag, title] : group_titles()) {
    if (!items.contains(tag)) continue;
    const std::string id = "group-" + (tag.empty() ? "other" : tag);
    contents += fmt::format("<a href=\"#{}\">{}</a> ", html_escaped(id), html_escaped(title));
    lists += section(html_escaped(id), html_escaped(title),
                     "<ul class=\"entries\">\n" + items[tag] + "</ul>\n");
  }
  return "<nav class=\"contents\" aria-label=\"Groups\">" + contents + "</nav>\n" + lists;
}

}  // namespace

std::string catalog_index_html(const catalog::Query& query, const CatalogLinks& links) {
  const std::string words = valid_utf8(query.words), tag = valid_utf8(query.tag);
  const std::vector<const Entry*> found = catalog::search({words, tag});
  const bool all = words.find_first_not_of(" \t\r\n") == words.npos && tag.empty();
  std::string body = "<h1>Errors, explained</h1>\n";
  body +=
      "<p class=\"lead\">Every error that quern raises, and the messages about attention backends "
      "that SGLang prints: what it means, when it happens, how to fix it. "
      "<code>quern explain 'a pasted log line'</code> finds the entry in a terminal.</p>\n";
  body += search_form(words, links);
  std::string count = fmt::format("{} {}", found.size(), found.size() == 1 ? "error" : "errors");
  if (!words.empty()) count += fmt::format(" with “{}”", words);
  if (!tag.empty()) count += fmt::format(" tagged {}", tag);
  body += fmt::format(
      "<p id=\"count\" role=\"status\">{}{}</p>\n", html_escaped(count),
      all ? "" : fmt::format(". <a href=\"{}\">Show all</a>", html_escaped(links.index)));
  if (all) {
    body += "<div id=\"all\">\n" + groups(found, links) + "</div>\n";
  } else {
    std::string items;
    for (const Entry* entry : found) items += list_item(*entry, links);
    if (!items.empty()) body += "<ul class=\"entries\">\n" + items + "</ul>\n";
  }
  return document("Errors · quern", links, body);
}

std::string catalog_entry_html(const Entry& entry, const CatalogLinks& links) {
  std::string body = "<article>\n";
  body += "<p class=\"kind\">Error message</p>\n<h1 class=\"message\">" +
          html_escaped(entry.message()) + "</h1>\n" + badges(entry);
  body += section("meaning", "What it means", paragraphs(entry.text("documentation")));
  body += source_section(entry);
  body += list_section(entry, "solutions", "solutions", "How to fix it", "ol");
  body += fix_section(entry);
  body += code_section(entry, "validationCode", "validation", "Find it before it happens");
  body += code_section(entry, "typeGuard", "guard", "Type guard");
  body += section(
      "trigger", "When it happens",
      paragraphs(entry.text("triggerScenarios")) + paragraphs(entry.text("commonSituations")));
  body += section("handling", "How to handle it", paragraphs(entry.text("handlingStrategy")));
  body += code_section(entry, "tryCatchPattern", "catch", "Catching it");
  body += list_section(entry, "preventionTips", "prevention", "Prevention", "ul");
  body += related_section(entry, links);
  body += fmt::format(
      "<section class=\"facts\" aria-label=\"Facts\">\n{}<p><span>Id</span> <code>{}</code></p>\n"
      "<p><span>Pattern</span> <code>{}</code></p>\n<p><a href=\"{}\">This entry as JSON</a></p>\n"
      "</section>\n</article>\n",
      tags(entry, links), html_escaped(entry.id), html_escaped(entry.text("messagePattern")),
      html_escaped(links.json_of(entry)));
  return document(entry.message() + " · quern", links, body);
}

std::string catalog_missing_html(std::string_view key, const CatalogLinks& links) {
  std::string body = fmt::format(
      "<h1>No such entry</h1>\n<p class=\"lead\">The error catalogue has no entry "
      "<code>{}</code>.</p>\n",
      html_escaped(key));
  std::string items;
  for (const Entry* near : catalog::nearest(key, 3)) items += list_item(*near, links);
  if (!items.empty()) body += "<p>Near to it:</p>\n<ul class=\"entries\">\n" + items + "</ul>\n";
  body += search_form("", links);
  return document("No such entry · quern", links, body);
}

}  // namespace quern::server
