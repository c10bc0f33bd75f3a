// The public door to the table of backends (include/quern/attention.h).
#include "attention/backends/torch_native.h"
#include "attention/registry.h"
#include "quern/attention.h"

namespace quern {

attention::LayoutList plain_layouts(const attention::Needs& needs) {
  return attention::torch_native_layouts(needs);
}

void register_attention_backend(const attention::BackendInfo& info, AttentionBackendFactory factory,
                                AttentionLayouts layouts) {
  attention::register_backend({info, factory, layouts});
}

}  // namespace quern
