#pragma once

#include <cmath>
#include <cstdint>

#include "executor/functors/elements.h"

// LayerNorm and RMSNorm over the last dim: y = (x - mean) * rstd * weight + bias, where RMSNorm has
// no mean and no bias.

namespace cairn {

struct NormTensors {
  Elements x = {};
  Elements weight = {};
  Elements mean = {};  // LayerNorm's
  Elements rstd = {};
  std::int64_t width = 0;
  bool is_centred = false;  // LayerNorm

  template <class Real>
  CAIRN_HOST_DEVICE Real normed(std::int64_t row, std::int64_t i) const {
    const Real centre = is_centred ? mean.get<Real>(row) : Real(0);
    return (x.get<Real>(row * width + i) - centre) * rstd.get<Real>(row);
  }
};

template <class Real>
struct RowNorm {
  NormTensors norm = {};
  Elements out = {};
  Elements bias = {};
  bool has_bias = false;
  double epsilon = 0.0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t row) const {
    const std::int64_t width = norm.width;
    const Real count = static_cast<Real>(width);
    Real mean = Real(0);
    if (norm.is_centred) {
      for (std::int64_t i = 0; i < width; ++i) mean += norm.x.get<Real>(row * width + i);
      mean /= count;
      norm.mean.set<Real>(row, mean);
    }
    Real square = Real(0);
    for (std::int64_t i = 0; i < width; ++i) {
      const Real x = norm.x.get<Real>(row * width + i) - mean;
      square += x * x;
    }
    norm.rstd.set<Real>(row, Real(1) / std::sqrt(square / count + static_cast<Real>(epsilon)));
    for (std::int64_t i = 0; i < width; ++i) {
      const Real scaled = norm.normed<Real>(row, i) * norm.weight.get<Real>(i);
      out.set<Real>(row * width + i, has_bias ? scaled + bias.get<Real>(i) : scaled);
    }
  }
};

// rstd * (g w - mean(g w) - normed * mean(g w normed)), without the first mean for RMSNorm.
template <class Real>
struct RowNormGradient {
  NormTensors norm = {};
  Elements out = {};
  Elements gradient = {};

  CAIRN_HOST_DEVICE void operator()(std::int64_t row) const {
    const std::int64_t width = norm.width;
    Real sum = Real(0);
    Real dot = Real(0);
    for (std::int64_t i = 0; i < width; ++i) {
      const Real g = gradient.get<Real>(row * width + i) * norm.weight.get<Real>(i);
      sum += g;
      dot += g * norm.normed<Real>(row, i);
    }
    const Real count = static_cast<Real>(width);
    const Real mean = norm.is_centred ? sum / count : Real(0);
    for (std::int64_t i = 0; i < width; ++i) {
      const Real g = gradient.get<Real>(row * width + i) * norm.weight.get<Real>(i);
      const Real along = norm.normed<Real>(row, i) * dot / count;
      out.set<Real>(row * width + i, norm.rstd.get<Real>(row) * (g - mean - along));
    }
  }
};

// Of the weight: the sum of g * normed over the rows.
template <class Real>
struct NormWeightGradient {
  NormTensors norm = {};
  Elements out = {};
  Elements gradient = {};
  std::int64_t row_count = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    Real sum = Real(0);
    for (std::int64_t row = 0; row < row_count; ++row) {
      sum += gradient.get<Real>(row * norm.width + i) * norm.normed<Real>(row, i);
    }
    out.set<Real>(i, sum);
  }
};

}  // namespace cairn
