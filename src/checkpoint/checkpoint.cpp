// Finds out what a path is, and puts the readers of this folder together.
#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/errors/checkpoint.h"
#include "checkpoint/config.h"
#include "checkpoint/gguf.h"
#include "checkpoint/gguf_config.h"
#include "checkpoint/gguf_split.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/known_models.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/model_name.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/weights.h"

namespace quern::checkpoint {
namespace {

namespace fs = std::filesystem;

struct Location {
  Format format;
  std::string file;    // the GGUF file (first part of a split), or config.json
  std::string folder;  // of config.json
};

[[noreturn]] void not_found(const std::string& path, std::string reason) {
  throw Error(errors::kModelNotFound, {{"path", path}, {"reason", reason}});
}

std::string folder_of(const std::string& file) {
  const fs::path parent = fs::path(file).parent_path();
  return parent.empty() ? "." : parent.string();
}

std::vector<std::string> gguf_files(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code fault;
  for (fs::directory_iterator it(folder, fault), end; !fault && it != end; it.increment(fault)) {
    if (it->path().extension() == ".gguf") files.push_back(it->path().string());
  }
  std::ranges::sort(files);
  return files;
}

Location locate_in_folder(const std::string& folder) {
  const std::string config = folder + "/config.json";
  if (is_file(config)) return {Format::kHuggingFace, config, folder};
  std::vector<std::string> files = gguf_files(folder);
  std::erase_if(files, [](const std::string& file) { return is_later_split(file); });
  if (files.size() == 1) return {Format::kGguf, files.front(), folder};
  not_found(folder, files.empty()
                        ? "the folder has neither config.json nor a .gguf file"
                        : fmt::format("the folder has {} GGUF models; name one of them, for "
                                      "example {}",
                                      files.size(), files.front()));
}

bool begins_with_gguf(const std::string& file) {
  std::array<char, 4> magic{};
  std::ifstream(file, std::ios::binary).read(magic.data(), magic.size());
  return std::memcmp(magic.data(), "GGUF", 4) == 0;
}

Location locate(const std::string& path) {
  std::error_code fault;
  const fs::file_status status = fs::status(path, fault);
  if (!fs::exists(status)) not_found(path, "there is no such file or folder");  // it went away
  if (fs::is_directory(status)) return locate_in_folder(path);
  const std::string extension = fs::path(path).extension().string();
  if (extension == ".gguf") return {Format::kGguf, path, ""};
  if (extension == ".json") return {Format::kHuggingFace, path, folder_of(path)};
  if (extension == ".safetensors") {
    not_found(path, "weights alone are not a model; give the folder with its config.json");
  }
  if (is_file(path) && begins_with_gguf(path)) return {Format::kGguf, path, ""};
  not_found(path, "it is neither a GGUF file nor a config.json");
}

void read_gguf(const Location& location, Metadata& metadata) {
  const GgufParts parts = open_gguf_parts(location.file);
  for (const MappedFile& file : parts.files) {
    metadata.weight_bytes += static_cast<std::int64_t>(file.bytes().size());
  }
  const GgufHeader header = joined_header(parts);
  metadata.config = gguf_config(header);
  metadata.tokenizer = gguf_tokenizer(header, metadata.config);
  metadata.generation = gguf_generation(header);
}

bool has_safetensors(const std::string& folder) {
  return is_file(folder + "/model.safetensors") ||
         is_file(folder + "/model.safetensors.index.json");
}

// Of the files that belong to the model. Some repositories hold the weights a second time under
// other names.
std::int64_t safetensors_bytes(const std::string& folder) {
  std::int64_t bytes = 0;
  std::error_code fault;
  if (!has_safetensors(folder)) return 0;
  const bool sharded = is_file(folder + "/model.safetensors.index.json");
  for (fs::directory_iterator it(folder, fault), end; !fault && it != end; it.increment(fault)) {
    const std::string name = it->path().filename().string();
    if (it->path().extension() != ".safetensors") continue;
    const bool counts = sharded ? name.starts_with("model-") : name == "model.safetensors";
    std::error_code unreadable;
    const auto size = fs::file_size(it->path(), unreadable);
    if (counts && !unreadable) bytes += static_cast<std::int64_t>(size);
  }
  return bytes;
}

void read_hugging_face(const Location& location, Metadata& metadata) {
  metadata.config = parse_config(read_text_file(location.file), location.file);
  const std::string generation = location.folder + "/generation_config.json";
  if (is_file(generation)) {
    metadata.generation =
        parse_generation_config(read_text_file(generation), generation, metadata.config);
  }
  metadata.tokenizer = read_tokenizer_files(location.folder, metadata.config);
  metadata.weight_bytes = safetensors_bytes(location.folder);
}

void read_built_in(const KnownModel& known, Metadata& metadata) {
  metadata.format = Format::kHuggingFace;
  metadata.config = parse_config(known.config, fmt::format("built-in {}/config.json", known.name));
  metadata.config.name = known.name;
}

std::string name_of_path(const std::string& path) {
  std::error_code fault;
  const fs::path absolute = fs::weakly_canonical(path, fault);
  return valid_utf8((fault ? fs::path(path) : absolute).filename().string());
}

std::unique_ptr<Weights> open_gguf_weights(const std::string& file) {
  GgufParts parts = open_gguf_parts(file);
  auto weights = std::make_unique<MappedWeights>(file);
  for (std::size_t i = 0; i < parts.files.size(); ++i) {
    auto placed = place_tensors(parts.headers[i], parts.files[i].bytes().size());
    weights->add_file(std::move(parts.files[i]));
    for (PlacedTensor& tensor : placed) weights->add(std::move(tensor.info), tensor.begin);
  }
  return weights;
}

// Adds the tensors of one safetensors file. Of types that no model computes with (counters, masks)
// the ranges are checked but the tensors left out.
std::vector<std::string> add_safetensors(const std::string& path, MappedWeights& weights) {
  MappedFile file(path);
  const SafetensorsHeader header = parse_safetensors(file.bytes(), path);
  weights.add_file(std::move(file));
  std::vector<std::string> names;
  for (const SafetensorsTensor& tensor : header.tensors) {
    names.push_back(tensor.name);
    const bool served = tensor.dtype == "F32" || tensor.dtype == "F16" || tensor.dtype == "BF16" ||
                        tensor.dtype == "F8_E4M3";
    if (!served && !tensor.name.ends_with(".weight") && !tensor.name.ends_with(".bias")) continue;
    weights.add(tensor_info(tensor, path), header.data_begin + tensor.begin);
  }
  return names;
}

void check_listed(std::vector<std::string> held, const std::vector<std::string>& listed,
                  const std::string& file, const std::string& index) {
  std::ranges::sort(held);
  for (const std::string& tensor : listed) {
    if (std::ranges::binary_search(held, tensor)) continue;
    throw Error(errors::kCheckpointTensorMissing,
                {{"tensor", valid_utf8(tensor.substr(0, 80))},
                 {"file", file},
                 {"reason", fmt::format("{} places it there", index)}});
  }
}

std::unique_ptr<MappedWeights> map_hugging_face(const std::string& folder) {
  const std::string single = folder + "/model.safetensors";
  const std::string index = single + ".index.json";
  auto weights = std::make_unique<MappedWeights>(folder);
  if (is_file(index)) {
    for (const auto& [name, tensors] : parse_safetensors_index(read_text_file(index), index)) {
      const std::string file = folder + "/" + name;
      if (!is_file(file)) {
        throw Error(errors::kCheckpointShardMissing,
                    {{"file", file},
                     {"reason", fmt::format("{} places {} tensors there", index, tensors.size())}});
      }
      check_listed(add_safetensors(file, *weights), tensors, file, index);
    }
    return weights;
  }
  add_safetensors(single, *weights);
  return weights;
}

}  // namespace

Metadata read_metadata(const std::string& path) {
  ModelPlace place = place_of_model(path);
  Metadata metadata;
  metadata.path = path;
  metadata.place = place.path;
  if (place.known != nullptr) {
    metadata.looked_in = std::move(place.looked_in);
    read_built_in(*place.known, metadata);
    return metadata;
  }
  const Location location = locate(place.path);
  metadata.format = location.format;
  if (location.format == Format::kGguf) {
    read_gguf(location, metadata);
  } else {
    read_hugging_face(location, metadata);
  }
  if (metadata.config.name.empty()) {
    metadata.config.name = name_of_path(location.format == Format::kGguf ? location.file
                                        : place.path != path             ? path
                                                                         : location.folder);
  }
  return metadata;
}

void require_weights(const Metadata& metadata) {
  std::string reason, hint;
  if (metadata.place.empty()) {
    reason = "only its shape is built in";
    for (const std::string& folder : metadata.looked_in) hint += "not in " + folder + "\n";
    hint += "name a folder or a .gguf file with --model";
  } else {
    const Location location = locate(metadata.place);
    if (location.format == Format::kGguf || has_safetensors(location.folder)) return;
    reason = fmt::format("{} has neither model.safetensors nor model.safetensors.index.json",
                         location.folder);
    hint = fmt::format("{} is there, so `quern check` can answer about it", location.file);
  }
  throw Error(errors::kModelWeightsMissing,
              {{"model", metadata.path}, {"reason", reason}, {"param", "--model"}, {"hint", hint}});
}

std::unique_ptr<Weights> open_weights(const Metadata& metadata) {
  require_weights(metadata);
  const Location location = locate(metadata.place);
  if (location.format == Format::kGguf) return open_gguf_weights(location.file);
  auto weights = map_hugging_face(location.folder);
  weights->attach_scales(metadata.config.quantization, location.file);
  return weights;
}

}  // namespace quern::checkpoint
