#pragma once

#include <cstdint>
#include <vector>

#include "executor/kernel.h"
#include "graph/graph.h"

// The optimizer of an executor: fused, one kernel a parameter, without temporaries.

namespace cairn {

enum class SteppedBy { kAdamW, kSgd, kSgdMomentum };

struct OptimizerSettings {
  SteppedBy rule = SteppedBy::kAdamW;
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  double momentum = 0.9;
};

class ParameterSteps {
 public:
  ParameterSteps(const Graph& graph, Memory& memory, OptimizerSettings settings);

  // A copy in fp32, where the graph has one.
  void load(TensorId parameter, const Array& value);
  void step(TensorId parameter, const Array& value, const Array& gradient);
  std::int64_t bytes() const;

 private:
  struct State {
    std::int64_t step_count = 0;
    Array master = {};
    std::vector<Array> moments = {};
  };

  const Graph& graph_;
  Memory& memory_;
  OptimizerSettings settings_ = {};
  std::vector<State> states_ = {};
};

}  // namespace cairn
