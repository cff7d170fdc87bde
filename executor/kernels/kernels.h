#pragma once

#include <vector>

#include "executor/kernel.h"

// The kernels of this folder, by file; kernel.cc's find_kernel looks through them.

namespace cairn {

std::vector<Kernel> pointwise_kernels();
std::vector<Kernel> binary_kernels();
std::vector<Kernel> row_kernels();
std::vector<Kernel> norm_kernels();
std::vector<Kernel> linear_kernels();
std::vector<Kernel> table_kernels();
std::vector<Kernel> attention_kernels();
std::vector<Kernel> loss_kernels();
std::vector<Kernel> layout_kernels();
std::vector<Kernel> image_kernels();
std::vector<Kernel> gated_kernels();
std::vector<Kernel> head_kernels();
std::vector<Kernel> token_kernels();
std::vector<Kernel> expert_kernels();
std::vector<Kernel> adapter_kernels();
std::vector<Kernel> linear_loss_kernels();
std::vector<Kernel> custom_kernels();

// Of kinds that are nothing without their number.
std::string refuse_without_constant(const Graph& graph, const Op& op);

}  // namespace cairn
