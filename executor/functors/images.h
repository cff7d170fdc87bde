#pragma once

#include <cmath>
#include <cstdint>

#include "executor/functors/elements.h"

// Images, [batch, channels, height, width], and windows that slide over them. Everything that one
// window or pixel needs is added up by one index, in one order.

namespace cairn {

// A convolution from `image` to `out`: out[n, o, y, x] is the sum over the window that begins at
// (y * stride - padding, x * stride - padding) of the image's channels of o's group.
struct Windows {
  std::int64_t channels = 0;  // of the image
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t out_channels = 0;
  std::int64_t out_height = 0;
  std::int64_t out_width = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t groups = 1;

  CAIRN_HOST_DEVICE std::int64_t image_at(std::int64_t n, std::int64_t channel, std::int64_t y,
                                          std::int64_t x) const {
    return ((n * channels + channel) * height + y) * width + x;
  }
  CAIRN_HOST_DEVICE bool is_inside(std::int64_t y, std::int64_t x) const {
    return y >= 0 && y < height && x >= 0 && x < width;
  }
  // The window along one dim that reads pixel `at` at its place k, or -1.
  CAIRN_HOST_DEVICE std::int64_t window_of(std::int64_t at, std::int64_t k,
                                           std::int64_t count) const {
    const std::int64_t begin = at + padding - k;
    if (begin < 0 || begin % stride != 0 || begin / stride >= count) return -1;
    return begin / stride;
  }

  // Calls visit(y, x) for each pixel of the image in the window (out_y, out_x), row by row.
  template <class Visit>
  CAIRN_HOST_DEVICE void visit_pixels(std::int64_t out_y, std::int64_t out_x,
                                      const Visit& visit) const {
    for (std::int64_t ky = 0; ky < kernel; ++ky) {
      for (std::int64_t kx = 0; kx < kernel; ++kx) {
        const std::int64_t y = out_y * stride - padding + ky;
        const std::int64_t x = out_x * stride - padding + kx;
        if (is_inside(y, x)) visit(y, x);
      }
    }
  }

  // Calls visit(k, i) for each window that reads the pixel (y, x): at its place k of
  // [kernel, kernel], and it is window i of [out_height, out_width].
  template <class Visit>
  CAIRN_HOST_DEVICE void visit_windows(std::int64_t y, std::int64_t x, const Visit& visit) const {
    for (std::int64_t ky = 0; ky < kernel; ++ky) {
      const std::int64_t out_y = window_of(y, ky, out_height);
      if (out_y < 0) continue;
      for (std::int64_t kx = 0; kx < kernel; ++kx) {
        const std::int64_t out_x = window_of(x, kx, out_width);
        if (out_x >= 0) visit(ky * kernel + kx, out_y * out_width + out_x);
      }
    }
  }
};

// Windows as the columns of a matrix, so that a convolution of one sample is a product of matrices:
// row (c, ky, kx) of `columns` is what each window reads there, zero outside of the image.
template <class Real>
struct ImageColumns {
  Windows windows = {};
  Elements columns = {};  // [channels * kernel * kernel, out_height * out_width]
  Elements image = {};    // of one sample

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const Windows& w = windows;
    const std::int64_t x = i % w.out_width;
    const std::int64_t y = i / w.out_width % w.out_height;
    const std::int64_t row = i / w.out_width / w.out_height;
    const std::int64_t at_x = x * w.stride - w.padding + row % w.kernel;
    const std::int64_t at_y = y * w.stride - w.padding + row / w.kernel % w.kernel;
    const std::int64_t channel = row / w.kernel / w.kernel;
    columns.set<Real>(
        i, w.is_inside(at_y, at_x) ? image.get<Real>(w.image_at(0, channel, at_y, at_x)) : Real(0));
  }
};

// The other way: each pixel is the sum of the places of the columns that read it.
template <class Real>
struct ColumnsImage {
  Windows windows = {};
  Elements image = {};
  Elements columns = {};

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const Windows& w = windows;
    const std::int64_t x = i % w.width;
    const std::int64_t y = i / w.width % w.height;
    const std::int64_t channel = i / w.width / w.height;
    const std::int64_t places = w.kernel * w.kernel;
    const std::int64_t out_pixels = w.out_height * w.out_width;
    Real sum = Real(0);
    w.visit_windows(y, x, [&](std::int64_t k, std::int64_t window) {
      sum += columns.get<Real>((channel * places + k) * out_pixels + window);
    });
    image.set<Real>(i, sum);
  }
};

// --- Pools: windows of one channel ---------------------------------------------------------------

template <class Real>
struct MaxPool {
  Windows windows = {};
  Elements out = {};
  Elements indices = {};  // of the maximum, within its channel's pixels
  Elements image = {};

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const Windows& w = windows;
    const std::int64_t x = i % w.out_width;
    const std::int64_t y = i / w.out_width % w.out_height;
    const std::int64_t plane = i / w.out_width / w.out_height;
    std::int64_t found = -1;
    Real largest = Real(0);
    w.visit_pixels(y, x, [&](std::int64_t at_y, std::int64_t at_x) {
      const std::int64_t at = at_y * w.width + at_x;
      const Real value = image.get<Real>(plane * w.height * w.width + at);
      if (found >= 0 && !(value > largest)) return;
      found = at;
      largest = value;
    });
    out.set<Real>(i, largest);
    indices.set_integer(i, found);
  }
};

template <class Real>
struct MaxPoolGradient {
  Windows windows = {};
  Elements image_gradient = {};
  Elements gradient = {};
  Elements indices = {};

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const Windows& w = windows;
    const std::int64_t x = i % w.width;
    const std::int64_t y = i / w.width % w.height;
    const std::int64_t plane = i / w.width / w.height;
    Real sum = Real(0);
    w.visit_windows(y, x, [&](std::int64_t, std::int64_t window) {
      const std::int64_t at = plane * w.out_height * w.out_width + window;
      if (indices.integer(at) == y * w.width + x) sum += gradient.get<Real>(at);
    });
    image_gradient.set<Real>(i, sum);
  }
};

// The mean of a window, padding counted (torch's count_include_pad).
template <class Real>
struct AveragePool {
  Windows windows = {};
  Elements out = {};
  Elements image = {};

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const Windows& w = windows;
    const std::int64_t x = i % w.out_width;
    const std::int64_t y = i / w.out_width % w.out_height;
    const std::int64_t plane = i / w.out_width / w.out_height;
    Real sum = Real(0);
    w.visit_pixels(y, x, [&](std::int64_t at_y, std::int64_t at_x) {
      sum += image.get<Real>((plane * w.height + at_y) * w.width + at_x);
    });
    out.set<Real>(i, sum / static_cast<Real>(w.kernel * w.kernel));
  }
};

template <class Real>
struct AveragePoolGradient {
  Windows windows = {};
  Elements image_gradient = {};
  Elements gradient = {};

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const Windows& w = windows;
    const std::int64_t x = i % w.width;
    const std::int64_t y = i / w.width % w.height;
    const std::int64_t plane = i / w.width / w.height;
    Real sum = Real(0);
    w.visit_windows(y, x, [&](std::int64_t, std::int64_t window) {
      sum += gradient.get<Real>(plane * w.out_height * w.out_width + window);
    });
    image_gradient.set<Real>(i, sum / static_cast<Real>(w.kernel * w.kernel));
  }
};

// Cell (y, x) of an adaptive pool is the mean of rows [floor(y h / H), ceil((y + 1) h / H)) and
// columns alike (aten/src/ATen/native/AdaptivePooling.h).
CAIRN_HOST_DEVICE inline std::int64_t cell_begin(std::int64_t cell, std::int64_t side,
                                                 std::int64_t cells) {
  return cell * side / cells;
}
CAIRN_HOST_DEVICE inline std::int64_t cell_end(std::int64_t cell, std::int64_t side,
                                               std::int64_t cells) {
  return ((cell + 1) * side + cells - 1) / cells;
}

template <class Real>
struct AdaptivePool {
  Windows windows = {};
  Elements out = {};
  Elements image = {};

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const Windows& w = windows;
    const std::int64_t cell_x = i % w.out_width;
    const std::int64_t cell_y = i / w.out_width % w.out_height;
    const std::int64_t plane = i / w.out_width / w.out_height;
    const std::int64_t end_y = cell_end(cell_y, w.height, w.out_height);
    const std::int64_t end_x = cell_end(cell_x, w.width, w.out_width);
    Real sum = Real(0);
    std::int64_t count = 0;
    for (std::int64_t y = cell_begin(cell_y, w.height, w.out_height); y < end_y; ++y) {
      for (std::int64_t x = cell_begin(cell_x, w.width, w.out_width); x < end_x; ++x) {
        sum += image.get<Real>((plane * w.height + y) * w.width + x);
        ++count;
      }
    }
    out.set<Real>(i, sum / static_cast<Real>(count));
  }
};

template <class Real>
struct AdaptivePoolGradient {
  Windows windows = {};
  Elements image_gradient = {};
  Elements gradient = {};

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const Windows& w = windows;
    const std::int64_t x = i % w.width;
    const std::int64_t y = i / w.width % w.height;
    const std::int64_t plane = i / w.width / w.height;
    Real sum = Real(0);
    for (std::int64_t cell_y = 0; cell_y < w.out_height; ++cell_y) {
      const std::int64_t begin_y = cell_begin(cell_y, w.height, w.out_height);
      const std::int64_t end_y = cell_end(cell_y, w.height, w.out_height);
      if (y < begin_y || y >= end_y) continue;
      for (std::int64_t cell_x = 0; cell_x < w.out_width; ++cell_x) {
        const std::int64_t begin_x = cell_begin(cell_x, w.width, w.out_width);
        const std::int64_t end_x = cell_end(cell_x, w.width, w.out_width);
        if (x < begin_x || x >= end_x) continue;
        const Real count = static_cast<Real>((end_y - begin_y) * (end_x - begin_x));
        sum += gradient.get<Real>((plane * w.out_height + cell_y) * w.out_width + cell_x) / count;
      }
    }
    image_gradient.set<Real>(i, sum);
  }
};

// --- Batch norm: one channel for each index. Sums are over many elements, in double as torch's on
// the CPU (aten native/Normalization.cpp, at::acc_type)

struct ChannelNormTensors {
  Elements x = {};
  Elements weight = {};
  Elements mean = {};
  Elements invstd = {};
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  std::int64_t pixels = 0;

  CAIRN_HOST_DEVICE std::int64_t at(std::int64_t n, std::int64_t channel,
                                    std::int64_t pixel) const {
    return (n * channels + channel) * pixels + pixel;
  }
};

template <class Real>
struct ChannelNorm {
  ChannelNormTensors norm = {};
  Elements out = {};
  Elements bias = {};
  double epsilon = 0.0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t channel) const {
    const auto count = static_cast<double>(norm.batch * norm.pixels);
    double sum = 0.0;
    for (std::int64_t n = 0; n < norm.batch; ++n) {
      for (std::int64_t p = 0; p < norm.pixels; ++p) {
        sum += norm.x.get<double>(norm.at(n, channel, p));
      }
    }
    const double mean = sum / count;
    double square = 0.0;
    for (std::int64_t n = 0; n < norm.batch; ++n) {
      for (std::int64_t p = 0; p < norm.pixels; ++p) {
        const double x = norm.x.get<double>(norm.at(n, channel, p)) - mean;
        square += x * x;
      }
    }
    const double invstd = 1.0 / std::sqrt(square / count + epsilon);
    norm.mean.set<double>(channel, mean);
    norm.invstd.set<double>(channel, invstd);
    const Real centre = static_cast<Real>(mean);
    const Real factor = static_cast<Real>(invstd) * norm.weight.get<Real>(channel);
    for (std::int64_t n = 0; n < norm.batch; ++n) {
      for (std::int64_t p = 0; p < norm.pixels; ++p) {
        const std::int64_t i = norm.at(n, channel, p);
        out.set<Real>(i, (norm.x.get<Real>(i) - centre) * factor + bias.get<Real>(channel));
      }
    }
  }
};

// Of x: invstd * w * (g - mean(g) - normed * mean(g normed)); of the weight the sum of g * normed,
// of the bias the sum of g.
template <class Real>
struct ChannelNormGradient {
  ChannelNormTensors norm = {};
  Elements gradient = {};
  Elements x_gradient = {};
  Elements weight_gradient = {};
  Elements bias_gradient = {};
  bool wants_x = false;
  bool wants_weight = false;
  bool wants_bias = false;

  CAIRN_HOST_DEVICE void operator()(std::int64_t channel) const {
    const Real mean = norm.mean.get<Real>(channel);
    const Real invstd = norm.invstd.get<Real>(channel);
    double sum = 0.0;
    double dot = 0.0;
    for (std::int64_t n = 0; n < norm.batch; ++n) {
      for (std::int64_t p = 0; p < norm.pixels; ++p) {
        const std::int64_t i = norm.at(n, channel, p);
        const auto g = gradient.get<double>(i);
        sum += g;
        dot += g * (norm.x.get<double>(i) - mean) * invstd;
      }
    }
    if (wants_weight) weight_gradient.set<double>(channel, dot);
    if (wants_bias) bias_gradient.set<double>(channel, sum);
    if (!wants_x) return;
    const auto count = static_cast<double>(norm.batch * norm.pixels);
    const Real mean_gradient = static_cast<Real>(sum / count);
    const Real mean_dot = static_cast<Real>(dot / count);
    const Real factor = invstd * norm.weight.get<Real>(channel);
    for (std::int64_t n = 0; n < norm.batch; ++n) {
      for (std::int64_t p = 0; p < norm.pixels; ++p) {
        const std::int64_t i = norm.at(n, channel, p);
        const Real normed = (norm.x.get<Real>(i) - mean) * invstd;
        x_gradient.set<Real>(i,
                             factor * (gradient.get<Real>(i) - mean_gradient - normed * mean_dot));
      }
    }
  }
};

}  // namespace cairn
