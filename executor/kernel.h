#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "executor/array.h"
#include "executor/launch.h"
#include "executor/memory.h"
#include "graph/graph.h"

// A kernel: how an op of one kind is run, forward and backward. Its tensors take their shapes and
// types from what it is given and from the op's attributes, never from the graph's tensors, so
// that what the graph says of memory is held against what was really made.

namespace cairn {

// One Compute or Recompute. The kernel fills outputs and auxiliaries, in the op's order.
struct ForwardRun {
  Memory& memory;
  const Graph& graph;  // for custom ops, of which it is all that is known
  const Op& op;
  std::vector<Array> inputs = {};  // parameters last
  std::uint64_t seed = 0;          // of random numbers; the same when recomputed
  bool keeps_auxiliaries = true;   // false: no Backward will read them
  std::vector<Array> outputs = {};
  std::vector<Array> auxiliaries = {};
  std::vector<Array> workspaces = {};  // alive to the end of the step
};

// The gradient of an input. Of a view PyTorch's engine owns no more than a reference: it adds
// nothing into it.
struct InputGradient {
  Array array = {};
  bool is_view = false;
};

// One Backward. What autograd did not save has type and shape, but no elements: a kernel that reads
// them stops the run.
struct BackwardRun {
  Memory& memory;
  const Graph& graph;  // as above
  const Op& op;
  std::vector<Array> inputs = {};
  std::vector<Array> outputs = {};
  std::vector<Array> auxiliaries = {};
  std::vector<Array> output_gradients = {};   // not there where the loss does not depend on one
  std::vector<bool> wants = {};               // per input: its gradient is asked for
  std::vector<InputGradient> gradients = {};  // per input, to be filled where it is wanted
  std::vector<Array> workspaces = {};
};

struct Kernel {
  std::string_view kind = {};
  void (*forward)(ForwardRun&) = nullptr;
  void (*backward)(BackwardRun&) = nullptr;
  // Why the kernel cannot run an op of its kind; "" where it can.
  std::string (*refusal)(const Graph&, const Op&) = nullptr;
};

// The kernel of an op kind, or nullptr.
const Kernel* find_kernel(std::string_view kind);

// --- For kernels
// ----------------------------------------------------------------------------------

// Calls `action` with a number of the type to compute in: double where that is the type, else
// float.
template <class Action>
void with_real(DataType type, const Action& action) {
  if (type == DataType::kFloat64) {
    action(double{});
  } else {
    action(float{});
  }
}

// fp32, or fp64 where that is the type.
DataType statistics_type(DataType type);

// In the shape of out; an array of as many elements has them in the same order, whatever its dims.
inline Elements elements_for(const Array& array, const Array& out) {
  return elements(element_count(array) == element_count(out) ? array : broadcast(array, out.shape));
}

// out = F(a), out = F(a, b), each seen in the shape of out.
template <class Function>
void apply(Memory& memory, const Array& out, const Array& a, const Function& function) {
  with_real(out.type, [&](auto real) {
    launch(memory.device(), element_count(out),
           Map<decltype(real), Function>{elements(out), elements_for(a, out), function});
  });
}
template <class Function>
void apply(Memory& memory, const Array& out, const Array& a, const Array& b,
           const Function& function) {
  with_real(out.type, [&](auto real) {
    launch(memory.device(), element_count(out),
           Map2<decltype(real), Function>{elements(out), elements_for(a, out), elements_for(b, out),
                                          function});
  });
}

// `gradient`, made at the output's shape and type, as that of an operand that was broadcast or
// cast: itself where there is nothing to do, else a new array.
Array summed_to(Memory& memory, const Array& gradient, const Array& operand);

// c = a b, or c = c + a b, over the rows of all dims but the last two, which are the matrices'.
void multiply(Memory& memory, const Array& a, bool a_is_transposed, const Array& b,
              bool b_is_transposed, const Array& c, bool adds = false);

}  // namespace cairn
