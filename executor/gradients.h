#pragma once

#include <cstdint>
#include <vector>

#include "executor/holders.h"
#include "executor/kernel.h"
#include "graph/graph.h"

// Gradients as PyTorch's engine holds them (torch/csrc/autograd/input_buffer.cpp and
// functions/accumulate_grad.h): the first contribution is taken as it is, a later one is added into
// it where nothing else reads that memory, and a parameter's gradient ends as memory of its own.

namespace cairn {

class Gradients {
 public:
  Gradients(const Graph& graph, Memory& memory);

  const Array& operator[](TensorId id) const { return held_[id]; }
  bool holds(TensorId id) const { return held_.holds(id); }
  // Those that were kept are zeroed (zero_grad(set_to_none=False)); the next batch has none yet.
  void begin_training_step();
  // The gradient that Backward starts from: ones.
  void start_from(TensorId loss, const Array& value);

  // What one Backward makes for an input of its op.
  void contribute(TensorId id, const InputGradient& gradient);
  // Behind the frees of that Backward: sums that could not be made in place, then parameters whose
  // last contribution has come.
  void add_late_sums();
  void settle_parameters();
  void release(TensorId id);

 private:
  struct LateSum {
    TensorId id = kNoTensor;
    Array contribution = {};
  };

  Holders& place_of(TensorId id);
  void add(Holders& holders, TensorId id, const InputGradient& gradient);
  void settle_parameter(TensorId id);

  const Graph& graph_;
  Memory& memory_;
  Holders held_;
  Holders gathered_;  // of a parameter whose gradient is of an earlier pass, several contributions
  std::vector<bool> is_view_ = {};
  std::vector<bool> is_of_earlier_pass_ = {};
  std::vector<std::int32_t> contributions_ = {};  // of a pass, in all
  std::vector<std::int32_t> contributed_ = {};
  std::vector<LateSum> sums_ = {};
  std::vector<TensorId> completed_ = {};
};

}  // namespace cairn
