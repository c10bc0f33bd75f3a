// What a model class takes for granted where its config.json leaves a field out.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace quern::checkpoint {

// The defaults of a model_type; an empty object for one that has none of its own.
nlohmann::json class_defaults(std::string_view model_type);

// The class that a model_type names where config.json lists no architectures; else model_type.
std::string_view default_architecture(std::string_view model_type);

// Whether models of the class are always of latent attention.
bool is_latent_class(std::string_view architecture);

// Whether the class tells positions by other means than rotation (learned, relative, sinusoidal).
bool has_no_rope(std::string_view model_type);

}  // namespace quern::checkpoint
