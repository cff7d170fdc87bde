#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace cairn {

struct ModelLayer;

// Which modules of a model are together a region. A module counts where its ops are one piece of
// the graph's order.
class ModuleRuns {
 public:
  ModuleRuns(const Graph& graph, const std::vector<ModelLayer>& layers);

  // The largest modules that cover [begin, end) from its first op to its last that saves something,
  // one behind the other, each reading of the one before one tensor, which nothing else reads; none
  // where there are no such.
  std::vector<std::string> run(std::int32_t begin, std::int32_t end) const;
  // The same of layers [first, end).
  std::vector<std::string> layer_run(std::int32_t first, std::int32_t end) const;
  // All modules of one piece that are in [begin, end), the largest, in order; what lies between
  // them is left out.
  struct Piece {
    std::string path = {};
    std::int32_t begin = 0;
    std::int32_t end = 0;
  };
  std::vector<Piece> pieces(std::int32_t begin, std::int32_t end) const;
  // Whether [a, b) hands on to [b, c) one tensor, and nothing to what is behind.
  bool hands_on_one(std::int32_t a, std::int32_t b, std::int32_t c) const;

 private:
  const Piece* largest_at(std::int32_t position, std::int32_t end) const;

  const Graph& graph_;
  const std::vector<ModelLayer>& layers_;
  std::vector<Piece> modules_ = {};  // by begin, then the largest first
};

}  // namespace cairn
