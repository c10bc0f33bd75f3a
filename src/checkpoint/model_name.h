// From what stands after --model to a place: a path, a model in the Hugging Face cache, or one that
// is built in. Nothing is fetched. Called by checkpoint.cpp.
#pragma once

#include <string>
#include <vector>

namespace quern::checkpoint {

struct KnownModel;

struct ModelPlace {
  std::string path;                    // of a file or folder that is there; "" for a built-in model
  const KnownModel* known = nullptr;   // where path is ""
  std::vector<std::string> looked_in;  // folders without the model, in order
};

// An existing path comes first, then the cache, then the built-in models.
// Throws: kModelNotFound with the places and the nearest names.
ModelPlace place_of_model(const std::string& name);

// Where huggingface_hub keeps models: the folders that its environment variables name, or its
// default, each once.
std::vector<std::string> hugging_face_caches();

}  // namespace quern::checkpoint
