#include "export/kept_kernels.h"

#include <algorithm>
#include <set>

#include "graph/ops/op_kind.h"

namespace cairn {
namespace {

std::optional<KernelKind> kernel_kind(const Op& op) {
  if (op.kind == nullptr) return std::nullopt;
  if (op.kind->name == "linear") return KernelKind::kProduct;
  if (op.kind->name == "attention") return KernelKind::kAttention;
  return std::nullopt;
}

bool is_of_the_loss(const Graph& graph, const Op& op) {
  return std::any_of(op.outputs.begin(), op.outputs.end(),
                     [&](TensorId output) { return graph.tensor(output).is_logits; });
}

}  // namespace

std::optional<KeptKernel> kernel_of(const Graph& graph, TensorId tensor) {
  const OpId producer = graph.tensor(tensor).producer;
  if (producer == kNoOp) return std::nullopt;
  const Op& op = graph.op(producer);
  const auto kind = kernel_kind(op);
  if (!kind || op.module.empty() || is_of_the_loss(graph, op)) return std::nullopt;
  const auto in_module = std::count_if(graph.ops.begin(), graph.ops.end(), [&](const Op& other) {
    return other.module == op.module && kernel_kind(other) == kind;
  });
  if (in_module != 1) return std::nullopt;
  return KeptKernel{.module = op.module, .kind = *kind};
}

std::vector<TensorId> read_results(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  std::set<TensorId> read;
  for (const Op& other : graph.ops) {
    read.insert(other.inputs.begin(), other.inputs.end());
    read.insert(other.saved.begin(), other.saved.end());
  }
  std::vector<TensorId> results;
  for (const auto* made : {&op.outputs, &op.auxiliaries}) {
    std::copy_if(made->begin(), made->end(), std::back_inserter(results),
                 [&](TensorId tensor) { return read.count(tensor) > 0; });
  }
  return results;
}

std::vector<TensorId> keepable(const Graph& graph, const std::vector<TensorId>& keep) {
  std::vector<TensorId> found;
  for (const TensorId tensor : keep) {
    if (!kernel_of(graph, tensor)) continue;
    for (const TensorId result : read_results(graph, graph.tensor(tensor).producer)) {
      if (std::find(found.begin(), found.end(), result) == found.end()) found.push_back(result);
    }
  }
  return found;
}

std::optional<std::vector<KeptKernel>> kept_kernels(const Graph& graph,
                                                    const std::vector<TensorId>& keep) {
  const std::vector<TensorId> possible = keepable(graph, keep);
  if (std::set(possible.begin(), possible.end()) != std::set(keep.begin(), keep.end())) {
    return std::nullopt;
  }
  std::vector<KeptKernel> kernels;
  for (const TensorId tensor : keep) {
    const KeptKernel kernel = *kernel_of(graph, tensor);
    if (std::find(kernels.begin(), kernels.end(), kernel) == kernels.end()) {
      kernels.push_back(kernel);
    }
  }
  return kernels;
}

}  // namespace cairn
