// Opens a model on disk: a GGUF file (single or split) or a Hugging Face folder. Two steps, so that
// everything that can be refused is refused before a weight is read: read_metadata() takes the
// facts, open_weights() maps the tensors and checks every one of them against the file's size.
// Everything outside is untrusted: each count, offset and length is checked before it is used.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/model_config.h"
#include "core/tensor.h"

namespace quern::checkpoint {

enum class Format { kGguf, kHuggingFace };

// A token that tokenizer_config.json adds (added_tokens_decoder).
struct AddedTokenSource {
  std::int64_t id = -1;
  std::string content;
  bool special = false, lstrip = false, rstrip = false, single_word = false, normalized = false;
};

// The tokenizer as it is stored; text/ makes a Tokenizer of it.
struct TokenizerSource {
  // From GGUF metadata (tokenizer.ggml.*); empty `model` where the file has none.
  std::string model;                      // "gpt2", "llama", "bert", "t5", "gemma4"
  std::string pre;                        // "smollm", "gpt-2"
  std::vector<std::string> tokens;        // by id
  std::vector<std::int32_t> token_types;  // 1 normal, 2 unknown, 3 control, 4 user defined, 6 byte
  std::vector<std::string> merges;        // "left right"
  std::vector<double> scores;             // by id
  std::string charsmap;                   // SentencePiece's precompiled charsmap
  bool add_space_prefix = true, remove_extra_whitespaces = false;
  std::int32_t unknown_token_id = -1, separator_token_id = -1;
  // From a folder: the text of tokenizer.json, "" where there is none.
  std::string tokenizer_json;
  // Else the bytes of tokenizer.model, tekken.json or a .tiktoken file; text/ tells which by them.
  std::string model_file;
  std::vector<AddedTokenSource> added_tokens;  // of tokenizer_config.json
  // From either.
  std::string chat_template;  // the one named "default", or the first; "" where there is none
  std::vector<std::pair<std::string, std::string>> named_chat_templates;  // the others, by name
  bool add_bos = false, add_eos = false;
  std::int32_t bos_token_id = -1, eos_token_id = -1;
  std::optional<std::string> bos_token, eos_token;  // their texts, for the chat template
  std::string origin;                               // file, for messages
};

// generation_config.json, or what a GGUF says of it. Unset fields are left to the engine.
struct GenerationDefaults {
  std::optional<double> temperature, top_p, min_p;
  std::optional<std::int64_t> top_k;
};

struct Metadata {
  Format format = Format::kGguf;
  std::string path;   // as given
  std::string place;  // the file or folder that it stands for; "" for a built-in model
  std::vector<std::string> looked_in;  // for a built-in model: folders that do not hold it
  std::int64_t weight_bytes = 0;       // of the tensors that are stored; 0: not known, or none
  ModelConfig config;
  GenerationDefaults generation;
  TokenizerSource tokenizer;
};

// The tensors of an open checkpoint. Views stay valid as long as this object. Any thread.
class Weights {
 public:
  virtual ~Weights() = default;
  virtual const std::vector<TensorInfo>& tensors() const = 0;
  // The tensor of that name, or nullopt. Cost: O(1).
  virtual std::optional<TensorView> find(std::string_view name) const = 0;
  // Tells the system that the pages of this tensor are not needed again (they were packed).
  virtual void release(const TensorView& tensor) const = 0;
  // Where `name` is or would be stored, for messages.
  virtual std::string origin() const = 0;
};

// Reads config.json (+ generation_config.json, tokenizer files) or the GGUF header. `path` is a
// .gguf file, the first file of a split GGUF, a config.json, a folder with either inside, the name
// of a model in the Hugging Face cache, or of one whose shape is built in (known_models.h).
// Throws: the kCheckpoint… and kConfig… ids of catalog/entries/checkpoint.
Metadata read_metadata(const std::string& path);

// Returns where there are weights to open. Cheap; opens none of them.
// Throws: kModelWeightsMissing, with the places where they were looked for.
void require_weights(const Metadata& metadata);

// Maps the weights and checks every tensor's place and size. Does not touch the data.
// Throws: the kCheckpoint… ids, kModelWeightsMissing.
std::unique_ptr<Weights> open_weights(const Metadata& metadata);

}  // namespace quern::checkpoint
