#include "checkpoint/gguf_split.h"

#include <charconv>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/errors/checkpoint.h"

namespace quern::checkpoint {
namespace {

constexpr std::int64_t kMaxParts = 65535;  // split.count is 16 bits wide

struct SplitName {
  std::string stem;  // before -00001-of-00003.gguf
  std::int64_t number = 0, count = 0;
};

std::optional<SplitName> parse_split_name(const std::string& path) {
  constexpr std::string_view kPattern = "-00001-of-00003.gguf";
  if (path.size() <= kPattern.size()) return std::nullopt;
  const std::string_view tail = std::string_view(path).substr(path.size() - kPattern.size());
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf") {
    return std::nullopt;
  }
  SplitName name{path.substr(0, path.size() - kPattern.size())};
  const auto digits = [&](std::size_t at, std::int64_t& number) {
    const std::string_view word = tail.substr(at, 5);
    if (word.find_first_not_of("0123456789") != word.npos) return false;
    std::from_chars(word.data(), word.data() + word.size(), number);
    return true;
  };
  if (!digits(1, name.number) || !digits(10, name.count)) return std::nullopt;
  return name;
}

std::string part_path(const SplitName& name, std::int64_t number) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", name.stem, number, name.count);
}

void expect(const GgufHeader& header, std::string_view key, std::int64_t expected) {
  const GgufValue* value = header.find(key);
  if (value != nullptr && value->integer() == expected) return;
  throw Error(errors::kCheckpointShardMismatch,
              {{"file", header.file},
               {"field", key},
               {"value", value == nullptr ? "absent" : value->excerpt()},
               {"expected", expected}});
}

std::int64_t split_count(const GgufHeader& header) {
  const GgufValue* value = header.find("split.count");
  if (value == nullptr) return 1;
  const auto count = value->integer();
  if (!count || *count < 0 || *count > kMaxParts) {
    throw Error(errors::kCheckpointShardMismatch,
                {{"file", header.file},
                 {"field", "split.count"},
                 {"value", value->excerpt()},
                 {"expected", fmt::format("an integer from 0 to {}", kMaxParts)}});
  }
  return *count;
}

void add_part(GgufParts& parts, const std::string& path) {
  MappedFile file(path);
  parts.headers.push_back(parse_gguf(file.bytes(), path));
  parts.files.push_back(std::move(file));
}

SplitName checked_name(const GgufHeader& header, std::int64_t count) {
  const auto mismatch = [&](std::string_view field, std::string value, std::string expected) {
    return Error(
        errors::kCheckpointShardMismatch,
        {{"file", header.file}, {"field", field}, {"value", value}, {"expected", expected}});
  };
  const auto name = parse_split_name(header.file);
  if (!name) {
    throw mismatch("the file name", header.file,
                   fmt::format("…-00001-of-{:05}.gguf, as split.count is {}", count, count));
  }
  if (name->count != count) {
    throw mismatch("split.count", fmt::to_string(count),
                   fmt::format("{}, as the file name says", name->count));
  }
  if (name->number != 1) {
    throw mismatch("the part", fmt::to_string(name->number),
                   fmt::format("the first one, {}", part_path(*name, 1)));
  }
  return *name;
}

}  // namespace

GgufParts open_gguf_parts(const std::string& path) {
  GgufParts parts;
  add_part(parts, path);
  const std::int64_t count = split_count(parts.headers.front());
  if (count <= 1) return parts;
  const SplitName name = checked_name(parts.headers.front(), count);
  expect(parts.headers.front(), "split.no", 0);
  for (std::int64_t number = 2; number <= count; ++number) {
    const std::string part = part_path(name, number);
    if (!is_file(part)) {
      throw Error(
          errors::kCheckpointShardMissing,
          {{"file", part}, {"reason", fmt::format("split.count of {} is {}", path, count)}});
    }
    add_part(parts, part);
    expect(parts.headers.back(), "split.no", number - 1);
    expect(parts.headers.back(), "split.count", count);
  }
  std::int64_t tensors = 0;
  for (const GgufHeader& header : parts.headers) {
    tensors += static_cast<std::int64_t>(header.tensors.size());
  }
  expect(parts.headers.front(), "split.tensors.count", tensors);
  return parts;
}

GgufHeader joined_header(const GgufParts& parts) {
  GgufHeader joined = parts.headers.front();
  std::unordered_map<std::string_view, const std::string*> files;
  for (const GgufTensor& tensor : joined.tensors) files.emplace(tensor.name, &joined.file);
  for (std::size_t i = 1; i < parts.headers.size(); ++i) {
    for (const GgufTensor& tensor : parts.headers[i].tensors) {
      const auto [other, fresh] = files.try_emplace(tensor.name, &parts.headers[i].file);
      if (!fresh) {
        throw Error(errors::kCheckpointTensorDuplicate,
                    {{"tensor", valid_utf8(tensor.name.substr(0, 80))},
                     {"file", *other->second},
                     {"other", parts.headers[i].file}});
      }
      joined.tensors.push_back(tensor);
    }
  }
  return joined;
}

bool is_later_split(const std::string& path) {
  const auto name = parse_split_name(path);
  return name && name->number > 1;
}

}  // namespace quern::checkpoint
