#include "graph/min_cut.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>

#include "graph/checked.h"
#include "graph/error.h"

namespace cairn {
namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using FlowGraph = boost::adjacency_list<
    boost::vecS, boost::vecS, boost::directedS, boost::no_property,
    boost::property<
        boost::edge_capacity_t, std::int64_t,
        boost::property<boost::edge_residual_capacity_t, std::int64_t,
                        boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>>;

void add_edge(FlowGraph& graph, const CutEdge& edge, std::int64_t capacity) {
  const auto there = boost::add_edge(edge.from, edge.to, graph).first;
  const auto back = boost::add_edge(edge.to, edge.from, graph).first;
  boost::put(boost::edge_capacity, graph, there, capacity);
  boost::put(boost::edge_capacity, graph, back, std::int64_t{0});
  boost::put(boost::edge_reverse, graph, there, back);
  boost::put(boost::edge_reverse, graph, back, there);
}

// What may be cut, all together: any cut of more has an edge that may not be. The flow adds up
// capacities of single nodes, so that sums have to stay within 64 bits.
std::int64_t most_that_is_cut(const std::vector<CutEdge>& edges) {
  constexpr std::int64_t kMostSum = std::int64_t{1} << 62;
  std::int64_t most = 0;
  std::int64_t uncut_count = 1;
  for (const CutEdge& edge : edges) {
    CAIRN_CHECK(edge.capacity >= 0, "a capacity below zero");
    if (edge.capacity == kUncut) {
      ++uncut_count;
    } else {
      most = checked_add(most, edge.capacity, "capacities of a cut");
    }
  }
  CAIRN_CHECK(most < kMostSum / uncut_count - 1, "capacities of a cut are too large");
  return most;
}

}  // namespace

MinCut min_cut(std::size_t node_count, const std::vector<CutEdge>& edges, std::size_t source,
               std::size_t sink) {
  CAIRN_CHECK(source != sink && source < node_count && sink < node_count, "a cut of two nodes");
  const std::int64_t most = most_that_is_cut(edges);
  FlowGraph graph(node_count);
  for (const CutEdge& edge : edges) {
    add_edge(graph, edge, edge.capacity == kUncut ? most + 1 : edge.capacity);
  }
  const std::int64_t flow = boost::push_relabel_max_flow(graph, source, sink);
  MinCut cut{.capacity = flow > most ? kUncut : flow};
  // What the source still reaches over edges that are not full.
  cut.is_on_source_side.assign(node_count, false);
  cut.is_on_source_side[source] = true;
  std::vector<std::size_t> work = {source};
  while (!work.empty()) {
    const std::size_t node = work.back();
    work.pop_back();
    for (auto [edge, end] = boost::out_edges(node, graph); edge != end; ++edge) {
      const std::size_t next = boost::target(*edge, graph);
      const std::int64_t left = boost::get(boost::edge_residual_capacity, graph, *edge);
      if (left <= 0 || cut.is_on_source_side[next]) continue;
      cut.is_on_source_side[next] = true;
      work.push_back(next);
    }
  }
  return cut;
}

}  // namespace cairn
