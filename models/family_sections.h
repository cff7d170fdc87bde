#pragma once

#include "models/family.h"
#include "models/fields.h"

namespace cairn {

// Reads the sections that a family file and the section files it includes may have: dims, flags,
// rates, texts, per_layer, require, notes, inputs, implementations, token_limit. What has the name
// of something that `family` has already replaces it; requirements and notes add up.
void parse_sections(const Document& document, Fields& fields, Family& family);

}  // namespace cairn
