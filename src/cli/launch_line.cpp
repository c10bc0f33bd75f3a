#include "cli/launch_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

namespace quern::cli {
namespace {

std::string_view file_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool has_space(std::string_view text) { return std::ranges::any_of(text, is_space); }

bool is_assignment(std::string_view word) {
  const std::size_t equal = word.find('=');
  if (equal == word.npos || equal == 0) return false;
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  const std::string_view name = word.substr(0, equal);
  return std::ranges::all_of(name, letter) && (name[0] < '0' || name[0] > '9');
}

// The number of words of a launcher that ends before `at`; 0 where none does.
std::size_t launcher_ending(const std::vector<std::string>& words, std::size_t at) {
  const std::string_view last = words[at];
  const std::string_view before = at > 0 ? std::string_view(words[at - 1]) : std::string_view();
  if (last == "sglang.launch_server" && before == "-m") return 2;
  if (file_of(last) == "launch_server.py") return 1;
  if (last == "serve" && file_of(before) == "sglang") return 2;
  return 0;
}

bool names_launcher(std::string_view text) {
  return text.find("sglang.launch_server") != text.npos ||
         text.find("launch_server.py") != text.npos || text.find("sglang serve") != text.npos;
}

// Where the line begins that holds the launcher: after `--`, else at the first word that is no flag
// of quern's own.
std::size_t begin_of_line(const std::vector<std::string>& words, std::size_t launcher) {
  const auto end = words.begin() + static_cast<std::ptrdiff_t>(launcher);
  if (const auto it = std::find(words.begin(), end, "--"); it != end) {
    return static_cast<std::size_t>(it - words.begin());
  }
  const auto starts = [](const std::string& word) {
    return is_assignment(word) || file_of(word).starts_with("python") || word == "env" ||
           file_of(word) == "sglang";
  };
  return static_cast<std::size_t>(std::find_if(words.begin(), end, starts) - words.begin());
}

// A text that holds a whole line counts as its words.
std::vector<std::string> opened(const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  for (const std::string& argument : arguments) {
    if (has_space(argument) && names_launcher(argument)) {
      for (std::string& word : shell_words(argument)) words.push_back(std::move(word));
    } else if (!std::ranges::all_of(argument, [](char c) { return is_space(c) || c == '\\'; }) ||
               argument.empty()) {
      words.push_back(argument);  // lone backslashes are continuations that were quoted
    }
  }
  return words;
}

void note_environment(std::span<const std::string> skipped, std::vector<std::string>& notes) {
  for (const std::string& word : skipped) {
    if (!is_assignment(word)) continue;
    const std::string name = word.substr(0, word.find('='));
    notes.push_back(fmt::format("{} is ignored: {}", name,
                                name == "CUDA_VISIBLE_DEVICES"
                                    ? "set it before quern, so that quern's probe sees it"
                                    : "quern reads none of SGLang's variables"));
  }
}

}  // namespace

std::vector<std::string> shell_words(std::string_view text) {
  constexpr std::array<std::string_view, 9> kEnds = {"|", "||", "&",  "&&",  ";",
                                                     ">", ">>", "2>", "2>&1"};
  std::vector<std::string> words;
  std::string word;
  bool inside = false;  // of a word
  char quote = 0;
  const auto finish = [&] {
    if (inside) words.push_back(std::move(word));
    word.clear();
    inside = false;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool escapes = c == '\\' && quote != '\'' && i + 1 < text.size();
    if (escapes && (text[i + 1] == '\n' || text[i + 1] == '\r')) {
      ++i;
      if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') ++i;
    } else if (escapes && (quote == 0 || text[i + 1] == '"' || text[i + 1] == '\\')) {
      word += text[++i];
      inside = true;
    } else if (quote != 0) {
      if (c == quote)
        quote = 0;
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      inside = true;
    } else if (is_space(c)) {
      finish();
    } else {
      word += c;
      inside = true;
    }
  }
  finish();
  const auto end = std::ranges::find_if(words, [&](const std::string& found) {
    return std::ranges::find(kEnds, found) != kEnds.end();
  });
  words.erase(end, words.end());
  return words;
}

LaunchLine strip_launcher(const std::vector<std::string>& arguments) {
  LaunchLine line;
  const std::vector<std::string> words = opened(arguments);
  for (std::size_t i = 0; i < words.size() && !line.found; ++i) {
    const std::size_t length = launcher_ending(words, i);
    if (length == 0) continue;
    line.found = true;
    const std::size_t begin = begin_of_line(words, i + 1 - length);
    note_environment(std::span(words).subspan(begin, i - begin), line.notes);
    line.arguments.assign(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(begin));
    line.arguments.insert(line.arguments.end(), words.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                          words.end());
  }
  if (!line.found) line.arguments = arguments;
  return line;
}

}  // namespace quern::cli
