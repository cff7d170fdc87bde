#pragma once

#include <cmath>
#include <cstdint>

#include "executor/functors/elements.h"
#include "executor/functors/pointwise.h"

// Gated activations, act(gate) * up, and rotary positions: what makes two results of two operands
// at once, and may write them over these.

namespace cairn {

// The tanh form of GELU (Hendrycks and Gimpel 2016), and its derivative.
struct GeluTanh {
  template <class Real>
  CAIRN_HOST_DEVICE static Real inside(Real x) {
    return std::tanh(Real(0.79788456080286535588) * (x + Real(0.044715) * x * x * x));
  }
  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real x) const {
    return Real(0.5) * x * (Real(1) + inside(x));
  }
};

struct GeluTanhGradient {
  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real gradient, Real x) const {
    const Real t = GeluTanh::inside(x);
    const Real slope = Real(0.79788456080286535588) * (Real(1) + Real(0.134145) * x * x);
    return gradient * (Real(0.5) * (Real(1) + t) + Real(0.5) * x * (Real(1) - t * t) * slope);
  }
};

// a of gate, times up.
template <class Activation>
struct GatedBy {
  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real gate, Real up) const {
    return Activation{}(gate)*up;
  }
};

template <class Real, class Activation, class ActivationGradient>
struct GatedGradient {
  Elements gate_gradient = {};  // may be gate itself
  Elements up_gradient = {};    // may be up itself
  Elements gate = {};
  Elements up = {};
  Elements gradient = {};

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const Real g = gradient.get<Real>(i);
    const Real x = gate.get<Real>(i);
    const Real y = up.get<Real>(i);
    gate_gradient.set<Real>(i, ActivationGradient{}(g * y, x));
    up_gradient.set<Real>(i, g * Activation{}(x));
  }
};

// Both halves of each head turned against each other by the first half of the tables' columns
// (liger-kernel 0.8.5, ops/rope.py); backward turns the other way. One index a pair. `out` may be
// x.
template <class Real>
struct Rotate {
  Elements out = {};  // [samples, tokens, heads, head_dim]
  Elements x = {};
  Elements cos = {};  // [samples or 1, tokens, table_width]
  Elements sin = {};
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t table_width = 0;
  std::int64_t table_samples = 1;
  bool is_backward = false;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t half = head_dim / 2;
    const std::int64_t row = i / half;
    const std::int64_t column = i - row * half;
    const std::int64_t token = row / heads % tokens;
    const std::int64_t sample = table_samples == 1 ? 0 : row / heads / tokens;
    const std::int64_t at_table = (sample * tokens + token) * table_width + column;
    const Real c = cos.get<Real>(at_table);
    const Real s = is_backward ? -sin.get<Real>(at_table) : sin.get<Real>(at_table);
    const std::int64_t at = row * head_dim + column;
    const Real a = x.get<Real>(at);
    const Real b = x.get<Real>(at + half);
    out.set<Real>(at, a * c - b * s);
    out.set<Real>(at + half, b * c + a * s);
  }
};

// Complex numbers, neighbours in the last dim, by those of a table, or their conjugates. One index
// a number.
template <class Real>
struct ComplexTableProduct {
  Elements out = {};
  Elements x = {};
  Elements table = {};  // in the shape of x, its last dim aside
  std::int64_t width = 0;
  std::int64_t table_width = 0;
  bool is_conjugated = false;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = 2 * i / width;
    const std::int64_t column = (2 * i - row * width) % table_width;
    const Real c = table.get<Real>(row * table_width + column);
    const Real d = table.get<Real>(row * table_width + column + 1);
    const Real s = is_conjugated ? -d : d;
    const Real a = x.get<Real>(2 * i);
    const Real b = x.get<Real>(2 * i + 1);
    out.set<Real>(2 * i, a * c - b * s);
    out.set<Real>(2 * i + 1, b * c + a * s);
  }
};

}  // namespace cairn
