#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "graph/plan.h"

// A plan's regions as a flat table of frames, with the questions lowering asks of it.
// Frame 0 is the root; a frame's parent has a smaller number.

namespace cairn {

struct Frame {
  std::int32_t parent = -1;  // -1 for the root
  std::int32_t begin = 0;    // positions in the plan's order, half-open
  std::int32_t end = 0;
  std::int32_t depth = 0;
};

struct RegionTree {
  std::vector<Frame> frames = {};
  std::vector<std::int32_t> frame_of_op = {};     // by op id: the innermost frame around it
  std::vector<std::int32_t> position_of_op = {};  // by op id: its place in the order
};

RegionTree flatten_regions(const Graph& graph, const Plan& plan);

// The innermost frame that holds both.
std::int32_t common_frame(const RegionTree& tree, std::int32_t a, std::int32_t b);

// Whether `frame` is `ancestor` or lies inside it.
bool is_inside(const RegionTree& tree, std::int32_t frame, std::int32_t ancestor);

// Tensors each frame's ops (inner ones included) read in forward from outside it, made by an op
// there; in order of id, no repeats. The root reads none.
std::vector<std::vector<TensorId>> region_inputs(const Graph& graph, const RegionTree& tree);

}  // namespace cairn
