#include "model/layers/mla_weights.h"

#include <cstring>
#include <utility>

#include "kernels/decode_blocks.h"

namespace quern::model {
namespace {

using kernels::PackedMatrix;
using kernels::WeightFormat;

constexpr TensorName kBoth = {"self_attn.kv_b_proj.weight", "attn_kv_b.weight"};
constexpr TensorName kKeys = {"", "attn_k_b.weight"};
constexpr TensorName kValues = {"", "attn_v_b.weight"};

// A matrix made of a tensor's rows, to be packed as that tensor would be.
class MadeMatrix {
 public:
  MadeMatrix(std::string name, DType type, std::int64_t rows, std::int64_t columns)
      : info_{std::move(name), type, {rows, columns}, rows * row_bytes(type, columns)},
        data_(static_cast<size_t>(info_.bytes)) {}

  TensorView view() const { return {&info_, data_.data()}; }
  std::byte* row(std::int64_t index) {
    return data_.data() + index * row_bytes(info_.dtype, info_.shape[1]);
  }
  // Of a plain type.
  void set(std::int64_t row_index, std::int64_t column, float value) {
    std::byte* at = row(row_index) + column * row_bytes(info_.dtype, 1);
    if (info_.dtype == DType::kF32) {
      std::memcpy(at, &value, sizeof(value));
      return;
    }
    const std::uint16_t bits =
        info_.dtype == DType::kF16 ? f16_from_f32(value) : bf16_from_f32(value);
    std::memcpy(at, &bits, sizeof(bits));
  }

 private:
  TensorInfo info_;
  std::vector<std::byte> data_;
};

// The plain type that holds decoded values as the tensor's own would be packed.
DType plain_type(DType stored, kernels::PackMode mode) {
  switch (kernels::packed_format(stored, mode)) {
    case WeightFormat::kF32: return DType::kF32;
    case WeightFormat::kF16: return DType::kF16;
    default: return DType::kBF16;
  }
}

// `count` rows of each head from its row `first` on, of `stored` with `per_head` rows a head.
struct HeadRows {
  TensorView stored;  // [heads·per_head, columns]
  std::int64_t heads, per_head, first, count;

  std::int64_t columns() const { return stored.columns(); }
  std::int64_t row(std::int64_t head, std::int64_t i) const { return head * per_head + first + i; }
};

MadeMatrix gathered(const HeadRows& rows, kernels::PackMode mode) {
  const TensorInfo& info = *rows.stored.info;
  const bool decoded = rows.stored.scales.data != nullptr;
  MadeMatrix made(info.name, decoded ? plain_type(info.dtype, mode) : info.dtype,
                  rows.heads * rows.count, rows.columns());
  std::vector<float> row(static_cast<size_t>(rows.columns()));
  const std::int64_t bytes = row_bytes(info.dtype, rows.columns());
  for (std::int64_t head = 0; head < rows.heads; ++head) {
    for (std::int64_t i = 0; i < rows.count; ++i) {
      const std::int64_t from = rows.row(head, i), to = head * rows.count + i;
      if (!decoded) {
        std::memcpy(made.row(to), rows.stored.data + from * bytes, static_cast<size_t>(bytes));
        continue;
      }
      kernels::decode_row(rows.stored, from, row.data());
      for (std::int64_t c = 0; c < rows.columns(); ++c)
        made.set(to, c, row[static_cast<size_t>(c)]);
    }
  }
  return made;
}

// The same rows, each head's turned: [heads·columns, count].
MadeMatrix transposed(const HeadRows& rows, kernels::PackMode mode) {
  const TensorInfo& info = *rows.stored.info;
  MadeMatrix made(info.name, plain_type(info.dtype, mode), rows.heads * rows.columns(), rows.count);
  std::vector<float> row(static_cast<size_t>(rows.columns()));
  for (std::int64_t head = 0; head < rows.heads; ++head) {
    for (std::int64_t i = 0; i < rows.count; ++i) {
      kernels::decode_row(rows.stored, rows.row(head, i), row.data());
      for (std::int64_t c = 0; c < rows.columns(); ++c) {
        made.set(head * rows.columns() + c, i, row[static_cast<size_t>(c)]);
      }
    }
  }
  return made;
}

LatentUpProjection load_joined(const LayerLoader& layer) {
  const ModelConfig& c = layer.config;
  WeightLoader& weights = layer.weights();
  const std::int64_t per_head = c.qk_nope_head_dim + c.v_head_dim;
  const TensorView both = weights.take(layer.name(kBoth), {c.heads * per_head, c.kv_lora_rank});
  if (weights.checks()) return {};
  const HeadRows keys = {both, c.heads, per_head, 0, c.qk_nope_head_dim};
  const HeadRows values = {both, c.heads, per_head, c.qk_nope_head_dim, c.v_head_dim};
  LatentUpProjection up;
  up.keys = weights.pack(gathered(keys, weights.mode()).view());
  up.values = weights.pack(gathered(values, weights.mode()).view());
  up.absorb = weights.pack(transposed(keys, weights.mode()).view());
  weights.finish(both);
  return up;
}

LatentUpProjection load_split(const LayerLoader& layer) {
  const ModelConfig& c = layer.config;
  WeightLoader& weights = layer.weights();
  const std::int64_t latent = c.kv_lora_rank, nope = c.qk_nope_head_dim;
  const TensorView keys = weights.take(layer.name(kKeys), {c.heads, latent, nope});
  const TensorView values = weights.take(layer.name(kValues), {c.heads, c.v_head_dim, latent});
  if (weights.checks()) return {};
  TensorInfo keys_info = *keys.info, values_info = *values.info;
  keys_info.shape = {c.heads * latent, nope};
  values_info.shape = {c.heads * c.v_head_dim, latent};
  const TensorView stacked = {&keys_info, keys.data};
  LatentUpProjection up;
  up.keys = weights.pack(transposed({stacked, c.heads, latent, 0, latent}, weights.mode()).view());
  up.values = weights.pack({&values_info, values.data});
  up.absorb = weights.pack(stacked);
  weights.finish(keys);
  weights.finish(values);
  return up;
}

}  // namespace

LatentUpProjection load_latent_up_projection(const LayerLoader& layer) {
  const bool joined = !layer.gguf || layer.weights().has(layer.name(kBoth));
  return joined ? load_joined(layer) : load_split(layer);
}

}  // namespace quern::model
