#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/error.h"
#include "base/errors/base.h"
#include "base/errors/checkpoint.h"

namespace quern::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data_bytes, '\0');
}

SafetensorsHeader parse(const std::string& bytes) {
  return parse_safetensors(std::as_bytes(std::span(bytes)), "f");
}

ErrorId refusal(const std::string& bytes) {
  try {
    parse(bytes);
  } catch (const Error& error) {
    return error.id();
  }
  ADD_FAILURE() << "not refused: " << bytes.substr(8, 200);
  return errors::kInternalError;
}

std::string entry(const std::string& shape, const std::string& offsets,
                  const std::string& dtype = "\"F32\"") {
  return R"({"dtype": )" + dtype + R"(, "shape": )" + shape + R"(, "data_offsets": )" + offsets +
         "}";
}

std::string one(const std::string& shape, const std::string& offsets,
                const std::string& dtype = "\"F32\"") {
  return "{\"x\": " + entry(shape, offsets, dtype) + "}";
}

TEST(Safetensors, ReadsTensorsByOffset) {
  const auto header = parse(file_of("{\"b\": " + entry("[2]", "[4,12]") +
                                        ", \"a\": " + entry("[2,1]", "[0,4]", "\"BF16\"") +
                                        R"(, "__metadata__": {"format": "pt"}})",
                                    12));
  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_THAT(header.tensors[0].shape, ElementsAre(2, 1));
  EXPECT_EQ(header.tensors[1].begin, 4u);
  const TensorInfo info = tensor_info(header.tensors[0], "f");
  EXPECT_EQ(info.dtype, DType::kBF16);
  EXPECT_EQ(info.bytes, 4);
}

// Forms that the reference reader takes, however odd.
TEST(Safetensors, TakesWhatTheFormatAllows) {
  EXPECT_EQ(parse(file_of("{}", 0)).tensors.size(), 0u);
  EXPECT_EQ(parse(file_of("{}   ", 0)).tensors.size(), 0u);
  EXPECT_EQ(parse(file_of(one("[]", "[0,4]"), 4)).tensors.size(), 1u);
  EXPECT_EQ(parse(file_of(one("[0]", "[0,0]"), 0)).tensors.size(), 1u);
  EXPECT_EQ(parse(file_of(one("[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4)).tensors[0].shape.size(), 9u);
  EXPECT_EQ(parse(file_of(one("[3]", "[0,24]", "\"I64\""), 24)).tensors.size(), 1u);
  EXPECT_EQ(parse(file_of(R"({"__metadata__": null, "x": )" + entry("[1]", "[0,4]") + "}", 4))
                .tensors.size(),
            1u);
  EXPECT_EQ(parse(file_of(R"({"x": {"other": [{"a": [1.5]}, "b"], "dtype": "F32", "shape": [1],
                              "data_offsets": [0, 4]}})",
                          4))
                .tensors.size(),
            1u);
}

TEST(Safetensors, RefusesBadRanges) {
  for (const auto& [shape, offsets] :
       {std::pair("[2]", "[8,0]"), std::pair("[2]", "[0,4]"), std::pair("[2]", "[0,1000000000000]"),
        std::pair("[2]", "[4,12]"), std::pair("[1]", "[0,8]")}) {
    EXPECT_EQ(refusal(file_of(one(shape, offsets), 8)), errors::kCheckpointSafetensorsRange)
        << offsets;
  }
  EXPECT_EQ(refusal(file_of(one("[3]", "[0,12]"), 8)), errors::kCheckpointTensorOutsideFile);
  EXPECT_EQ(refusal(file_of(one("[2]", "[0,8]"), 9)), errors::kCheckpointSafetensorsHeader);
  const std::string overlap =
      "{\"x\": " + entry("[2]", "[0,8]") + ", \"y\": " + entry("[2]", "[4,12]") + "}";
  EXPECT_EQ(refusal(file_of(overlap, 12)), errors::kCheckpointSafetensorsRange);
  const std::string gap =
      "{\"x\": " + entry("[2]", "[0,8]") + ", \"y\": " + entry("[2]", "[12,20]") + "}";
  EXPECT_EQ(refusal(file_of(gap, 20)), errors::kCheckpointSafetensorsRange);
}

TEST(Safetensors, RefusesBadFields) {
  for (const char* header :
       {"[1,2]",
        "",
        " {}",
        "\xEF\xBB\xBF{}",
        "null",
        "{",
        "{}x",
        "{\"x\": 1}",
        "{\"x\": null}",
        "{\"x\": []}",
        "{\"x\": {}}",
        R"({"x": {"dtype": "F32", "shape": [2]}})",
        R"({"x": {"shape": [2], "data_offsets": [0,8]}})",
        R"({"x": {"dtype": "F32", "data_offsets": [0,8]}})",
        R"({"x": {"dtype": "F32", "dtype": "F32", "shape": [2], "data_offsets": [0,8]}})",
        R"({"x": {"dtype": {"dtype": "F32"}, "shape": [2], "data_offsets": [0,8]}})",
        R"({"__metadata__": {"a": 1}})",
        R"({"__metadata__": {"a": {}}})",
        R"({"__metadata__": []})",
        "{\"x\": \"\xFF\"}"}) {
    EXPECT_EQ(refusal(file_of(header, 8)), errors::kCheckpointSafetensorsHeader) << header;
  }
  for (const char* offsets :
       {"[NaN,8]", "[-1,7]", "[-0,8]", "[0,8.0]", "[1.5,9.5]", "[0]", "[0,8,8]", "[]", "[[0,8]]",
        "8", "null", "[0,\"8\"]", "{}", "[0,18446744073709551616]"}) {
    EXPECT_EQ(refusal(file_of(one("[2]", offsets), 8)), errors::kCheckpointSafetensorsHeader)
        << offsets;
  }
  for (const char* shape : {"[-2]", "[2.0]", "2", "null", "[[2]]", "[true]"}) {
    EXPECT_EQ(refusal(file_of(one(shape, "[0,8]"), 8)), errors::kCheckpointSafetensorsHeader)
        << shape;
  }
  EXPECT_EQ(refusal(file_of("{}" + std::string(1, '\0') + "x", 0)),
            errors::kCheckpointSafetensorsHeader);
  EXPECT_EQ(refusal(file_of(one("[4294967296,4294967296]", "[0,8]"), 8)),
            errors::kCheckpointTensorShape);
  EXPECT_EQ(refusal(file_of(one("[0,18446744073709551615]", "[0,0]"), 0)),
            errors::kCheckpointTensorShape);
  EXPECT_EQ(refusal(file_of(one("[3]", "[0,2]", "\"F4\""), 2)), errors::kCheckpointTensorShape);
  EXPECT_EQ(refusal(file_of(one("[2]", "[0,8]", "\"F33\""), 8)), errors::kCheckpointTensorType);
  EXPECT_EQ(refusal(file_of(one("[2]", "[0,8]", "3"), 8)), errors::kCheckpointSafetensorsHeader);
}

TEST(Safetensors, RefusesNamesThatStandTwice) {
  const std::string twice =
      "{\"x\": " + entry("[2]", "[0,8]") + ", \"x\": " + entry("[2]", "[8,16]") + "}";
  EXPECT_EQ(refusal(file_of(twice, 16)), errors::kCheckpointTensorDuplicate);
  EXPECT_EQ(refusal(file_of(R"({"__metadata__": {}, "__metadata__": {}})", 0)),
            errors::kCheckpointTensorDuplicate);
}

TEST(Safetensors, RefusesDeepNestingWithoutRecursion) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "{\"a\":";
  EXPECT_EQ(refusal(file_of(deep, 0)), errors::kCheckpointSafetensorsHeader);
  EXPECT_EQ(refusal(file_of("{\"x\": {\"y\": " + std::string(100000, '['), 0)),
            errors::kCheckpointSafetensorsHeader);
}

TEST(Safetensors, RefusesEveryPrefix) {
  const std::string good = file_of(one("[2]", "[0,8]"), 8);
  parse(good);
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_THROW(parse(good.substr(0, size)), Error) << size;
  }
}

TEST(Safetensors, RefusesAbsurdHeaderLengths) {
  for (const std::uint64_t length :
       {std::uint64_t{1} << 63, std::uint64_t{1} << 40, UINT64_MAX, std::uint64_t{100'000'001}}) {
    std::string bytes(16, ' ');
    std::memcpy(bytes.data(), &length, 8);
    EXPECT_EQ(refusal(bytes), errors::kCheckpointSafetensorsHeader) << length;
  }
  std::string bytes(16, '\0');
  bytes[0] = 9;
  EXPECT_EQ(refusal(bytes), errors::kCheckpointTruncated);
}

TEST(Safetensors, RefusesTypesThatAreNotServedWhenAsked) {
  const auto header = parse(file_of(one("[1]", "[0,8]", "\"I64\""), 8));
  try {
    tensor_info(header.tensors[0], "f");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), errors::kCheckpointTensorType);
    EXPECT_THAT(error.what(), HasSubstr("tensor x in f: I64"));
  }
}

TEST(SafetensorsIndex, RefusesPathsAndOtherShapes) {
  const auto files =
      parse_safetensors_index(R"({"weight_map": {"a": "1", "b": "2", "c": "1"}})", "i");
  EXPECT_THAT(files.at("1"), ElementsAre("a", "c"));
  for (const char* text :
       {R"({"weight_map": {"a": "../x"}})", R"({"weight_map": {"a": "/etc/passwd"}})",
        R"({"weight_map": {"a": ".."}})", R"({"weight_map": {"a": ""}})",
        R"({"weight_map": {"a": "x\u0000y"}})", R"({"weight_map": {"a": 1}})",
        R"({"weight_map": {"a": "b\\c"}})", R"({"weight_map": []})", R"({"weight_map": {}})",
        "{}"}) {
    try {
      parse_safetensors_index(text, "i");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.id(), errors::kCheckpointIndexInvalid) << text;
    }
  }
}

}  // namespace
}  // namespace quern::checkpoint
