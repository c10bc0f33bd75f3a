// Latent attention of torch_native: plain f32 loops, absorbed and expanded by the same code, since
// an absorbed sequence's keys and values are its latent rows themselves.
#pragma once

#include <vector>

#include "attention/backend.h"

namespace quern::attention {

class NativeMla {
 public:
  explicit NativeMla(ThreadPool& pool);

  // As AttentionBackend::forward_mla.
  void forward(const Batch& batch, const MlaLayer& layer, const MlaInputs& inputs,
               cache::KvStore& store);

 private:
  struct Keys;
  void run_sequence(const SequenceSlice& sequence, const MlaLayer& layer, const MlaInputs& inputs,
                    cache::KvStore& store);
  void attend(const Keys& keys, const SequenceSlice& sequence, const MlaLayer& layer,
              std::int64_t query, std::int64_t head, std::vector<float>& scores);

  ThreadPool& pool_;
  std::vector<std::vector<float>> scores_;  // of each thread, [kExpandRows]
  std::vector<float> rows_, latents_;       // of a chunk, [kExpandRows, row_dim] and [, latent_dim]
  std::vector<float> maximum_, sum_;        // of the sequence's queries, [query_len, heads]
};

}  // namespace quern::attention
