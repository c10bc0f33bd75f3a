// What SGLang's messages leave open: which model and why it is taken for that, who chose the
// backend, which machine was found, what would work and the corrected command.
#pragma once

#include <string>

#include "attention/plan.h"

namespace quern::attention {

struct Choice;  // attention/select.h

// The lines after a refusal's message. `draft`: it is the draft model that was refused.
std::string hint_of(const Question& question, bool draft, const std::string& chosen_by,
                    const Choice& choice);

}  // namespace quern::attention
