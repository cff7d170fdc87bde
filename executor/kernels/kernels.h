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
std::vector<Kernel> custom_kernels();

}  // namespace cairn
