#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

// What a region keeps, as a trainer sees it: results of kernels that modules call.

namespace cairn {

enum class KernelKind {
  kProduct,    // of a linear layer: mm or addmm
  kAttention,  // scaled_dot_product_attention, whichever kernel it takes
};

struct KeptKernel {
  std::string module = {};  // the only one of its kind that this module calls itself
  KernelKind kind = KernelKind::kProduct;
  friend bool operator==(const KeptKernel&, const KeptKernel&) = default;
};

// The kernel that makes it; empty where no module calls it alone, or where it is of another kind.
std::optional<KeptKernel> kernel_of(const Graph& graph, TensorId tensor);

// The kernels that make these, each once; empty where some cannot be kept, or not alone: a kernel's
// results are kept together.
std::optional<std::vector<KeptKernel>> kept_kernels(const Graph& graph,
                                                    const std::vector<TensorId>& keep);

// Of the list what can be kept, with what the same kernels make and Backward reads.
std::vector<TensorId> keepable(const Graph& graph, const std::vector<TensorId>& keep);

// What of the op's results something reads: of what is kept, none may be useless.
std::vector<TensorId> read_results(const Graph& graph, OpId op);

}  // namespace cairn
