// GGUF models in several files, NAME-00001-of-00003.gguf and so on. Called by checkpoint.cpp.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/gguf.h"
#include "checkpoint/mapped_file.h"

namespace quern::checkpoint {

// The files of a model with their headers, which view into them. One entry for an undivided model.
struct GgufParts {
  std::vector<MappedFile> files;
  std::vector<GgufHeader> headers;
};

// Maps and parses `path` and, where its split.count says so, the parts that follow it.
// Throws: what parse_gguf() throws, kCheckpointFileUnreadable, kCheckpointShardMissing,
// kCheckpointShardMismatch.
GgufParts open_gguf_parts(const std::string& path);

// The first part's header with the tensors of all parts.
// Throws: kCheckpointTensorDuplicate for a name in two parts.
GgufHeader joined_header(const GgufParts& parts);

// Whether the name is that of a part after the first.
bool is_later_split(const std::string& path);

}  // namespace quern::checkpoint
