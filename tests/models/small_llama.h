#pragma once

#include <cstdint>
#include <string>

#include "models/model_request.h"

// Llama with hidden size 64, 4 heads of 16, ffn 96, vocabulary 100; its words are not tied.

namespace cairn::test {

// Batch 1, 8 tokens.
ModelRequest small_llama(std::int64_t layers = 2);

// What load_model says against it, or "accepted".
std::string refusal_of(const ModelRequest& request);

}  // namespace cairn::test
