#include "checkpoint/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/errors/base.h"
#include "base/errors/checkpoint.h"
#include "checkpoint/gguf_config.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/test_gguf.h"

namespace quern::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::span<const std::byte> view(const std::string& bytes) {
  return std::as_bytes(std::span(bytes));
}

// Everything that opening such a file does before and with its weights.
void open(const std::string& bytes) {
  const GgufHeader header = parse_gguf(view(bytes), "f.gguf");
  const ModelConfig config = gguf_config(header);
  gguf_tokenizer(header, config);
  gguf_generation(header);
  place_tensors(header, bytes.size());
}

TokenizerSource tokenizer_of(const std::string& bytes) {
  const GgufHeader header = parse_gguf(view(bytes), "f.gguf");
  return gguf_tokenizer(header, gguf_config(header));
}

Error refusal(const std::string& bytes) {
  try {
    open(bytes);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "not refused";
  return Error(errors::kInternalError);
}

std::string with_key(const std::string& name, std::uint32_t type, const std::string& value) {
  GgufWriter writer = tiny_llama();
  writer.key(name, type, value);
  return add_tiny_tensors(writer).bytes();
}

std::string with_tensor(const std::vector<std::uint64_t>& dims, std::uint32_t type,
                        std::uint64_t bytes, std::int64_t offset = -1) {
  GgufWriter writer = tiny_llama();
  return add_tiny_tensors(writer).tensor("extra", dims, type, bytes, offset).bytes();
}

TEST(Gguf, ReadsValuesOfEveryType) {
  GgufWriter writer;
  writer.key("u8", 0, raw<std::uint8_t>(200)).key("i8", 1, raw<std::int8_t>(-3));
  writer.key("u16", 2, raw<std::uint16_t>(60000)).key("i16", 3, raw<std::int16_t>(-9));
  writer.key("u32", 4, raw<std::uint32_t>(4000000000u)).key("i32", 5, raw<std::int32_t>(-7));
  writer.key("f32", 6, raw(1.5f)).key("bool", 7, "\x01").key("string", 8, gguf_string("hé"));
  writer.key("u64", 10, raw<std::uint64_t>(1ull << 40)).key("i64", 11, raw<std::int64_t>(-1));
  writer.key("f64", 12, raw(2.5)).key("huge", 10, raw<std::uint64_t>(UINT64_MAX));
  writer.texts("texts", {"a", "", "bc"}).i32s("ints", {3, -4});
  const std::string bytes = writer.bytes();
  const GgufHeader header = parse_gguf(view(bytes), "f");
  EXPECT_EQ(header.find("u8")->integer(), 200);
  EXPECT_EQ(header.find("i8")->integer(), -3);
  EXPECT_EQ(header.find("u16")->integer(), 60000);
  EXPECT_EQ(header.find("i16")->integer(), -9);
  EXPECT_EQ(header.find("u32")->integer(), 4000000000);
  EXPECT_EQ(header.find("i32")->integer(), -7);
  EXPECT_EQ(header.find("u64")->integer(), 1ll << 40);
  EXPECT_EQ(header.find("i64")->integer(), -1);
  EXPECT_EQ(header.find("huge")->integer(), std::nullopt);
  EXPECT_EQ(header.find("huge")->excerpt(), "18446744073709551615");
  EXPECT_EQ(header.find("f32")->number(), 1.5);
  EXPECT_EQ(header.find("f64")->number(), 2.5);
  EXPECT_EQ(header.find("i32")->number(), -7.0);
  EXPECT_EQ(header.find("bool")->boolean(), true);
  EXPECT_EQ(header.find("string")->string(), "hé");
  EXPECT_EQ(header.find("string")->integer(), std::nullopt);
  EXPECT_THAT(*header.find("texts")->strings(), ElementsAre("a", "", "bc"));
  EXPECT_THAT(*header.find("ints")->integers(), ElementsAre(3, -4));
  EXPECT_EQ(header.find("ints")->strings(), std::nullopt);
  EXPECT_EQ(header.find("nosuch"), nullptr);
}

TEST(Gguf, TakesVersion2AndLargerAlignments) {
  GgufWriter writer = tiny_llama();
  writer.version = 2;
  open(add_tiny_tensors(writer).bytes());
  GgufWriter aligned = tiny_llama();
  aligned.u32("general.alignment", 64);
  aligned.tensor("token_embd.weight", {64, 8}, 0, 2048).tensor("blk.0.a", {64}, 0, 256);
  std::string bytes = aligned.tensor("blk.1.a", {64}, 0, 256).bytes();
  bytes.resize(bytes.size() + 64);
  const GgufHeader header = parse_gguf(view(bytes), "f");
  EXPECT_EQ(header.data_begin % 64, 0u);
  EXPECT_EQ(place_tensors(header, bytes.size())[1].begin, header.data_begin + 2048);
}

TEST(Gguf, PlacesTensorsOutermostDimensionFirst) {
  const std::string bytes = with_tensor({32, 5, 3}, 2, 15 * 18);
  const GgufHeader header = parse_gguf(view(bytes), "f");
  const PlacedTensor tensor = place_tensors(header, bytes.size()).back();
  EXPECT_EQ(tensor.info.name, "extra");
  EXPECT_EQ(tensor.info.dtype, DType::kQ4_0);
  EXPECT_THAT(tensor.info.shape, ElementsAre(3, 5, 32));
  EXPECT_EQ(tensor.info.bytes, 15 * 18);
  EXPECT_EQ(tensor.begin + 15 * 18, bytes.size());
}

TEST(Gguf, RefusesEveryPrefix) {
  GgufWriter writer = tiny_llama();
  writer.texts("tokenizer.ggml.tokens", {"a", "b"}).key("flag", 7, "\x01");
  const std::string bytes = add_tiny_tensors(writer).bytes();
  open(bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(open(bytes.substr(0, size)), Error) << size;
  }
}

TEST(Gguf, RefusesBadHeaders) {
  std::string magic = tiny_llama().bytes();
  magic[0] = 'g';
  EXPECT_EQ(refusal(magic).field("field"), "magic");
  for (const std::uint32_t version : {0u, 1u, 4u, 0x03000000u}) {
    GgufWriter writer = tiny_llama();
    writer.version = version;
    const Error error = refusal(writer.bytes());
    EXPECT_EQ(error.id(), errors::kCheckpointGgufHeader);
    EXPECT_EQ(error.field("field"), "version");
    EXPECT_EQ(error.field("offset"), "4");
  }
  for (const std::uint32_t alignment : {0u, 1u, 4u, 33u, 48u, 131072u, 0xFFFFFFFFu}) {
    EXPECT_EQ(refusal(with_key("general.alignment", 4, raw(alignment))).field("field"),
              "general.alignment");
  }
  EXPECT_EQ(refusal(with_key("k", 13, "")).field("value"), "13");
  EXPECT_EQ(refusal(with_key("k", 7, "\x02")).field("expected"), "0 or 1");
  EXPECT_EQ(refusal(with_key("k", 9, raw<std::uint32_t>(9) + raw<std::uint64_t>(0))).field("value"),
            "an array of arrays");
  EXPECT_THAT(std::string(refusal(with_key("", 4, raw(1u))).field("field")),
              HasSubstr("key name length"));
  EXPECT_THAT(std::string(refusal(with_key(std::string(65537, 'k'), 4, raw(1u))).field("field")),
              HasSubstr("key name length"));
}

TEST(Gguf, RefusesNamesThatStandTwice) {
  const Error key = refusal(with_key("llama.block_count", 4, raw(2u)));
  EXPECT_EQ(key.id(), errors::kCheckpointGgufKeyDuplicate);
  EXPECT_EQ(key.field("field"), "llama.block_count");
  GgufWriter writer = tiny_llama();
  add_tiny_tensors(writer).tensor("token_embd.weight", {64}, 0, 256);
  const Error tensor = refusal(writer.bytes());
  EXPECT_EQ(tensor.id(), errors::kCheckpointTensorDuplicate);
  EXPECT_EQ(tensor.field("tensor"), "token_embd.weight");
}

TEST(Gguf, RefusesBadTensors) {
  EXPECT_EQ(refusal(with_tensor({}, 0, 0)).id(), errors::kCheckpointGgufHeader);
  EXPECT_EQ(refusal(with_tensor({1, 1, 1, 1, 1}, 0, 4)).id(), errors::kCheckpointGgufHeader);
  EXPECT_EQ(refusal(with_tensor({64, 0}, 0, 0)).id(), errors::kCheckpointTensorShape);
  EXPECT_EQ(refusal(with_tensor({1ull << 32, 1ull << 32}, 0, 0)).id(),
            errors::kCheckpointTensorShape);
  // The elements fit in 63 bits, their bytes do not.
  EXPECT_EQ(refusal(with_tensor({1ull << 62}, 0, 0)).id(), errors::kCheckpointTensorShape);
  EXPECT_EQ(refusal(with_tensor({33}, 2, 36)).id(), errors::kCheckpointTensorShape);
  EXPECT_EQ(refusal(with_tensor({64}, 0, 256, 8)).id(), errors::kCheckpointTensorMisaligned);
  EXPECT_EQ(refusal(with_tensor({64}, 0, 256, 32)).id(), errors::kCheckpointTensorOverlap);
  EXPECT_EQ(refusal(with_tensor({64}, 0, 256, INT64_MAX - 31)).id(),
            errors::kCheckpointTensorOutsideFile);
  EXPECT_EQ(refusal(with_tensor({65}, 0, 256)).field("missing"), "4");
  const Error k_quant = refusal(with_tensor({256}, 10, 84));
  EXPECT_EQ(k_quant.id(), errors::kCheckpointTensorType);
  EXPECT_THAT(k_quant.what(), HasSubstr("Q2_K (id 10)"));
  EXPECT_THAT(k_quant.what(), HasSubstr("Q4_K"));
  EXPECT_THAT(refusal(with_tensor({256}, 200, 84)).what(), HasSubstr("id 200"));
}

TEST(GgufConfig, ReadsLlama) {
  GgufWriter writer = tiny_llama();
  writer.texts("tokenizer.ggml.tokens", {"<s>", "</s>", "<|im_end|>", "a"})
      .i32s("tokenizer.ggml.token_type", {3, 3, 3, 1})
      .u32("tokenizer.ggml.eos_token_id", 1)
      .u32("tokenizer.ggml.bos_token_id", 0)
      .text("llama.rope.scaling.type", "linear")
      .f32("llama.rope.scaling.factor", 4.0f)
      .f32("general.sampling.temp", 0.5f);
  const std::string bytes = add_tiny_tensors(writer).bytes();
  const GgufHeader header = parse_gguf(view(bytes), "f");
  const ModelConfig config = gguf_config(header);
  EXPECT_EQ(config.architecture, "LlamaForCausalLM");
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.vocab, 8);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_TRUE(config.rope_interleaved);
  EXPECT_EQ(config.rope_scaling.type, "linear");
  EXPECT_EQ(config.rope_scaling.factor, 4.0);
  EXPECT_EQ(config.bos_token_id, 0);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(1, 2));
  EXPECT_EQ(gguf_tokenizer(header, config).tokens.size(), 4u);
  EXPECT_EQ(gguf_tokenizer(header, config).bos_token, "<s>");
  EXPECT_EQ(gguf_generation(header).temperature, 0.5);
}

TEST(GgufConfig, TakesHeadCountsOfEachLayerIfTheyAreEqual) {
  GgufWriter writer;
  writer.text("general.architecture", "llama").u32("llama.context_length", 512);
  writer.u32("llama.embedding_length", 64).u32("llama.block_count", 2);
  writer.u32("llama.feed_forward_length", 128).u32("llama.vocab_size", 8);
  GgufWriter mixed = writer;
  writer.i32s("llama.attention.head_count", {4, 4});
  mixed.i32s("llama.attention.head_count", {4, 2});
  const std::string bytes = writer.bytes(), mixed_bytes = mixed.bytes();
  EXPECT_EQ(gguf_config(parse_gguf(view(bytes), "f")).heads, 4);
  EXPECT_THAT(std::string(refusal(mixed_bytes).field("field")),
              HasSubstr("llama.attention.head_count"));
}

TEST(GgufConfig, RefusesBadFacts) {
  const struct {
    const char* key;
    std::uint32_t type;
    std::string value;
  } cases[] = {
      {"llama.vocab_size", 4, raw(9u)},
      {"llama.attention.key_length", 4, raw(0u)},
      {"llama.rope.freq_base", 6, raw(0.0f)},
      {"llama.rope.freq_base", 6, raw(std::numeric_limits<float>::quiet_NaN())},
      {"llama.rope.scaling.type", 4, raw(1u)},
      {"llama.expert_count", 5, raw(-1)},
      {"tokenizer.ggml.eos_token_id", 4, raw(8u)},
      {"tokenizer.ggml.tokens", 4, raw(8u)},
      {"tokenizer.ggml.add_bos_token", 4, raw(1u)},
      {"tokenizer.chat_template", 4, raw(1u)},
  };
  for (const auto& [key, type, value] : cases) {
    const Error error = refusal(with_key(key, type, value));
    EXPECT_EQ(error.id(), errors::kConfigFieldInvalid) << key;
    EXPECT_THAT(error.what(), HasSubstr(std::string(key).substr(0, 10))) << key;
  }
  EXPECT_EQ(refusal(with_key("llama.rope.dimension_count", 4, raw(7u))).field("field"),
            "rope dimension");
  GgufWriter tokens = tiny_llama();
  tokens.texts("tokenizer.ggml.tokens", std::vector<std::string>(9, "a"));
  EXPECT_THAT(refusal(add_tiny_tensors(tokens).bytes()).what(), HasSubstr("tokenizer.ggml.tokens"));
  GgufWriter types = tiny_llama();
  types.texts("tokenizer.ggml.tokens", {"a"}).i32s("tokenizer.ggml.token_type", {9});
  EXPECT_THAT(refusal(add_tiny_tensors(types).bytes()).what(), HasSubstr("token_type"));
  GgufWriter nothing;
  EXPECT_EQ(refusal(nothing.bytes()).field("field"), "general.architecture");
  nothing.text("general.architecture", "llama");
  EXPECT_EQ(refusal(nothing.bytes()).field("field"), "llama.embedding_length");
}

// The usual template has a key of its own; others are listed by name, each under its own key.
TEST(Gguf, NamedChatTemplates) {
  using Named = std::vector<std::pair<std::string, std::string>>;
  GgufWriter both = tiny_llama();
  both.text("tokenizer.chat_template", "D")
      .texts("tokenizer.chat_templates", {"tool_use", "rag", "missing"})
      .text("tokenizer.chat_template.rag", "R")
      .text("tokenizer.chat_template.tool_use", "T")
      .text("tokenizer.chat_template.unlisted", "U");
  TokenizerSource source = tokenizer_of(add_tiny_tensors(both).bytes());
  EXPECT_EQ(source.chat_template, "D");
  EXPECT_EQ(source.named_chat_templates, (Named{{"tool_use", "T"}, {"rag", "R"}}));

  GgufWriter named = tiny_llama();
  named.texts("tokenizer.chat_templates", {"tool_use", "default"})
      .text("tokenizer.chat_template.tool_use", "T")
      .text("tokenizer.chat_template.default", "D");
  source = tokenizer_of(add_tiny_tensors(named).bytes());
  EXPECT_EQ(source.chat_template, "D");
  EXPECT_EQ(source.named_chat_templates, (Named{{"tool_use", "T"}}));

  GgufWriter first = tiny_llama();
  first.texts("tokenizer.chat_templates", {"tool_use"})
      .text("tokenizer.chat_template.tool_use", "T");
  EXPECT_EQ(tokenizer_of(add_tiny_tensors(first).bytes()).chat_template, "T");

  GgufWriter none = tiny_llama();
  EXPECT_EQ(tokenizer_of(add_tiny_tensors(none).bytes()).chat_template, "");

  GgufWriter bad = tiny_llama();
  bad.texts("tokenizer.chat_templates", {"a"}).u32("tokenizer.chat_template.a", 1);
  EXPECT_EQ(refusal(add_tiny_tensors(bad).bytes()).id(), errors::kConfigFieldInvalid);
}

}  // namespace
}  // namespace quern::checkpoint
