#include "checkpoint/model_name.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/error.h"
#include "base/errors/checkpoint.h"
#include "checkpoint/known_models.h"
#include "checkpoint/mapped_file.h"

namespace quern::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxRevision = 100;  // bytes of a commit's name

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// A folder that a variable names; "~" is the home, as huggingface_hub takes it.
std::string folder_variable(const char* name) {
  const std::string folder = variable(name);
  const bool in_home = folder == "~" || folder.starts_with("~/");
  return in_home ? variable("HOME") + folder.substr(1) : folder;
}

bool is_name_part(std::string_view part) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !part.empty() && part.size() <= 200 && part[0] != '.' &&
         std::ranges::all_of(part, allowed);
}

// "owner/name", which is what the cache's folders are named after.
bool is_hub_name(std::string_view name) {
  const std::size_t slash = name.find('/');
  return slash != name.npos && is_name_part(name.substr(0, slash)) &&
         is_name_part(name.substr(slash + 1));
}

// The commit that refs/main names; "" where there is no such file.
std::string main_revision(const fs::path& model) {
  std::ifstream file(model / "refs" / "main");
  std::string revision;
  file >> revision;
  return revision.size() <= kMaxRevision && is_name_part(revision) ? revision : "";
}

bool holds_model(const fs::path& folder) {
  if (is_file((folder / "config.json").string())) return true;
  std::error_code fault;
  for (fs::directory_iterator it(folder, fault), end; !fault && it != end; it.increment(fault)) {
    if (it->path().extension() == ".gguf") return true;
  }
  return false;
}

// The folder of a snapshot that holds a config.json or a GGUF file: the one of refs/main, else the
// only one.
std::string snapshot_of(const fs::path& model) {
  std::error_code fault;
  std::vector<fs::path> snapshots;
  if (const std::string revision = main_revision(model); !revision.empty()) {
    snapshots.push_back(model / "snapshots" / revision);
  } else {
    for (fs::directory_iterator it(model / "snapshots", fault), end; !fault && it != end;
         it.increment(fault)) {
      snapshots.push_back(it->path());
    }
  }
  if (snapshots.size() != 1 || !holds_model(snapshots.front())) return "";
  return snapshots.front().string();
}

std::string cache_folder_of(std::string hub_name) {
  hub_name.replace(hub_name.find('/'), 1, "--");
  return "models--" + hub_name;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

[[noreturn]] void refuse(const std::string& name, const std::vector<std::string>& looked_in) {
  std::string hint;
  const std::vector<std::string> near = nearest_known_models(name, 3);
  if (!near.empty()) hint += "known models of a similar name: " + joined(near) + "\n";
  for (const std::string& folder : looked_in) hint += "not in " + folder + "\n";
  if (is_hub_name(name)) hint += fmt::format("`hf download {}` puts it into the cache\n", name);
  hint += fmt::format("{} public models are known by name without their files, for example {}",
                      known_model_names().size(), "DeepSeek-V3");
  throw Error(errors::kModelNotFound,
              {{"path", name},
               {"reason", "there is no such file or folder, and no known model has that name"},
               {"hint", hint}});
}

}  // namespace

std::vector<std::string> hugging_face_caches() {
  std::vector<std::string> folders;
  const auto add = [&](const std::string& base, const char* inside) {
    if (base.empty()) return;
    const std::string folder = base + inside;
    if (std::ranges::find(folders, folder) == folders.end()) folders.push_back(folder);
  };
  add(folder_variable("HF_HUB_CACHE"), "");
  add(folder_variable("HUGGINGFACE_HUB_CACHE"), "");
  add(folder_variable("HF_HOME"), "/hub");
  add(folder_variable("XDG_CACHE_HOME"), "/huggingface/hub");
  add(variable("HOME"), "/.cache/huggingface/hub");
  return folders;
}

ModelPlace place_of_model(const std::string& name) {
  std::error_code fault;
  ModelPlace place;
  if (fs::exists(fs::status(name, fault))) {
    place.path = name;
    return place;
  }
  const KnownModel* known = find_known_model(name);
  std::vector<std::string> hub_names;
  if (is_hub_name(name)) hub_names.push_back(name);
  if (known != nullptr && name.find('/') == name.npos) {
    for (std::string& hub : known->hub_names()) {
      if (is_hub_name(hub)) hub_names.push_back(std::move(hub));
    }
  }
  for (const std::string& cache : hugging_face_caches()) {
    for (const std::string& hub : hub_names) {
      const std::string folder = cache + "/" + cache_folder_of(hub);
      if (std::string snapshot = snapshot_of(folder); !snapshot.empty()) {
        place.path = std::move(snapshot);
        return place;
      }
      place.looked_in.push_back(folder);
    }
  }
  if (known == nullptr) refuse(name, place.looked_in);
  place.known = known;
  return place;
}

}  // namespace quern::checkpoint
