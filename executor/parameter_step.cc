#include "executor/parameter_step.h"

#include <cmath>

namespace cairn {

ParameterSteps::ParameterSteps(const Graph& graph, Memory& memory, OptimizerSettings settings)
    : graph_(graph), memory_(memory), settings_(settings), states_(graph.tensors.size()) {}

void ParameterSteps::load(TensorId parameter, const Array& value) {
  if (graph_.tensor(parameter).master_weight_bytes == 0) return;
  Array& master = states_[index(parameter)].master;
  master = memory_.make(DataType::kFloat32, value.shape);
  apply(memory_, master, value, Same{});
}

namespace {

std::size_t moment_count(SteppedBy rule) {
  switch (rule) {
    case SteppedBy::kAdamW:
      return 2;
    case SteppedBy::kSgdMomentum:
      return 1;
    case SteppedBy::kSgd:
      break;
  }
  return 0;
}

}  // namespace

void ParameterSteps::step(TensorId parameter, const Array& value, const Array& gradient) {
  State& state = states_[index(parameter)];
  const Array& stepped = state.master.is_there() ? state.master : value;
  while (state.moments.size() < moment_count(settings_.rule)) {
    state.moments.push_back(memory_.make_like(stepped));
    apply(memory_, state.moments.back(), state.moments.back(), Constant{0.0});
  }
  const double count = static_cast<double>(++state.step_count);
  with_real(stepped.type, [&](auto real) {
    using Real = decltype(real);
    if (settings_.rule == SteppedBy::kAdamW) {
      launch(memory_.device(), element_count(value),
             AdamWStep<Real>{elements(value), elements(gradient), elements(state.moments[0]),
                             elements(state.moments[1]),
                             state.master.is_there() ? elements(state.master) : Elements{},
                             state.master.is_there(), settings_.learning_rate, settings_.beta1,
                             settings_.beta2, settings_.epsilon, settings_.weight_decay,
                             1.0 - std::pow(settings_.beta1, count),
                             1.0 - std::pow(settings_.beta2, count)});
      return;
    }
    const bool has_momentum = !state.moments.empty();
    launch(memory_.device(), element_count(value),
           SgdStep<Real>{elements(value), elements(gradient),
                         has_momentum ? elements(state.moments[0]) : Elements{}, has_momentum,
                         state.step_count == 1, settings_.learning_rate, settings_.momentum});
  });
}

std::int64_t ParameterSteps::bytes() const {
  std::int64_t bytes = 0;
  for (const State& state : states_) {
    if (state.master.is_there()) bytes += state.master.block->bytes;
    for (const Array& moment : state.moments) bytes += moment.block->bytes;
  }
  return bytes;
}

}  // namespace cairn
