#pragma once

#include <cmath>
#include <cstdint>

#include "executor/functors/elements.h"

// One output element for each index. A function of one element has the derivative of torch's
// derivatives.yaml: of what is saved (x, or the result y) and of the result's gradient.

namespace cairn {

// out[i] = F(a[i])
template <class Real, class Function>
struct Map {
  static constexpr bool kIsElementwise = true;
  Elements out = {};
  Elements a = {};
  Function function = {};

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    out.set<Real>(i, function(a.get<Real>(i)));
  }
};

// out[i] = F(a[i], b[i])
template <class Real, class Function>
struct Map2 {
  static constexpr bool kIsElementwise = true;
  Elements out = {};
  Elements a = {};
  Elements b = {};
  Function function = {};

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    out.set<Real>(i, function(a.get<Real>(i), b.get<Real>(i)));
  }
};

struct Same {
  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real x) const {
    return x;
  }
};

struct Negated {
  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real x) const {
    return -x;
  }
};

// factor * x + term
struct Affine {
  double factor = 1.0;
  double term = 0.0;

  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real x) const {
    return static_cast<Real>(factor) * x + static_cast<Real>(term);
  }
};

struct Constant {
  double value = 0.0;

  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real) const {
    return static_cast<Real>(value);
  }
};

struct Sum {
  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real a, Real b) const {
    return a + b;
  }
};

struct Difference {
  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real a, Real b) const {
    return a - b;
  }
};

struct Product {
  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real a, Real b) const {
    return a * b;
  }
};

struct ScaledProduct {
  double factor = 1.0;

  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real a, Real b) const {
    return a * b * static_cast<Real>(factor);
  }
};

struct Quotient {
  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real a, Real b) const {
    return a / b;
  }
};

struct NegatedQuotientOfSquare {  // -a / b^2
  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real a, Real b) const {
    return -a / (b * b);
  }
};

struct Gelu {  // by erf
  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real x) const {
    return Real(0.5) * x * (Real(1) + std::erf(x * Real(0.70710678118654752440)));
  }
};

struct GeluGradient {
  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real gradient, Real x) const {
    const Real below = Real(0.5) * (Real(1) + std::erf(x * Real(0.70710678118654752440)));
    const Real density = std::exp(Real(-0.5) * x * x) * Real(0.39894228040143267794);
    return gradient * (below + x * density);
  }
};

struct Sigmoid {
  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real x) const {
    return Real(1) / (Real(1) + std::exp(-x));
  }
};

struct SigmoidGradient {  // of the result
  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real gradient, Real y) const {
    return gradient * y * (Real(1) - y);
  }
};

struct Silu {
  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real x) const {
    return x / (Real(1) + std::exp(-x));
  }
};

struct SiluGradient {
  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real gradient, Real x) const {
    const Real s = Real(1) / (Real(1) + std::exp(-x));
    return gradient * s * (Real(1) + x * (Real(1) - s));
  }
};

struct Tanh {
  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real x) const {
    return std::tanh(x);
  }
};

struct TanhGradient {  // of the result
  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real gradient, Real y) const {
    return gradient * (Real(1) - y * y);
  }
};

struct Relu {
  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real x) const {
    return x > Real(0) ? x : Real(0);
  }
};

struct ReluGradient {  // of the result
  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real gradient, Real y) const {
    return y > Real(0) ? gradient : Real(0);
  }
};

struct Clamp {
  double low = 0.0;
  double high = 0.0;

  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real x) const {
    const Real l = static_cast<Real>(low);
    const Real h = static_cast<Real>(high);
    return x < l ? l : x > h ? h : x;
  }
};

struct ClampGradient {
  double low = 0.0;
  double high = 0.0;

  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real gradient, Real x) const {
    return x >= static_cast<Real>(low) && x <= static_cast<Real>(high) ? gradient : Real(0);
  }
};

struct Power {
  double exponent = 2.0;

  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real x) const {
    if (exponent == 1.0) return x;
    if (exponent == 2.0) return x * x;
    if (exponent == 3.0) return x * x * x;
    return std::pow(x, static_cast<Real>(exponent));
  }
};

struct Rsqrt {
  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real x) const {
    return Real(1) / std::sqrt(x);
  }
};

struct RsqrtGradient {  // of the result
  template <class Real>
  CAIRN_HOST_DEVICE Real operator()(Real gradient, Real y) const {
    return Real(-0.5) * gradient * y * y * y;
  }
};

}  // namespace cairn
