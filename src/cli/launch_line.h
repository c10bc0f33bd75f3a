// A whole command line of SGLang, as pasted from a script: finds the flags behind
// `python -m sglang.launch_server` or `sglang serve`. Called by options.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quern::cli {

struct LaunchLine {
  std::vector<std::string> arguments;  // what stood before the line, then its flags
  std::vector<std::string> notes;      // on what was not looked at
  bool found = false;                  // a launcher was there
};

// `arguments` without the command word. A launcher may stand after `--` or right away, as words or
// as one quoted text with line continuations. Without one all are returned as they are.
LaunchLine strip_launcher(const std::vector<std::string>& arguments);

// Words as a shell splits them: quotes, backslashes, continued lines. Redirections, pipes and what
// follows them are left out.
std::vector<std::string> shell_words(std::string_view text);

}  // namespace quern::cli
