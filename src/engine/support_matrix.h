// The table of attention backends in words, for `quern backends` and docs/backends.md.
#pragma once

#include <string>
#include <vector>

namespace quern::engine {

// One backend's contract; "?" is what nobody has established.
struct SupportRow {
  std::string name;
  std::string serves;       // MHA, MLA
  std::string cross;        // cross attention
  std::string speculative;  // none, one branch, tree
  std::string pages, kv_types, head_dims;
  std::string window, sinks, soft_cap, deterministic;
  std::string machine;
  std::string build;  // what of it runs in this build
  std::string here;   // on the asked-for machine: yes, or why not; "" where none was asked for
  std::string note;
};

// `hardware`: a named machine, or "". Throws: kInvalidFlagValue.
std::vector<SupportRow> support_matrix(const std::string& hardware);

}  // namespace quern::engine
