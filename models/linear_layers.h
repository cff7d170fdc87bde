#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/recipe.h"
#include "models/family.h"

// Which layer file stands for a linear layer that the recipe gives an adapter, or whose weight it
// quantises. An adapter's layer has the layer that it is beside as an op `linear` of its own, its
// base, which may be quantised.

namespace cairn {

// Layer files that recipes may put in the place of a linear layer; those a library has no use for
// may not exist.
std::vector<std::string> linear_layer_names();

// Whether a pattern names the module: its whole path or a part of it from the front, as those of
// --freeze, or its path from some part on, as the names in PEFT's lists.
bool names_module(std::string_view pattern, std::string_view module);

class LinearLayers {
 public:
  // `layers` has every file of linear_layer_names() that there is.
  LinearLayers(const Recipe& recipe, const std::map<std::string, Layer>& layers);

  // What stands for the linear layer at this path of modules: with its adapter, quantised, or
  // nullptr for neither. `is_head`: it makes the logits.
  const Layer* layer_for(std::string_view module, bool is_head) const;
  // What stands for the base of that layer's adapter.
  const Layer* base_layer_for(std::string_view module, bool is_head) const;

 private:
  const Recipe& recipe_;
  const Layer* adapted_ = nullptr;
  const Layer* quantized_ = nullptr;
};

}  // namespace cairn
