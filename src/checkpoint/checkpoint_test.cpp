// Opens the good models under tests/data, folders with faults made here, and the malformed files
// that the ctest fixture hostile_files makes in the build folder.
#include "checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "base/error.h"
#include "base/errors/base.h"
#include "base/errors/checkpoint.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/test_gguf.h"

namespace quern::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kModels = QUERN_TEST_DATA "/models/";
const std::string kHostile = QUERN_HOSTILE_DIR "/";

// An empty folder of its own for each test.
fs::path scratch() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const fs::path folder = fs::path(testing::TempDir()) / "quern_checkpoint" / test->name();
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

void write(const fs::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

void open(const std::string& path) { open_weights(read_metadata(path)); }

Error refusal(const std::string& path) {
  try {
    open(path);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "not refused: " << path;
  return Error(errors::kInternalError);
}

std::size_t peak_kilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoul(line.substr(6));
  }
  return 0;
}

TEST(Checkpoint, OpensLlamaInEveryType) {
  for (const auto& [type, dtype] : std::map<std::string, DType>{{"F32", DType::kF32},
                                                                {"F16", DType::kF16},
                                                                {"BF16", DType::kBF16},
                                                                {"Q4_0", DType::kQ4_0},
                                                                {"Q4_1", DType::kQ4_1},
                                                                {"Q5_0", DType::kQ5_0},
                                                                {"Q5_1", DType::kQ5_1},
                                                                {"Q8_0", DType::kQ8_0}}) {
    SCOPED_TRACE(type);
    const Metadata metadata = read_metadata(kModels + "llama/gguf/llama-" + type + ".gguf");
    EXPECT_EQ(metadata.format, Format::kGguf);
    EXPECT_EQ(metadata.config.name, "tiny llama");
    EXPECT_EQ(metadata.config.vocab, 512);
    EXPECT_EQ(metadata.config.kv_heads, 2);
    EXPECT_THAT(metadata.config.eos_token_ids, ElementsAre(2));
    EXPECT_EQ(metadata.tokenizer.model, "gpt2");
    EXPECT_EQ(metadata.tokenizer.pre, "smollm");
    EXPECT_EQ(metadata.tokenizer.tokens.size(), 512u);
    EXPECT_EQ(metadata.tokenizer.merges.size(), 252u);
    EXPECT_THAT(metadata.tokenizer.chat_template, HasSubstr("<|im_start|>"));
    const auto weights = open_weights(metadata);
    EXPECT_EQ(weights->tensors().size(), 20u);
    const auto down = weights->find("blk.1.ffn_down.weight");
    ASSERT_TRUE(down.has_value());
    EXPECT_EQ(down->info->dtype, dtype);
    EXPECT_THAT(down->info->shape, ElementsAre(128, 128));
    EXPECT_EQ(down->info->bytes, 128 * row_bytes(dtype, 128));
    EXPECT_FALSE(weights->find("blk.2.ffn_down.weight").has_value());
  }
}

TEST(Checkpoint, OpensKQuants) {
  for (const char* type : {"Q3_K", "Q4_K_M", "Q5_K", "Q6_K"}) {
    open(kModels + "llama_k256/gguf/llama_k256-" + type + ".gguf");
  }
  const Error error = refusal(kModels + "llama_k256/gguf/llama_k256-Q2_K.gguf");
  EXPECT_EQ(error.id(), errors::kCheckpointTensorType);
  EXPECT_THAT(error.what(), HasSubstr("Q2_K"));
}

TEST(Checkpoint, ReadsLatentAttentionOfGguf) {
  const ModelConfig gguf = read_metadata(kModels + "deepseek_v2/gguf/deepseek_v2-Q4_0.gguf").config;
  const ModelConfig folder = read_metadata(kModels + "deepseek_v2/config.json").config;
  EXPECT_EQ(gguf.architecture, folder.architecture);
  EXPECT_EQ(gguf.kv_lora_rank, folder.kv_lora_rank);
  EXPECT_EQ(gguf.qk_nope_head_dim, folder.qk_nope_head_dim);
  EXPECT_EQ(gguf.qk_rope_head_dim, folder.qk_rope_head_dim);
  EXPECT_EQ(gguf.head_dim, folder.head_dim);
  EXPECT_EQ(gguf.v_head_dim, folder.v_head_dim);
  EXPECT_EQ(gguf.kv_heads, folder.kv_heads);
  EXPECT_EQ(gguf.experts, folder.experts);
  EXPECT_EQ(gguf.rope_scaling.type, folder.rope_scaling.type);
  EXPECT_EQ(gguf.rope_interleaved, folder.rope_interleaved);
}

TEST(Checkpoint, OpensFolders) {
  for (const std::string& path :
       {kModels + "llama", kModels + "llama/", kModels + "llama/config.json"}) {
    const Metadata metadata = read_metadata(path);
    EXPECT_EQ(metadata.format, Format::kHuggingFace);
    EXPECT_EQ(metadata.tokenizer.tokenizer_json.size(), 21581u);
    EXPECT_THAT(metadata.tokenizer.chat_template, HasSubstr("<|im_start|>"));
    EXPECT_FALSE(metadata.tokenizer.add_bos);
    const auto weights = open_weights(metadata);
    const auto norm = weights->find("model.norm.weight");
    ASSERT_TRUE(norm.has_value());
    EXPECT_EQ(norm->info->dtype, DType::kBF16);
    EXPECT_THAT(norm->info->shape, ElementsAre(128));
    weights->release(*norm);
  }
  EXPECT_EQ(read_metadata(kModels + "llama").config.name, "llama");
  EXPECT_THAT(read_metadata(kModels + "llama3").config.eos_token_ids, ElementsAre(2, 0));
}

TEST(Checkpoint, ReadsFactsWithoutWeightsOrTokenizer) {
  const Metadata metadata = read_metadata(kModels + "whisper");
  EXPECT_TRUE(metadata.config.encoder_decoder);
  EXPECT_EQ(metadata.tokenizer.tokenizer_json, "");
  EXPECT_EQ(refusal(kModels + "whisper").id(), errors::kModelWeightsMissing);
}

TEST(Checkpoint, SaysWhereItLooked) {
  const fs::path folder = scratch();
  EXPECT_EQ(refusal((folder / "nosuch").string()).id(), errors::kModelNotFound);
  EXPECT_EQ(refusal(folder.string()).id(), errors::kModelNotFound);
  write(folder / "notes.txt", "hello");
  EXPECT_EQ(refusal((folder / "notes.txt").string()).id(), errors::kModelNotFound);
  EXPECT_EQ(refusal(kModels + "llama/model.safetensors").id(), errors::kModelNotFound);
  const Error several = refusal(kModels + "llama/gguf");
  EXPECT_EQ(several.id(), errors::kModelNotFound);
  EXPECT_THAT(several.what(), HasSubstr("llama-BF16.gguf"));
  write(folder / "empty.gguf", "");
  EXPECT_EQ(refusal((folder / "empty.gguf").string()).id(), errors::kCheckpointFileUnreadable);
}

TEST(Checkpoint, OpensGgufUnderAnyName) {
  const fs::path folder = scratch();
  fs::copy_file(kModels + "llama/gguf/llama-Q4_0.gguf", folder / "weights.bin");
  open((folder / "weights.bin").string());
  fs::rename(folder / "weights.bin", folder / "only.gguf");
  open(folder.string());
}

// Part `number` (from 0) of `count`, with one tensor of its own.
std::string split_part(int number, int count, const std::string& tensor, int total) {
  GgufWriter writer = number == 0 ? tiny_llama() : GgufWriter();
  writer.key("split.no", 2, raw(static_cast<std::uint16_t>(number)));
  writer.key("split.count", 2, raw(static_cast<std::uint16_t>(count)));
  writer.key("split.tensors.count", 5, raw(total));
  if (number == 0) writer.tensor("token_embd.weight", {64, 8}, 0, 2048);
  return writer.tensor(tensor, {64}, 0, 256).bytes();
}

TEST(Checkpoint, OpensSplitGguf) {
  const fs::path folder = scratch();
  const auto part = [&](int i) { return folder / fmt::format("m-0000{}-of-00002.gguf", i); };
  const auto expect = [&](const fs::path& path, ErrorId id, const std::string& word) {
    const Error error = refusal(path.string());
    EXPECT_EQ(error.id(), id) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(word));
  };
  write(part(1), split_part(0, 2, "blk.0.a", 3));
  expect(part(1), errors::kCheckpointShardMissing, "m-00002-of-00002.gguf");
  write(part(2), split_part(1, 2, "blk.1.a", 3));
  for (const fs::path& path : {folder, part(1)}) {
    const Metadata metadata = read_metadata(path.string());
    EXPECT_EQ(metadata.config.layers, 2);
    const auto weights = open_weights(metadata);
    EXPECT_EQ(weights->tensors().size(), 3u);
    EXPECT_TRUE(weights->find("blk.1.a").has_value());
  }
  expect(part(2), errors::kCheckpointShardMismatch, "m-00001-of-00002.gguf");
  write(part(2), split_part(0, 2, "blk.1.a", 3));
  expect(part(1), errors::kCheckpointShardMismatch, "split.no");
  write(part(2), split_part(1, 2, "blk.0.a", 3));
  expect(part(1), errors::kCheckpointTensorDuplicate, "blk.0.a");
  write(part(1), split_part(0, 2, "blk.0.a", 4));
  write(part(2), split_part(1, 2, "blk.1.a", 4));
  expect(part(1), errors::kCheckpointShardMismatch, "split.tensors.count");
  write(folder / "other.gguf", split_part(0, 2, "blk.0.a", 3));
  expect(folder / "other.gguf", errors::kCheckpointShardMismatch, "the file name");
}

TEST(Checkpoint, RefusesFaultsOfShardedFolders) {
  const fs::path folder = scratch();
  fs::copy(kHostile + "tinyhf", folder, fs::copy_options::recursive);
  open(folder.string());
  const fs::path index = folder / "model.safetensors.index.json";
  const std::string good = read_text_file(index.string());
  const auto expect = [&](ErrorId id, const std::string& word) {
    const Error error = refusal(folder.string());
    EXPECT_EQ(error.id(), id) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(word));
  };
  const auto edit = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    write(index, text);
  };
  edit("\"model.norm.weight\"", "\"model.nosuch.weight\"");
  expect(errors::kCheckpointTensorMissing, "model.nosuch.weight");
  edit("model-00001-of-00002.safetensors", "../other.safetensors");
  expect(errors::kCheckpointIndexInvalid, "../other.safetensors");
  write(index, good.substr(0, good.size() / 2));
  expect(errors::kCheckpointJsonInvalid, "index.json");
  write(index, good);
  const fs::path second = folder / "model-00002-of-00002.safetensors";
  const std::string bytes = read_text_file(second.string());
  write(second, bytes.substr(0, bytes.size() * 6 / 10));
  expect(errors::kCheckpointTensorOutsideFile, "missing");
  fs::remove(second);
  expect(errors::kCheckpointShardMissing, "model-00002-of-00002.safetensors");
  fs::copy_file(folder / "model-00001-of-00002.safetensors", second);
  edit("model-00002-of-00002.safetensors", "model-00001-of-00002.safetensors");
  EXPECT_EQ(refusal(folder.string()).id(), errors::kCheckpointTensorMissing);
  // Both files hold the same names, and the index lists each once.
  std::string text = good;
  const std::string embedding =
      R"("model.embed_tokens.weight": "model-00001-of-00002.safetensors")";
  text = R"({"weight_map": {)" + embedding +
         R"(, "model.norm.weight": "model-00002-of-00002.safetensors"}})";
  write(index, text);
  expect(errors::kCheckpointTensorDuplicate, "model-00002-of-00002.safetensors");
}

TEST(Checkpoint, LeavesOutTensorsThatNothingComputesWith) {
  const fs::path folder = scratch();
  fs::copy_file(kHostile + "tinyhf/config.json", folder / "config.json");
  const auto file = [&](const std::string& name) {
    const std::string header =
        R"({"a.weight": {"dtype": "F32", "shape": [1], "data_offsets": [0,4]},
        ")" +
        name + R"(": {"dtype": "I64", "shape": [1], "data_offsets": [4,12]}})";
    write(folder / "model.safetensors",
          raw<std::uint64_t>(header.size()) + header + std::string(12, '\0'));
    return folder.string();
  };
  const auto weights = open_weights(read_metadata(file("position_ids")));
  EXPECT_EQ(weights->tensors().size(), 1u);
  EXPECT_EQ(refusal(file("b.weight")).id(), errors::kCheckpointTensorType);
}

TEST(Checkpoint, ReadsTokenizerConfig) {
  TokenizerSource source;
  parse_tokenizer_config(R"({"add_bos_token": true, "chat_template": [
      {"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]})",
                         "t", source);
  EXPECT_TRUE(source.add_bos);
  EXPECT_EQ(source.chat_template, "D");
  ASSERT_EQ(source.named_chat_templates.size(), 1u);
  EXPECT_EQ(source.named_chat_templates[0], std::pair(std::string("tool_use"), std::string("T")));
  EXPECT_EQ(source.bos_token, std::nullopt);
  parse_tokenizer_config(R"({"bos_token": "<s>"})", "t", source);
  EXPECT_EQ(source.bos_token, "<s>");
  parse_tokenizer_config(R"({"eos_token": "</s>"})", "t", source);
  EXPECT_EQ(source.eos_token, "</s>");
  parse_tokenizer_config(R"({"bos_token": {"content": "<b>", "lstrip": false}})", "t", source);
  EXPECT_EQ(source.bos_token, "<b>");
  for (const char* text : {R"({"chat_template": 1})", R"({"chat_template": [1]})",
                           R"({"chat_template": [{"name": "a"}]})", R"({"add_bos_token": 1})",
                           R"({"bos_token": 1})", R"({"bos_token": {}})"}) {
    EXPECT_THROW(parse_tokenizer_config(text, "t", source), Error) << text;
  }
  const fs::path folder = scratch();
  fs::copy(kHostile + "tinyhf", folder, fs::copy_options::recursive);
  write(folder / "chat_template.jinja", "J");
  EXPECT_EQ(read_metadata(folder.string()).tokenizer.chat_template, "J");
  fs::create_directory(folder / "additional_chat_templates");
  write(folder / "additional_chat_templates" / "tool_use.jinja", "U");
  write(folder / "additional_chat_templates" / "notes.txt", "N");
  const TokenizerSource named = read_metadata(folder.string()).tokenizer;
  ASSERT_EQ(named.named_chat_templates.size(), 1u);
  EXPECT_EQ(named.named_chat_templates[0], std::pair(std::string("tool_use"), std::string("U")));
}

// What each malformed file is refused for; `word` stands in the message. Files that are well formed
// as far as this folder can see have no id.
struct Verdict {
  std::optional<ErrorId> id;
  std::string word;
};

std::map<std::string, Verdict> hostile_verdicts() {
  using namespace errors;
  std::map<std::string, Verdict> all = {
      {"b2_zero.gguf", {kCheckpointTensorShape, "token_embd.weight"}},
      {"b2_neg.gguf", {kCheckpointTensorShape, "token_embd.weight"}},
      {"b2_wrap.gguf", {kCheckpointTensorShape, "token_embd.weight"}},
      {"b2_nd0.gguf", {kCheckpointGgufHeader, "token_embd.weight"}},
      {"b2_nd9.gguf", {kCheckpointGgufHeader, "token_embd.weight"}},
      {"b2_ndmax.gguf", {kCheckpointGgufHeader, "token_embd.weight"}},
      {"b2_emptykey.gguf", {kCheckpointGgufHeader, "key name length"}},
      {"b2_blk0.gguf", {kConfigFieldInvalid, "llama.block_count"}},
      {"b2_blk513.gguf", {kCheckpointTensorMissing, "llama.block_count"}},
      {"b2_blk100000.gguf", {kConfigFieldInvalid, "llama.block_count"}},
      {"b2_blk4294967295.gguf", {kConfigFieldInvalid, "llama.block_count"}},
      {"b2_head0.gguf", {kConfigFieldInvalid, "llama.attention.head_count"}},
      {"b2_offlap.gguf", {kCheckpointTensorOverlap, "output_norm.weight"}},
      {"b2_offodd.gguf", {kCheckpointTensorMisaligned, "output_norm.weight"}},
      {"b2_offfar.gguf", {kCheckpointTensorOutsideFile, "output_norm.weight"}},
      {"b2_dup.gguf", {kCheckpointTensorDuplicate, "output_norm.weight"}},
      {"b2_type.gguf", {kCheckpointTensorType, "token_embd.weight"}},
      {"b4_cut.gguf", {kCheckpointTensorOutsideFile, "missing"}},
      {"b4_cuthead.gguf", {kCheckpointGgufHeader, "bytes left"}},
      {"b6_lookup.gguf", {kConfigFieldInvalid, "tokenizer.ggml.token_type"}},
      {"b6_eos.gguf", {kConfigFieldInvalid, "tokenizer.ggml.eos_token_id"}},
      {"b7_hlen.safetensors", {kCheckpointSafetensorsHeader, "9223372036854775808"}},
      {"b7_hlen2.safetensors", {kCheckpointSafetensorsHeader, "1099511627776"}},
      {"b7_far.safetensors", {kCheckpointSafetensorsRange, "1000000000000"}},
      {"b7_rev.safetensors", {kCheckpointSafetensorsRange, "tensor x"}},
      {"b7_short.safetensors", {kCheckpointSafetensorsRange, "tensor x"}},
      {"b7_wrap.safetensors", {kCheckpointTensorShape, "4294967296"}},
      {"b7_dup.safetensors", {kCheckpointTensorDuplicate, "named x"}},
      {"b7_lap.safetensors", {kCheckpointSafetensorsRange, "overlap"}},
      {"b7_notobj.safetensors", {kCheckpointSafetensorsHeader, "an object"}},
      {"b7_deep.safetensors", {kCheckpointSafetensorsHeader, "nested"}},
      {"b7_tail.safetensors", {kCheckpointSafetensorsHeader, "the data"}},
      {"b7_cut.safetensors", {kCheckpointTensorOutsideFile, "missing"}},
      {"f4_nan.gguf", {}},
      {"a4_hd17.gguf", {kConfigFieldInvalid, "rope dimension"}},
      {"a4_hd40.gguf", {}},
      {"a4_hd80.gguf", {}},
      {"a4_hd96.gguf", {}},
      {"a4_hd256.gguf", {}},
  };
  for (int i = 0; i < 4; ++i) {
    all[fmt::format("b1_key{}.gguf", i)] = {kCheckpointGgufHeader, "key name length"};
    all[fmt::format("b1_nt{}.gguf", i)] = {kCheckpointGgufHeader, "tensor count"};
    all[fmt::format("b1_nkv{}.gguf", i)] = {kCheckpointGgufHeader, "key count"};
    all[fmt::format("b1_arr{}.gguf", i)] = {kCheckpointGgufHeader, "tokenizer.ggml.tokens"};
  }
  return all;
}

// A safetensors file is opened as the weights of a folder.
std::string as_model(const fs::path& file, const fs::path& folder) {
  if (file.extension() != ".safetensors") return file.string();
  fs::copy_file(kHostile + "tinyhf/config.json", folder / "config.json",
                fs::copy_options::overwrite_existing);
  fs::copy_file(file, folder / "model.safetensors", fs::copy_options::overwrite_existing);
  return folder.string();
}

TEST(HostileFiles, AreRefusedByName) {
  const fs::path folder = scratch();
  const auto verdicts = hostile_verdicts();
  std::set<std::string> seen;
  for (const auto& entry : fs::directory_iterator(kHostile + "h")) {
    const std::string name = entry.path().filename().string();
    SCOPED_TRACE(name);
    ASSERT_TRUE(verdicts.contains(name));
    seen.insert(name);
    const Verdict& verdict = verdicts.at(name);
    const std::string path = as_model(entry.path(), folder);
    if (!verdict.id) {
      EXPECT_NO_THROW(open(path));
      continue;
    }
    const Error error = refusal(path);
    EXPECT_EQ(error.id(), *verdict.id) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(verdict.word));
    EXPECT_THAT(error.what(), HasSubstr(path));
  }
  EXPECT_EQ(seen.size(), verdicts.size());
}

TEST(HostileFiles, AskForNoMemory) {
  const auto verdicts = hostile_verdicts();
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak starts anew
  const std::size_t before = peak_kilobytes();
  ASSERT_GT(before, 0u);
  for (const auto& [name, verdict] : verdicts) {
    if (name.starts_with("b1_")) refusal(kHostile + "h/" + name);
  }
  EXPECT_LT(peak_kilobytes() - before, 16u * 1024);
}

TEST(HostileFiles, PrefixesOfAGoodFileAreRefused) {
  const fs::path file = scratch() / "cut.gguf";
  open(kHostile + "tiny.gguf");
  const std::string good = read_text_file(kHostile + "tiny.gguf");
  for (std::size_t size = 1; size < good.size(); size += size < 9000 ? 61 : 9973) {
    write(file, good.substr(0, size));
    refusal(file.string());
  }
}

}  // namespace
}  // namespace quern::checkpoint
