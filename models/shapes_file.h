#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/document.h"

// Shapes files: the batches that a model is trained with, a list of
//
//   - {batch: 8, tokens: 2048, weight: 3}
//   - {batch: 1, tokens: 8192}             # weight 1
//
// each with a batch or tokens or both; docs/formats.md describes it.

namespace cairn {

struct BatchShape {
  std::optional<std::int64_t> batch = {};
  std::optional<std::int64_t> tokens = {};
  double weight = 1;  // how often, relative to the others
  Position position = {};
};

// At least one, at most 64. Throws InputError at the place of the fault.
std::vector<BatchShape> read_shapes(const Document& document);

}  // namespace cairn
