#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/recipe.h"
#include "models/family.h"

// Which layer file stands for a linear layer that the recipe gives an adapter, or whose weight it
// quantises. An adapter's layer has the layer that it is beside as an op `linear` of its own, its
// base, which may be quantised.

namespace cairn {

// Layer files that recipes may put in the place of a linear layer of the family; those its library
// has no use for may not exist.
std::vector<std::string> linear_layer_names(const Family& family);

// Whether a pattern names the module: its whole path or a part of it from the front, as those of
// --freeze, or its path from some part on, as the names in PEFT's lists.
bool names_module(std::string_view pattern, std::string_view module);

// A linear layer of the model.
struct LinearLayer {
  std::string module = {};              // path of modules
  bool is_head = false;                 // it makes the logits
  std::vector<std::string> parts = {};  // names, where it is several in one
};

class LinearLayers {
 public:
  // `layers` has every file of linear_layer_names() that there is. Throws InputError for adapters
  // that make no sense, or that go with nothing else that the recipe says.
  LinearLayers(const Recipe& recipe, const Family& family,
               const std::map<std::string, Layer>& layers);

  // What stands for the linear layer: with its adapter, quantised, or nullptr for neither.
  const Layer* layer_for(const LinearLayer& linear);
  // What stands for the base of that layer's adapter.
  const Layer* base_layer_for(const LinearLayer& linear) const;

  // Those of its parts that have an adapter: a target that names the layer names all of them.
  std::vector<std::string> adapted_parts(const LinearLayer& linear);

  // Whether what has its parameters at this path is trained whole, beside the adapters.
  bool is_trained(std::string_view module);

  // Behind the last layer. Throws InputError for a target that named no linear layer, and a trained
  // module that is none of the model's, with what there is.
  void check_targets(const Graph& graph) const;

 private:
  bool is_adapted(const LinearLayer& linear);
  bool names(const std::string& target, const LinearLayer& linear, std::string_view part);
  const Layer* adapter_layer(const LinearLayer& linear) const;
  void set_quantized_layers(const std::map<std::string, Layer>& layers);
  void refuse_other_adapters(std::string_view name) const;

  const Recipe& recipe_;
  const Family& family_;
  const Layer* adapted_ = nullptr;
  const Layer* adapted_parts_ = nullptr;  // of a layer that is several in one
  const Layer* quantized_ = nullptr;
  const Layer* adapted_quantized_ = nullptr;   // nullptr: as beside any other layer
  std::set<std::string> modules_ = {};         // of all linear layers so far
  std::set<std::string> named_patterns_ = {};  // targets and trained modules that named one
};

}  // namespace cairn
