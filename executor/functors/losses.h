#pragma once

#include <cmath>
#include <cstdint>

#include "executor/functors/elements.h"

// The mean loss over rows of classes and its gradients. The one index of a Mean is 0.

namespace cairn {

// out = -mean of log_probability[row, label[row]]
template <class Real>
struct MeanNll {
  Elements out = {};
  Elements log_probability = {};
  Elements labels = {};
  std::int64_t row_count = 0;
  std::int64_t width = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t) const {
    double sum = 0.0;
    for (std::int64_t row = 0; row < row_count; ++row) {
      sum += log_probability.get<double>(row * width + labels.integer(row));
    }
    out.set<Real>(0, static_cast<Real>(-sum / static_cast<double>(row_count)));
  }
};

// Every element of the gradient: -g / rows where the class is the label.
template <class Real>
struct NllGradient {
  Elements out = {};
  Elements gradient = {};  // one element
  Elements labels = {};
  std::int64_t row_count = 0;
  std::int64_t width = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / width;
    const bool is_label = i - row * width == labels.integer(row);
    const Real g = gradient.get<Real>(0) / static_cast<Real>(row_count);
    out.set<Real>(i, is_label ? -g : Real(0));
  }
};

// out = -mean of std::log(softmax[row, label[row]])
template <class Real>
struct MeanLogOf {
  Elements out = {};
  Elements softmax = {};
  Elements labels = {};
  std::int64_t row_count = 0;
  std::int64_t width = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t) const {
    double sum = 0.0;
    for (std::int64_t row = 0; row < row_count; ++row) {
      sum += std::log(softmax.get<double>(row * width + labels.integer(row)));
    }
    out.set<Real>(0, static_cast<Real>(-sum / static_cast<double>(row_count)));
  }
};

// (softmax - one of the label) * g / rows
template <class Real>
struct CrossEntropyGradient {
  Elements out = {};
  Elements gradient = {};  // one element
  Elements softmax = {};
  Elements labels = {};
  std::int64_t row_count = 0;
  std::int64_t width = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / width;
    const Real one = i - row * width == labels.integer(row) ? Real(1) : Real(0);
    const Real g = gradient.get<Real>(0) / static_cast<Real>(row_count);
    out.set<Real>(i, (softmax.get<Real>(i) - one) * g);
  }
};

}  // namespace cairn
