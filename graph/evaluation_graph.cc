#include "graph/evaluation_graph.h"

#include "graph/ops/op_kind.h"

namespace cairn {
namespace {

// The mask is not made, and the output is the input.
void leave_out_dropout(Graph& graph, Op& op) {
  graph.tensors[index(op.outputs[0])].storage = graph.tensor(op.inputs[0]).storage;
  op.auxiliaries.clear();
}

}  // namespace

Graph evaluation_graph(const Graph& graph) {
  Graph evaluation = graph;
  for (Tensor& tensor : evaluation.tensors) {
    tensor.requires_grad = false;
    tensor.has_gradient = false;
  }
  for (Op& op : evaluation.ops) {
    op.has_backward = false;
    op.saved.clear();
    if (op.kind != nullptr && op.kind->is_dropout) leave_out_dropout(evaluation, op);
  }
  return evaluation;
}

}  // namespace cairn
