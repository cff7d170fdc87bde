#pragma once

#include <vector>

#include "executor/kernel.h"

// The kernels of this folder, by file; kernel.cc's find_kernel looks through them.

namespace cairn {

// Backward of an op whose output is a part of its input: zeros, with the output's gradient there.
template <Array (*kPart)(const Op&, const Array&)>
void part_backward(BackwardRun& run) {
  const Array out = run.memory.make_zeros_like(run.inputs[0]);
  apply(run.memory, kPart(run.op, out), run.output_gradients[0], Same{});
  run.gradients[0].array = out;
}

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
