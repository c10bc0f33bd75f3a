// The table of attention backends: those of this project, then what a program registered.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "attention/backend.h"

namespace quern::attention {

// Every backend, in the order in which tables show them and the automatic choice falls back.
// Any thread.
std::vector<const BackendRow*> backends();

// SGLang's old names (nsa, compressed) find the row of the new one; `note` then says so.
// Throws: kInvalidAttentionBackend with the nearest names; `param` is the flag that holds the name.
const BackendRow& find_backend(std::string_view name,
                               std::string_view param = "--attention-backend",
                               std::string* note = nullptr);

// Adds a backend at the end of the table, for the life of the process; info's spans and texts must
// live as long. Any thread, before the engine that is to use it is opened.
// Throws: kBackendRegistration for a name that is taken or empty, or a missing function.
void register_backend(const BackendRow& row);

// The names of the rows that `wanted` holds for, separated by commas.
std::string backend_names(const std::function<bool(const BackendInfo&)>& wanted);

}  // namespace quern::attention
