#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// The least cut between two nodes of a directed graph with capacities.

namespace cairn {

struct CutEdge {
  std::size_t from = 0;
  std::size_t to = 0;
  std::int64_t capacity = 0;  // not negative; kUncut: may not be cut
};

inline constexpr std::int64_t kUncut = std::int64_t{1} << 60;

struct MinCut {
  std::int64_t capacity = 0;                 // of all cut edges; kUncut: there is no cut
  std::vector<bool> is_on_source_side = {};  // by node
};

// `source` and `sink` differ. The capacities other than kUncut, summed and taken as often as there
// are edges with kUncut, stay within 62 bits.
MinCut min_cut(std::size_t node_count, const std::vector<CutEdge>& edges, std::size_t source,
               std::size_t sink);

}  // namespace cairn
