#pragma once

#include <cstdint>

// What launches a functor as a kernel. No header of CUDA is needed to call it.

namespace cairn {

// Puts functor(i) for every i of [0, count) into a stream; a cudaError_t is returned.
using Launcher = int (*)(const void* functor, std::int64_t count, void* stream);

// Of the functor at a place in AllFunctors (executor/functors/list.h).
Launcher launcher_of(int place);

}  // namespace cairn
