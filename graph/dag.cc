#include "graph/dag.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/biconnected_components.hpp>
#include <boost/graph/depth_first_search.hpp>
#include <iterator>

#include "graph/error.h"

namespace cairn {
namespace {

using DirectedGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS>;
using UndirectedGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS>;

// Ends the search as soon as an edge leads back to an op on the current path.
struct CycleFound {};

class CycleVisitor : public boost::default_dfs_visitor {
 public:
  CycleVisitor(std::vector<std::size_t>& parent, std::vector<std::size_t>& cycle)
      : parent_(parent), cycle_(cycle) {}

  void tree_edge(const DirectedGraph::edge_descriptor& edge, const DirectedGraph& ops) {
    parent_[target(edge, ops)] = source(edge, ops);
  }

  void back_edge(const DirectedGraph::edge_descriptor& edge, const DirectedGraph& ops) {
    const std::size_t first = target(edge, ops);
    for (std::size_t op = source(edge, ops); op != first; op = parent_[op]) cycle_.push_back(op);
    cycle_.push_back(first);
    throw CycleFound();
  }

 private:
  std::vector<std::size_t>& parent_;  // Boost copies visitors, so results live outside
  std::vector<std::size_t>& cycle_;
};

void check_edges(std::size_t op_count, const std::vector<DagEdge>& edges) {
  for (const DagEdge& edge : edges) {
    CAIRN_CHECK(edge.before < op_count && edge.after < op_count, "an edge of an op that is not");
  }
}

}  // namespace

std::vector<std::size_t> find_cycle(std::size_t op_count, const std::vector<DagEdge>& edges) {
  check_edges(op_count, edges);
  DirectedGraph ops(op_count);
  for (const DagEdge& edge : edges) add_edge(edge.before, edge.after, ops);
  std::vector<std::size_t> parent(op_count);
  std::vector<std::size_t> cycle;
  try {
    boost::depth_first_search(ops, boost::visitor(CycleVisitor(parent, cycle)));
  } catch (const CycleFound&) {
    std::reverse(cycle.begin(), cycle.end());
    std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
  }
  return cycle;
}

std::vector<OpId> articulation_ops(const Graph& graph) {
  UndirectedGraph ops(graph.ops.size());
  for (std::size_t reader = 0; reader < graph.ops.size(); ++reader) {
    if (!graph.ops[reader].has_backward) continue;
    for (const TensorId input : graph.ops[reader].inputs) {
      const Tensor& tensor = graph.tensor(input);
      if (!tensor.has_gradient || tensor.producer == kNoOp) continue;
      if (!graph.op(tensor.producer).has_backward) continue;
      add_edge(index(tensor.producer), reader, ops);
    }
  }
  std::vector<std::size_t> found;
  boost::articulation_points(ops, std::back_inserter(found));
  std::sort(found.begin(), found.end());
  std::vector<OpId> articulations;
  articulations.reserve(found.size());
  for (const std::size_t op : found) articulations.push_back(static_cast<OpId>(op));
  return articulations;
}

}  // namespace cairn
