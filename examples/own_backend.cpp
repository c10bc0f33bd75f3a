// An attention backend of one's own, in one file: its contract as data, its loops, and one line
// that registers it. This one computes plain attention on one thread and forgets old tokens softly:
// a key that is d tokens away loses 0.001 d of its score (a slope as in ALiBi). Usage: own_backend
// MODEL "prompt"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

#include "quern/attention.h"
#include "quern/engine.h"

namespace {

using namespace quern;
using namespace quern::attention;

// What it serves. Everything that is not named here is refused before weights load.
constexpr KvType kTypes[] = {KvType::kBF16, KvType::kF32};
constexpr BackendInfo kInfo = {.name = "fading",
                               .mha = true,
                               .kv_types = kTypes,
                               .window = Support::kNo,
                               .sinks = Support::kNo,
                               .soft_cap = Support::kNo,
                               .device = Device::kAnyCpu,
                               .machine = "any processor",
                               .note = "an example: plain attention that fades with distance"};

class Fading final : public AttentionBackend {
 public:
  explicit Fading(ThreadPool& pool) : pool_(pool) {}
  const BackendInfo& info() const override { return kInfo; }
  void plan(const Batch& batch) override { batch_ = &batch; }

  void forward(const AttentionLayer& layer, const float* q, const float* k, const float* v,
               cache::KvStore& store, float* out) override {
    store_tokens(layer, *batch_, k, v, store, pool_);
    for (const SequenceSlice& sequence : batch_->sequences) {
      for (int row = 0; row < sequence.query_len; ++row) {
        for (int head = 0; head < layer.heads; ++head)
          attend(layer, sequence, row, head, q, store, out);
      }
    }
  }

 private:
  void attend(const AttentionLayer& layer, const SequenceSlice& sequence, int row, int head,
              const float* q, cache::KvStore& store, float* out) {
    const cache::KvLayout& layout = store.layout();
    const int position = sequence.kv_len - sequence.query_len + row;
    const std::int64_t token = sequence.query_begin + row;
    const int kv_head = head / (layer.heads / layer.kv_heads);
    const float* query = q + (token * layer.heads + head) * layer.head_dim;
    float* to = out + (token * layer.heads + head) * layer.v_head_dim;
    const auto record = [&](int t) {
      return store.record(layer.layer, sequence.pages[t / layout.page_size], kv_head);
    };
    scores_.resize(position + 1);
    for (int t = 0; t <= position; ++t) {
      float dot = 0;
      for (int d = 0; d < layer.head_dim; ++d) {
        dot += query[d] * layout.element(record(t), layout.key_index(t % layout.page_size, d));
      }
      scores_[t] = dot * layer.scale - 0.001f * static_cast<float>(position - t);
    }
    const float most = *std::max_element(scores_.begin(), scores_.end());
    float sum = 0;
    std::fill(to, to + layer.v_head_dim, 0.0f);
    for (int t = 0; t <= position; ++t) {
      const float p = std::exp(scores_[t] - most);
      sum += p;
      for (int d = 0; d < layer.v_head_dim; ++d) {
        to[d] += p * layout.element(record(t), layout.value_index(t % layout.page_size, d));
      }
    }
    for (int d = 0; d < layer.v_head_dim; ++d) to[d] /= sum;
  }

  ThreadPool& pool_;
  const Batch* batch_ = nullptr;
  std::vector<float> scores_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s MODEL \"prompt\"\n", argv[0]);
    return 1;
  }
  try {
    register_attention_backend(kInfo, [](ThreadPool& pool) -> std::unique_ptr<AttentionBackend> {
      return std::make_unique<Fading>(pool);
    });

    EngineOptions options;
    options.model_path = argv[1];
    options.attention_backend = "fading";
    const auto engine = Engine::open(options);
    Request request;
    request.messages = {{{"user", argv[2]}}};
    request.sampling.temperature = 0;
    request.sampling.max_tokens = 50;
    TokenStream answer = engine->submit(request);
    while (const auto event = answer.next()) std::printf("%s", event->text.c_str());
    std::printf("\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
