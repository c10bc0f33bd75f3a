// Reads a template's source into its syntax tree. Called once for each template.
#pragma once

#include <string_view>

#include "text/jinja/expression_parser.h"

namespace quern::text::jinja {

// Requires: `source` went through normal_newlines and outlives the tree.
// Throws: kChatTemplateUnsupported.
Body parse(std::string_view source, Arena& arena, Names& names);

}  // namespace quern::text::jinja
