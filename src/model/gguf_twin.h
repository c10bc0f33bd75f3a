// Writes a fixture's Hugging Face folder again as a GGUF file, with the keys, names and layouts of
// that format: experts of a layer in one tensor, rotated pairs side by side where the architecture
// is llama. For tests of both readers against each other.
#pragma once

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/test_gguf.h"
#include "core/dtype.h"
#include "kernels/test_safetensors.h"

namespace quern::model {

enum class TwinType { kF32, kQ8_0 };  // of matrices; vectors and routers are F32

class GgufTwin {
 public:
  GgufTwin(const std::string& folder, const std::string& architecture, TwinType type)
      : architecture_(architecture), type_(type) {
    std::ifstream(folder + "/config.json") >> config_;
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      const std::string name = file.path().filename().string();
      if (name.starts_with("model") && name.ends_with(".safetensors")) {
        shards_.emplace_back(file.path().string());
      }
    }
    write_keys();
    add("token_embd.weight", "model.embed_tokens.weight");
    add("output_norm.weight", "model.norm.weight");
    if (has("lm_head.weight")) add("output.weight", "lm_head.weight");
    for (std::int64_t i = 0; i < number("num_hidden_layers"); ++i) add_layer(i);
  }

  void write(const std::string& path) const {
    std::string header = writer_.header();
    header.resize((header.size() + 31) / 32 * 32);
    std::ofstream(path, std::ios::binary) << header << data_;
  }

 private:
  std::int64_t number(const std::string& name) const { return config_.at(name); }
  std::int64_t head_dim() const {
    return config_.value("head_dim", number("hidden_size") / number("num_attention_heads"));
  }

  void write_keys() {
    const auto key = [&](const char* name) { return architecture_ + "." + name; };
    const auto u32 = [&](const char* name, std::int64_t value) {
      writer_.u32(key(name), static_cast<std::uint32_t>(value));
    };
    writer_.text("general.architecture", architecture_);
    u32("context_length", number("max_position_embeddings"));
    u32("embedding_length", number("hidden_size"));
    u32("block_count", number("num_hidden_layers"));
    u32("feed_forward_length", number("intermediate_size"));
    u32("attention.head_count", number("num_attention_heads"));
    u32("attention.head_count_kv", number("num_key_value_heads"));
    if (!config_.contains("kv_lora_rank")) {
      u32("attention.key_length", head_dim());
      u32("attention.value_length", head_dim());
    }
    writer_.f32(key("rope.freq_base"), config_.at("rope_theta"));
    writer_.f32(key("attention.layer_norm_rms_epsilon"), config_.at("rms_norm_eps"));
    if (config_.contains("kv_lora_rank")) write_latent_keys(u32);
    for (const char* name : {"num_experts", "num_local_experts", "n_routed_experts"}) {
      if (!config_.contains(name)) continue;
      u32("expert_count", number(name));
      u32("expert_used_count", number("num_experts_per_tok"));
      u32("expert_feed_forward_length",
          number(config_.contains("moe_intermediate_size") ? "moe_intermediate_size"
                                                           : "intermediate_size"));
    }
  }

  // The older layout of latent attention: lengths of the heads' own keys and values.
  template <typename U32>
  void write_latent_keys(U32 u32) {
    const auto key = [&](const char* name) { return architecture_ + "." + name; };
    u32("attention.kv_lora_rank", number("kv_lora_rank"));
    if (!config_.at("q_lora_rank").is_null()) u32("attention.q_lora_rank", number("q_lora_rank"));
    u32("attention.key_length", number("qk_nope_head_dim") + number("qk_rope_head_dim"));
    u32("attention.value_length", number("v_head_dim"));
    u32("rope.dimension_count", number("qk_rope_head_dim"));
    u32("leading_dense_block_count", number("first_k_dense_replace"));
    u32("expert_shared_count", number("n_shared_experts"));
    u32("expert_gating_func", config_.at("scoring_func") == "sigmoid" ? 2 : 1);
    u32("expert_group_count", number("n_group"));
    u32("expert_group_used_count", number("topk_group"));
    writer_.f32(key("expert_weights_scale"), config_.at("routed_scaling_factor"));
    writer_.key(key("expert_weights_norm"), 7,
                config_.at("norm_topk_prob") ? "\1" : std::string(1, '\0'));
    const auto& rope = config_.at("rope_scaling");
    writer_.text(key("rope.scaling.type"), "yarn");
    writer_.f32(key("rope.scaling.factor"), rope.at("factor"));
    u32("rope.scaling.original_context_length", rope.at("original_max_position_embeddings"));
    const double mscale_all_dim = rope.at("mscale_all_dim");
    writer_.f32(key("rope.scaling.yarn_log_multiplier"), static_cast<float>(0.1 * mscale_all_dim));
  }

  void add_layer(std::int64_t index) {
    const std::string hf = "model.layers." + std::to_string(index) + ".";
    const std::string blk = "blk." + std::to_string(index) + ".";
    const std::pair<const char*, const char*> names[] = {
        {"attn_norm.weight", "input_layernorm.weight"},
        {"ffn_norm.weight", "post_attention_layernorm.weight"},
        {"attn_q.weight", "self_attn.q_proj.weight"},
        {"attn_k.weight", "self_attn.k_proj.weight"},
        {"attn_v.weight", "self_attn.v_proj.weight"},
        {"attn_q.bias", "self_attn.q_proj.bias"},
        {"attn_k.bias", "self_attn.k_proj.bias"},
        {"attn_v.bias", "self_attn.v_proj.bias"},
        {"attn_q_norm.weight", "self_attn.q_norm.weight"},
        {"attn_k_norm.weight", "self_attn.k_norm.weight"},
        {"attn_q_a.weight", "self_attn.q_a_proj.weight"},
        {"attn_q_a_norm.weight", "self_attn.q_a_layernorm.weight"},
        {"attn_q_b.weight", "self_attn.q_b_proj.weight"},
        {"attn_kv_a_mqa.weight", "self_attn.kv_a_proj_with_mqa.weight"},
        {"attn_kv_a_norm.weight", "self_attn.kv_a_layernorm.weight"},
        {"attn_kv_b.weight", "self_attn.kv_b_proj.weight"},
        {"attn_output.weight", "self_attn.o_proj.weight"},
        {"ffn_gate.weight", "mlp.gate_proj.weight"},
        {"ffn_up.weight", "mlp.up_proj.weight"},
        {"ffn_down.weight", "mlp.down_proj.weight"},
        {"ffn_gate_shexp.weight", "mlp.shared_experts.gate_proj.weight"},
        {"ffn_up_shexp.weight", "mlp.shared_experts.up_proj.weight"},
        {"ffn_down_shexp.weight", "mlp.shared_experts.down_proj.weight"},
        {"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"},
        {"ffn_gate_inp.weight", "mlp.gate.weight"},
        {"ffn_gate_inp.weight", "block_sparse_moe.gate.weight"}};
    for (const auto& [gguf, name] : names) {
      if (has(hf + name)) add(blk + gguf, hf + name);
    }
    const std::pair<const char*, std::pair<const char*, const char*>> experts[] = {
        {"ffn_gate_exps.weight", {"mlp.experts.", ".gate_proj.weight"}},
        {"ffn_up_exps.weight", {"mlp.experts.", ".up_proj.weight"}},
        {"ffn_down_exps.weight", {"mlp.experts.", ".down_proj.weight"}},
        {"ffn_gate_exps.weight", {"block_sparse_moe.experts.", ".w1.weight"}},
        {"ffn_up_exps.weight", {"block_sparse_moe.experts.", ".w3.weight"}},
        {"ffn_down_exps.weight", {"block_sparse_moe.experts.", ".w2.weight"}}};
    for (const auto& [gguf, pattern] : experts) {
      std::vector<float> all;
      std::vector<std::int64_t> shape;
      std::uint64_t count = 0;
      const auto name_of = [&] {
        return hf + pattern.first + std::to_string(count) + pattern.second;
      };
      for (; has(name_of()); ++count) {
        shape = shard(name_of()).shape(name_of());
        const auto values = shard(name_of()).floats(name_of());
        all.insert(all.end(), values.begin(), values.end());
      }
      if (count == 0) continue;
      const auto rows = static_cast<std::uint64_t>(shape[0]);
      const auto columns = static_cast<std::uint64_t>(shape[1]);
      put(blk + gguf, {columns, rows, count}, all);
    }
  }

  bool has(const std::string& name) const {
    return std::ranges::any_of(shards_, [&](const GoldenArrays& s) { return s.has(name); });
  }
  const GoldenArrays& shard(const std::string& name) const {
    return *std::ranges::find_if(shards_, [&](const GoldenArrays& s) { return s.has(name); });
  }

  void add(const std::string& gguf, const std::string& name) {
    const auto shape = shard(name).shape(name);
    auto values = shard(name).floats(name);
    if (architecture_ == "llama" &&
        (gguf.ends_with("attn_q.weight") || gguf.ends_with("attn_k.weight"))) {
      values = pairs_together(values, shape[1]);
    }
    std::vector<std::uint64_t> dims;
    for (auto it = shape.rbegin(); it != shape.rend(); ++it) {
      dims.push_back(static_cast<std::uint64_t>(*it));
    }
    put(gguf, dims, values);
  }

  // Rows i and i + dim/2 of a head become 2i and 2i + 1.
  std::vector<float> pairs_together(const std::vector<float>& rows, std::int64_t columns) const {
    std::vector<float> turned;
    const std::int64_t dim = head_dim();
    const std::int64_t count = static_cast<std::int64_t>(rows.size()) / columns;
    for (std::int64_t row = 0; row < count; ++row) {
      const std::int64_t d = row % dim, from = row - d + d / 2 + d % 2 * dim / 2;
      turned.insert(turned.end(), rows.begin() + from * columns,
                    rows.begin() + (from + 1) * columns);
    }
    return turned;
  }

  void put(const std::string& name, const std::vector<std::uint64_t>& dims,
           const std::vector<float>& values) {
    constexpr std::uint32_t kF32 = 0, kQ8_0 = 8;
    const bool quantised = type_ == TwinType::kQ8_0 && dims.size() > 1 && dims[0] % 32 == 0 &&
                           !name.ends_with("ffn_gate_inp.weight");
    std::string bytes;
    if (quantised) {
      for (size_t i = 0; i < values.size(); i += 32) bytes += q8_block(&values[i]);
    } else {
      for (const float value : values) bytes += checkpoint::raw(value);
    }
    writer_.tensor(name, dims, quantised ? kQ8_0 : kF32, bytes.size());
    data_.resize((data_.size() + 31) / 32 * 32);
    data_ += bytes;
  }

  static std::string q8_block(const float* values) {
    float most = 0;
    for (int i = 0; i < 32; ++i) most = std::max(most, std::fabs(values[i]));
    const std::uint16_t scale = f16_from_f32(most / 127);
    const float step = f32_from_f16(scale);
    std::string block = checkpoint::raw(scale);
    for (int i = 0; i < 32; ++i) {
      const float q = step == 0 ? 0 : std::clamp(std::round(values[i] / step), -127.0f, 127.0f);
      block += static_cast<char>(static_cast<std::int8_t>(q));
    }
    return block;
  }

  std::string architecture_;
  TwinType type_;
  nlohmann::json config_;
  std::vector<GoldenArrays> shards_;
  checkpoint::GgufWriter writer_;
  std::string data_;
};

}  // namespace quern::model
