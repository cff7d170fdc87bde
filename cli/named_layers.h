#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/plan.h"

// The layers of a graph by the names of their ops: "layers.3.attn" is "attn" in layer 3 of
// "layers".

namespace cairn {

struct NamedLayer {
  std::string stem = {};  // "layers"
  std::int64_t number = 0;
  std::int32_t begin = 0;  // positions in the plan's order, half-open
  std::int32_t end = 0;
};

class NamedLayers {
 public:
  // Of the layers that are one piece of the plan's order.
  NamedLayers(const Graph& graph, const Plan& plan);

  const std::vector<NamedLayer>& all() const { return layers_; }
  // The place in all(), or -1.
  std::int32_t layer_at(std::int32_t position) const {
    return at_position_[static_cast<std::size_t>(position)];
  }
  // The name without that of the layer: "attn".
  std::string short_name(std::string_view name, std::int32_t layer) const;
  // Of places in all(), in order: "layers 0-9, 12", "layer 3"; where there are several stems
  // "encoder.0-5, decoder.0-2"; of very many ranges the first, the last, and how many layers.
  std::string text(const std::vector<std::int32_t>& places) const;

 private:
  std::vector<std::string> ranges(const std::vector<std::int32_t>& places) const;

  std::vector<NamedLayer> layers_ = {};
  std::vector<std::int32_t> at_position_ = {};
  bool has_one_stem_ = true;
};

}  // namespace cairn
