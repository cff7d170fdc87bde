#include "graph/min_cut.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>

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

void add_edge(FlowGraph& graph, const CutEdge& edge) {
  const auto there = boost::add_edge(edge.from, edge.to, graph).first;
  const auto back = boost::add_edge(edge.to, edge.from, graph).first;
  boost::put(boost::edge_capacity, graph, there, edge.capacity);
  boost::put(boost::edge_capacity, graph, back, std::int64_t{0});
  boost::put(boost::edge_reverse, graph, there, back);
  boost::put(boost::edge_reverse, graph, back, there);
}

}  // namespace

MinCut min_cut(std::size_t node_count, const std::vector<CutEdge>& edges, std::size_t source,
               std::size_t sink) {
  CAIRN_CHECK(source != sink && source < node_count && sink < node_count, "a cut of two nodes");
  FlowGraph graph(node_count);
  for (const CutEdge& edge : edges) {
    CAIRN_CHECK(edge.capacity >= 0, "a capacity below zero");
    add_edge(graph, edge);
  }
  MinCut cut{.capacity = boost::push_relabel_max_flow(graph, source, sink)};
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
