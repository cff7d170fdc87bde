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

// Of each row its maximum and the logarithm of the sum below it: log_sum[row] = log of the sum of
// exp(x - maximum).
template <class Real>
struct RowLogSum {
  Elements maximum = {};
  Elements log_sum = {};
  Elements x = {};
  std::int64_t width = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t row) const {
    Real largest = x.get<Real>(row * width);
    for (std::int64_t i = 1; i < width; ++i) {
      const Real value = x.get<Real>(row * width + i);
      if (value > largest) largest = value;
    }
    Real sum = Real(0);
    for (std::int64_t i = 0; i < width; ++i) {
      sum += std::exp(x.get<Real>(row * width + i) - largest);
    }
    maximum.set<Real>(row, largest);
    log_sum.set<Real>(row, std::log(sum));
  }
};

// Logits of rows with their labels, of a loss that is the mean over `total_rows`. With a cap, the
// loss is of cap * tanh(x / cap).
struct LossRows {
  Elements logits = {};
  Elements labels = {};
  std::int64_t first_label = 0;  // of the first row
  std::int64_t width = 0;
  std::int64_t total_rows = 0;
  double cap = 0.0;

  template <class Real>
  CAIRN_HOST_DEVICE Real value(std::int64_t row, std::int64_t i) const {
    const Real x = logits.get<Real>(row * width + i);
    const Real c = static_cast<Real>(cap);
    return cap == 0.0 ? x : c * std::tanh(x / c);
  }
  // Of value by the logit.
  template <class Real>
  CAIRN_HOST_DEVICE Real slope(Real value) const {
    const Real t = value / static_cast<Real>(cap);
    return cap == 0.0 ? Real(1) : Real(1) - t * t;
  }
  CAIRN_HOST_DEVICE std::int64_t label(std::int64_t row) const {
    return labels.integer(first_label + row);
  }
};

// The loss of a row, and the logarithm of the sum of exp over its classes.
template <class Real>
struct RowLoss {
  LossRows of = {};
  Elements loss = {};       // from first_label on
  Elements logsumexp = {};  // the same

  CAIRN_HOST_DEVICE void operator()(std::int64_t row) const {
    Real largest = of.value<Real>(row, 0);
    for (std::int64_t i = 1; i < of.width; ++i) {
      const Real value = of.value<Real>(row, i);
      if (value > largest) largest = value;
    }
    Real sum = Real(0);
    for (std::int64_t i = 0; i < of.width; ++i) sum += std::exp(of.value<Real>(row, i) - largest);
    const Real log_sum = largest + std::log(sum);
    logsumexp.set<Real>(of.first_label + row, log_sum);
    loss.set<Real>(of.first_label + row, log_sum - of.value<Real>(row, of.label(row)));
  }
};

// Over the logits: their gradient, (softmax - one of the label) / total_rows. One index an element.
template <class Real>
struct LogitGradient {
  LossRows of = {};
  Elements logsumexp = {};
  Elements out = {};  // may be the logits

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / of.width;
    const std::int64_t column = i - row * of.width;
    const Real value = of.value<Real>(row, column);
    const Real one = column == of.label(row) ? Real(1) : Real(0);
    const Real softmax = std::exp(value - logsumexp.get<Real>(of.first_label + row));
    out.set<Real>(i, (softmax - one) * of.slope(value) / static_cast<Real>(of.total_rows));
  }
};

// The mean loss, and its gradient, of rows whose maximum and log-sum are known.
template <class Real>
struct MeanLossOf {
  Elements out = {};
  Elements maximum = {};
  Elements log_sum = {};
  LossRows of = {};

  CAIRN_HOST_DEVICE void operator()(std::int64_t) const {
    double sum = 0.0;
    for (std::int64_t row = 0; row < of.total_rows; ++row) {
      sum += maximum.get<double>(row) - of.value<double>(row, of.label(row)) +
             log_sum.get<double>(row);
    }
    out.set<double>(0, sum / static_cast<double>(of.total_rows));
  }
};

template <class Real>
struct CompiledLossGradient {
  Elements out = {};
  Elements gradient = {};  // one element
  Elements maximum = {};
  Elements log_sum = {};
  LossRows of = {};

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / of.width;
    const std::int64_t column = i - row * of.width;
    const Real below = of.value<Real>(row, column) - maximum.get<Real>(row);
    const Real softmax = std::exp(below - log_sum.get<Real>(row));
    const Real one = column == of.label(row) ? Real(1) : Real(0);
    const Real g = gradient.get<Real>(0) / static_cast<Real>(of.total_rows);
    out.set<Real>(i, (softmax - one) * g);
  }
};

// out = the mean of x, added up in double. Its one index is 0.
struct MeanOf {
  Elements out = {};
  Elements x = {};
  std::int64_t count = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t) const {
    double sum = 0.0;
    for (std::int64_t i = 0; i < count; ++i) sum += x.get<double>(i);
    out.set<double>(0, sum / static_cast<double>(count));
  }
};

// out[i] += factor * the sum of column i of x.
template <class Real>
struct AddColumnSum {
  Elements out = {};
  Elements x = {};
  std::int64_t rows = 0;
  std::int64_t width = 0;
  double factor = 1.0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    Real sum = Real(0);
    for (std::int64_t row = 0; row < rows; ++row) sum += x.get<Real>(row * width + i);
    out.set<Real>(i, out.get<Real>(i) + static_cast<Real>(factor) * sum);
  }
};

}  // namespace cairn
