#pragma once

#include <string>
#include <vector>

#include "export/export_plan.h"

// Emitted Python for frameworks in which a model's own code calls its layers, one behind the other:
// the plan by places of layers, and a function that the code calls in place of its loop.

namespace cairn {

// What one framework adds to what all of them share.
struct ChainCode {
  std::string imports = {};
  std::string checkpoint = {};  // what it calls a checkpoint, for comments: "jax.checkpoint"
  // def checkpointed(layers, regions, begin, end, x, shared): the layers from place `begin` to
  // `end` in one checkpoint, with `regions` inside it; it calls run_part.
  std::string checkpointed = {};
  std::string run_layers = {};  // what a model calls
};

std::string chain_text(const ExportAnswer& answer, const ChainCode& code);

// def run_layers(layers, x, *shared, first=0); its docstring ends with `note`.
std::string run_layers_text(const std::string& note);

// What to mind with any plan that is priced by PyTorch's kernels and run by others, and where the
// model has several lists of layers.
std::vector<std::string> chain_traps(const ExportAnswer& answer, const std::string& framework);

}  // namespace cairn
