// `quern explain`: the catalogue's entry for an id, a slug or a pasted text, as text or JSON; and
// the list of all entries.
#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <regex>

#include "base/errors/cli.h"
#include "catalog/catalog.h"
#include "catalog/match.h"
#include "cli/commands.h"
#include "engine/check.h"
#include "server/catalog_pages.h"
#include "server/text_forms.h"

namespace quern::cli {
namespace {

using catalog::Entry;
using catalog::Json;

constexpr size_t kWidth = 96;
constexpr size_t kOthers = 5;         // further matches and nearest entries that are shown
constexpr size_t kShownOfText = 120;  // bytes of a text that matched nothing

void print_json(const Json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

// What stands on standard input; of a long text the end, where tracebacks have their message.
std::string read_input() {
  std::string text;
  char bytes[1 << 16];
  for (ssize_t count; (count = read(STDIN_FILENO, bytes, sizeof bytes)) > 0;) {
    text.append(bytes, static_cast<size_t>(count));
    if (text.size() > 2 * catalog::kMaxMatchText) {
      text.erase(0, text.size() - catalog::kMaxMatchText);
    }
  }
  return text;
}

// Without the blanks and quotes that come along when a name is copied.
std::string_view bare(std::string_view text) {
  constexpr std::string_view kAround = " \t\r\n\"'`[](),.:;";
  const size_t begin = text.find_first_not_of(kAround);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kAround) - begin + 1);
}

// "…/errors/<slug>" names an entry too.
std::string_view last_part(std::string_view text) {
  const size_t slash = text.rfind('/');
  return slash == text.npos ? text : text.substr(slash + 1);
}

std::vector<const Entry*> entries_for(const std::string& text) {
  const std::string_view name = bare(text);
  for (const std::string_view key : {name, last_part(name)}) {
    if (const Entry* entry = catalog::find(key)) return {entry};
  }
  std::vector<const Entry*> found;
  for (const catalog::Match& match : catalog::match(text)) found.push_back(match.entry);
  if (!found.empty()) return found;
  std::string hint;
  for (const Entry* near : catalog::nearest(last_part(name), kOthers)) {
    hint += fmt::format("near: {}  {}\n", near->id, near->message());
  }
  hint += "quern explain --search WORDS looks for words, quern explain --list shows every entry";
  std::string shown(bare(text.substr(0, kShownOfText)));
  if (text.size() > kShownOfText) shown += "…";
  throw Error(errors::kNoEntryMatches, {{"text", shown}, {"hint", hint}});
}

// One paragraph, wrapped at kWidth; the first line begins with `first`, the others with blanks.
void print_wrapped(std::string_view text, const std::string& first) {
  std::string line = first;
  const std::string indent(first.size(), ' ');
  bool empty = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (!empty && line.size() + 1 + word.size() > kWidth) {
      fmt::print("{}\n", line);
      line = indent;
      empty = true;
    }
    if (!empty) line += ' ';
    line += word;
    empty = false;
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  if (!empty) fmt::print("{}\n", line);
}

void print_lines(std::string_view text, const std::string& first) {
  std::string indent = first;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    print_wrapped(text.substr(0, end), indent);
    indent = std::string(first.size(), ' ');
    text.remove_prefix(std::min(text.size(), end + 1));
  }
}

void print_section(const char* title, const std::string& text) {
  if (text.empty()) return;
  fmt::print("\n{}\n", title);
  print_lines(text, "  ");
}

void print_list(const char* title, const Json& items) {
  if (items.empty()) return;
  fmt::print("\n{}\n", title);
  int number = 0;
  for (const Json& item : items) {
    print_lines(item.get<std::string>(), fmt::format("  {}. ", ++number));
  }
}

// Code keeps its lines.
void print_code(const char* title, const std::string& code) {
  if (code.empty()) return;
  fmt::print("\n{}\n", title);
  std::string_view rest = code;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    fmt::print("{}{}\n", end == 0 ? "" : "    ", rest.substr(0, end));
    rest.remove_prefix(std::min(rest.size(), end + 1));
  }
}

std::string shell_word(const std::string& text) {
  const bool plain = text.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                         "-._/+:@%=,~") == text.npos;
  return plain ? text : server::shell_quoted(text);
}

// The commands of a text with `model` in place of theirs, and where they name none.
std::string with_model(const std::string& commands, const std::string& model) {
  static const std::regex given(R"((--model(?:-path)?[ =])("[^"]*"|'[^']*'|[^\s]+))");
  static const std::regex lacking(
      R"((quern (?:serve|check|generate|chat|inspect|bench (?:latency|perplexity|throughput))|)"
      R"(sglang\.launch_server))");
  std::string word;  // for the replacement, in which $ is special
  for (const char c : shell_word(model)) word += c == '$' ? "$$" : std::string(1, c);
  if (std::regex_search(commands, given)) {
    return std::regex_replace(commands, given, "$1" + word);
  }
  return std::regex_replace(commands, lacking, "$1 --model " + word);
}

std::string fix_of(const Entry& entry, const std::string& model) {
  const std::string fix = entry.text("exampleFix");
  return model.empty() ? fix : with_model(fix, model);
}

// Which backends take the model on this machine, for the errors that tell of backends.
std::string fitting_backends(const Entry& entry, const Options& options) {
  if (options.engine.model_path.empty()) return "";
  if (entry.area != "attention" && entry.area != "sglang") return "";
  try {
    engine::CheckOptions asked;
    asked.engine.model_path = options.engine.model_path;
    asked.hardware = options.hardware;
    const engine::CheckReport report = engine::check(asked);
    std::string names;
    for (const engine::CheckVerdict& verdict : report.verdicts) {
      if (!verdict.refusals.empty()) continue;
      names += (names.empty() ? "" : ", ") + verdict.backend;
    }
    return names.empty() ? "none" : names;
  } catch (const Error& error) {
    return std::string("not known: ") + error.what();
  }
}

void print_entry(const Entry& entry, const Options& options) {
  const Json& record = entry.record;
  print_lines(entry.message(), "");
  std::string facts = entry.text("severity") + " · " + entry.text("errorClass");
  if (record["httpStatus"].is_number()) {
    facts += fmt::format(" · HTTP {}", record["httpStatus"].get<int>());
  }
  fmt::print("{} · {} · {}\n", facts, entry.id, entry.slug);
  print_section("What it means", entry.text("documentation"));
  print_section("When it happens", entry.text("triggerScenarios"));
  print_section("How people get there", entry.text("commonSituations"));
  print_list("How to fix it", record["solutions"]);
  print_code("Example fix", fix_of(entry, options.engine.model_path));
  const std::string fitting = fitting_backends(entry, options);
  if (!fitting.empty()) {
    print_section("Attention backends that take this model", fitting);
  }
  print_code("Find it before it happens", entry.text("validationCode"));
  print_list("Prevention", record["preventionTips"]);
  if (!entry.related.empty()) {
    fmt::print("\nRelated\n");
    for (const std::string& id : entry.related) {
      if (const Entry* other = catalog::find(id)) {
        print_wrapped(other->message(), "  " + id + "  ");
      }
    }
  }
}

void print_rows(const std::vector<const Entry*>& found) {
  for (const Entry* entry : found) fmt::print("{}  {}\n", entry->id, entry->message());
}

int list(const Options& options) {
  const std::vector<const Entry*> found = catalog::search({options.search, ""});
  if (found.empty()) {
    throw Error(errors::kNoEntryMatches,
                {{"text", options.search}, {"hint", "quern explain --list shows every entry"}});
  }
  if (options.json) {
    print_json(server::catalog_list(found, 1, found.size()));
  } else {
    print_rows(found);
  }
  return 0;
}

}  // namespace

int explain_command(const Options& options) {
  if (options.explain_list || !options.search.empty()) return list(options);
  const std::string text = options.explain_text == "-" ? read_input() : options.explain_text;
  const std::vector<const Entry*> found = entries_for(text);
  const size_t shown = std::min(found.size(), kOthers + 1);
  const std::vector<const Entry*> others(found.begin() + 1, found.begin() + shown);
  if (options.json) {
    Json answer = catalog::document(*found[0]);
    answer["record"]["exampleFix"] = fix_of(*found[0], options.engine.model_path);
    answer["alsoMatches"] = Json::array();
    for (const Entry* other : others) answer["alsoMatches"].push_back(other->id);
    print_json(answer);
    return 0;
  }
  print_entry(*found[0], options);
  if (!others.empty()) {
    fmt::print("\nThe text matches these too\n");
    for (const Entry* other : others) print_wrapped(other->message(), "  " + other->id + "  ");
  }
  return 0;
}

}  // namespace quern::cli
