#pragma once

#include <string>

#include "models/document.h"
#include "models/measured_file.h"

// The run of a measured case: its keys `model` and `recipe`.

namespace cairn {

// What `changes` says in place of what `base` says, key by key; both are mappings.
Node merged_mapping(const Node& base, const Node& changes);

// `model` is a name, or a mapping; `recipe` a mapping of knobs, or null for none. `what` begins
// messages: "case 'x'". Paths are seen from the document's folder. Throws InputError.
MeasuredRun read_measured_run(const Document& document, const Node& model, const Node* recipe,
                              const std::string& what);

}  // namespace cairn
