#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/plan.h"

// A plan as trainers speak of it: by layers and modules, not by ops.
//
//   plan    regions over ops           layers.0.norm1 .. layers.1.x
//   here    layers, runs of modules    model.layers.0 and model.layers.1, together
//
// It is the same tree of regions, each region stretched to whole layers where it differs from them
// by ops without a Backward alone: those save nothing and are not run again.

namespace cairn {

// A repeated layer of the model, in the graph's order.
struct ModelLayer {
  std::string path = {};  // "model.layers.3": of its module, else of its ops' names
  std::string list = {};  // "model.layers"; "" where the path ends in no number
  std::int64_t number = 0;
  bool is_module = false;  // the graph says that there is a module of that path
  std::int32_t begin = 0;  // positions in Graph::ops, half-open
  std::int32_t end = 0;
  bool has_backward = true;  // without one it saves nothing: it is in any set of layers, or in none
};

struct LayerRegion {
  std::int32_t begin = 0;  // positions in Graph::ops, half-open
  std::int32_t end = 0;
  std::int32_t first_layer = -1;  // whole layers, half-open; -1 twice for any other region
  std::int32_t end_layer = -1;
  // Modules that run one behind the other, each with the output of the one before, and are together
  // all of the region that matters; none where there are no such.
  std::vector<std::string> modules = {};
  std::vector<TensorId> keep = {};
  std::vector<LayerRegion> inner = {};
};

struct LayerPlan {
  std::string name = {};
  Extent extent = Extent::kPrefix;
  std::vector<ModelLayer> layers = {};
  bool is_in_graph_order = true;  // if not, there are no regions here
  std::vector<LayerRegion> regions = {};
};

std::vector<ModelLayer> model_layers(const Graph& graph);

LayerPlan layer_plan(const Graph& graph, const Plan& plan);

// Back again. The plan is in the graph's order.
Plan plan_of(const Graph& graph, const LayerPlan& layers);

// Which layers are recomputed, each alone and whole and dropped whole; empty where some region is
// anything else. Layers without a Backward are as they are in the plan.
std::optional<std::vector<bool>> layers_alone(const LayerPlan& plan);

// "every 2nd layer from 0", "the first 6 of 12 layers", "layers 0-3, 7", "nested runs of layers",
// "everything kept".
std::string layer_plan_words(const LayerPlan& plan);

// "0-3, 7".
std::string ranges_text(const std::vector<std::int64_t>& numbers);

}  // namespace cairn
