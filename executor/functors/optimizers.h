#pragma once

#include <cmath>
#include <cstdint>

#include "executor/functors/elements.h"

// One element of a parameter for each index: the fused optimizers.

namespace cairn {

// AdamW (Loshchilov and Hutter 2019), as torch.optim writes it. Where there is a master copy, that
// is stepped and the parameter takes its value.
template <class Real>
struct AdamWStep {
  Elements parameter = {};
  Elements gradient = {};
  Elements first_moment = {};
  Elements second_moment = {};
  Elements master = {};
  bool has_master = false;
  double learning_rate = 0.0;
  double beta1 = 0.0;
  double beta2 = 0.0;
  double epsilon = 0.0;
  double weight_decay = 0.0;
  double correction1 = 1.0;  // 1 - beta1^step
  double correction2 = 1.0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const Real g = gradient.get<Real>(i);
    const Real b1 = static_cast<Real>(beta1);
    const Real b2 = static_cast<Real>(beta2);
    const Real m = b1 * first_moment.get<Real>(i) + (Real(1) - b1) * g;
    const Real v = b2 * second_moment.get<Real>(i) + (Real(1) - b2) * g * g;
    first_moment.set<Real>(i, m);
    second_moment.set<Real>(i, v);
    const Elements& stepped = has_master ? master : parameter;
    const Real old = stepped.get<Real>(i);
    const Real rate = static_cast<Real>(learning_rate);
    const Real decayed = old - rate * static_cast<Real>(weight_decay) * old;
    const Real root =
        std::sqrt(v) / static_cast<Real>(std::sqrt(correction2)) + static_cast<Real>(epsilon);
    const Real stepped_value = decayed - rate / static_cast<Real>(correction1) * m / root;
    stepped.set<Real>(i, stepped_value);
    if (has_master) parameter.set<Real>(i, stepped_value);
  }
};

// Without momentum where has_momentum is false; as torch.optim.SGD, undamped.
template <class Real>
struct SgdStep {
  Elements parameter = {};
  Elements gradient = {};
  Elements momentum = {};
  bool has_momentum = false;
  bool is_first = false;  // the momentum begins as the gradient
  double learning_rate = 0.0;
  double momentum_factor = 0.0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    Real g = gradient.get<Real>(i);
    if (has_momentum) {
      if (!is_first) g += static_cast<Real>(momentum_factor) * momentum.get<Real>(i);
      momentum.set<Real>(i, g);
    }
    parameter.set<Real>(i, parameter.get<Real>(i) - static_cast<Real>(learning_rate) * g);
  }
};

}  // namespace cairn
