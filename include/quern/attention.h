// Attention backends of a program's own: what SGLang's decorator register_attention_backend does.
// examples/own_backend.cpp is one, whole. The classes below are those that quern's own backends
// use; src/attention/backend.h and src/cache/kv_store.h explain them.
#pragma once

#include <memory>

#include "attention/backend.h"
#include "attention/backends/store_tokens.h"

namespace quern {

using AttentionBackendFactory = std::unique_ptr<attention::AttentionBackend> (*)(ThreadPool& pool);
using AttentionLayouts = attention::LayoutList (*)(const attention::Needs& needs);

// Plain rows of any page size, then packed pages; both are read through KvLayout::key_index and
// value_index, so one loop serves either.
attention::LayoutList plain_layouts(const attention::Needs& needs);

// Adds a row to the table of backends for the life of the process: `quern check`, the automatic
// choice (after all others) and --attention-backend know it from then on. What `info` points to
// must live as long. Any thread; before the Engine::open that is to use it. Throws: Error
// kBackendRegistration (a name that is taken, a missing function).
void register_attention_backend(const attention::BackendInfo& info, AttentionBackendFactory factory,
                                AttentionLayouts layouts = plain_layouts);

}  // namespace quern
