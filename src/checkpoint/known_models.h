// Public models whose shape is built in, so that a question about one of them needs no file. The
// facts are the published config.json's; src/checkpoint/known holds them. Called by model_name.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quern::checkpoint {

struct KnownModel {
  const char* name;    // DeepSeek-V3
  const char* hub;     // names on the hub, the model's own first, one a line
  const char* config;  // JSON

  std::vector<std::string> hub_names() const;
};

// The model of that short or hub name, whatever the case of its letters; nullptr where there is
// none.
const KnownModel* find_known_model(std::string_view name);

// Every short name, in order of the alphabet.
std::vector<std::string> known_model_names();

// At most `count` known short names that look most like `name`, the nearest first; empty where
// none is near.
std::vector<std::string> nearest_known_models(std::string_view name, std::size_t count);

}  // namespace quern::checkpoint
