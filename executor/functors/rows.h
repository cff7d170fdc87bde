#pragma once

#include <cmath>
#include <cstdint>

#include "executor/functors/elements.h"

// One row, or one column, for each index: sums run in one order, so that every run has the same
// bits. Rows are the last dim.

namespace cairn {

// out[row] = factor * the sum of the row
template <class Real>
struct RowSum {
  Elements out = {};
  Elements x = {};
  std::int64_t width = 0;
  double factor = 1.0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t row) const {
    Real sum = Real(0);
    for (std::int64_t i = 0; i < width; ++i) sum += x.get<Real>(row * width + i);
    out.set<Real>(row, static_cast<Real>(factor) * sum);
  }
};

// out[i] = the sum of x over the elements that were broadcast from element i: x is seen as
// [outer, kept, inner], i runs over kept.
template <class Real>
struct OuterSum {
  Elements out = {};
  Elements x = {};
  std::int64_t outer = 0;
  std::int64_t kept = 0;
  std::int64_t inner = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    Real sum = Real(0);
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t j = 0; j < inner; ++j) {
        sum += x.get<Real>((o * kept + i) * inner + j);
      }
    }
    out.set<Real>(i, sum);
  }
};

// out = the sums of x, seen as [outer, summed, inner], over its middle. One index an element.
template <class Real>
struct MiddleSum {
  Elements out = {};
  Elements x = {};
  std::int64_t summed = 0;
  std::int64_t inner = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t begin = i / inner * summed * inner + i % inner;
    Real sum = Real(0);
    for (std::int64_t j = 0; j < summed; ++j) sum += x.get<Real>(begin + j * inner);
    out.set<Real>(i, sum);
  }
};

// The root of the sum of a row's squares.
template <class Real>
struct RowLength {
  Elements out = {};
  Elements x = {};
  std::int64_t width = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t row) const {
    Real sum = Real(0);
    for (std::int64_t i = 0; i < width; ++i) {
      const Real value = x.get<Real>(row * width + i);
      sum += value * value;
    }
    out.set<Real>(row, std::sqrt(sum));
  }
};

template <class Real>
struct FillIdentity {
  Elements out = {};
  std::int64_t width = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    out.set<Real>(i, i / width == i % width ? Real(1) : Real(0));
  }
};

// With `rows` of a matrix, row i of it sees its columns up to i; the others become 0.
template <class Real>
struct RowSoftmax {
  Elements out = {};
  Elements x = {};
  std::int64_t width = 0;
  bool is_log = false;
  std::int64_t rows = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t row) const {
    const std::int64_t begin = row * width;
    const std::int64_t seen = rows > 0 && row % rows + 1 < width ? row % rows + 1 : width;
    Real largest = x.get<Real>(begin);
    for (std::int64_t i = 1; i < seen; ++i) {
      const Real value = x.get<Real>(begin + i);
      if (value > largest) largest = value;
    }
    Real sum = Real(0);
    for (std::int64_t i = 0; i < seen; ++i) sum += std::exp(x.get<Real>(begin + i) - largest);
    const Real log_sum = std::log(sum);
    for (std::int64_t i = 0; i < seen; ++i) {
      const Real below = x.get<Real>(begin + i) - largest;
      out.set<Real>(begin + i, is_log ? below - log_sum : std::exp(below) / sum);
    }
    for (std::int64_t i = seen; i < width; ++i) out.set<Real>(begin + i, Real(0));
  }
};

// Of a softmax: y * (g - sum(g * y)); of its logarithm: g - std::exp(y) * sum(g).
template <class Real>
struct RowSoftmaxGradient {
  Elements out = {};
  Elements gradient = {};
  Elements y = {};
  std::int64_t width = 0;
  bool is_log = false;

  CAIRN_HOST_DEVICE void operator()(std::int64_t row) const {
    const std::int64_t begin = row * width;
    Real sum = Real(0);
    for (std::int64_t i = begin; i < begin + width; ++i) {
      const Real g = gradient.get<Real>(i);
      sum += is_log ? g : g * y.get<Real>(i);
    }
    for (std::int64_t i = begin; i < begin + width; ++i) {
      const Real g = gradient.get<Real>(i);
      const Real result = y.get<Real>(i);
      out.set<Real>(i, is_log ? g - std::exp(result) * sum : result * (g - sum));
    }
  }
};

}  // namespace cairn
