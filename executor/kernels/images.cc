#include "executor/kernels/kernels.h"

// Convolutions, pools and batch norm of images, [batch, channels, height, width].

namespace cairn {
namespace {

constexpr double kEpsilon = 1e-5;

std::int64_t or_one(std::int64_t value) { return value == 0 ? 1 : value; }

// Windows over `image` whose results are the pixels of `out`.
Windows windows_between(const Op& op, const Shape& image, const Shape& out) {
  return {.channels = image[1],
          .height = image[2],
          .width = image[3],
          .out_channels = out[1],
          .out_height = out[2],
          .out_width = out[3],
          .kernel = or_one(op.attributes.kernel),
          .stride = or_one(op.attributes.stride),
          .padding = op.attributes.padding,
          .groups = or_one(op.attributes.groups)};
}

// --- Convolutions
// ---------------------------------------------------------------------------------

// A convolution as products of matrices, a sample and group at a time: the weight is
// [out channels, channels * kernel * kernel] of its group, the image's windows are columns
// (im2col: Chellapilla et al. 2006).
class Convolution {
 public:
  // `workspaces`: of the run, which keeps the columns of one sample to its end.
  Convolution(Memory& memory, const Op& op, const Array& image, const Array& out,
              std::vector<Array>& workspaces)
      : memory_(memory), windows_(windows_between(op, image.shape, out.shape)) {
    if (is_pointwise()) return;
    columns_ = memory.make(image.type, {windows_.groups, column_rows(), pixels()});
    workspaces.push_back(columns_);
  }

  void to_out(const Array& image, const Array& weight, const Array& out) const {
    for (std::int64_t n = 0; n < image.shape[0]; ++n) {
      multiply(memory_, weight_matrix(weight), false, columns_of(image, n), false,
               out_matrix(out, n));
    }
  }

  // What `to_out` does, transposed: the gradient of its image.
  void to_image(const Array& out, const Array& weight, const Array& image) const {
    for (std::int64_t n = 0; n < image.shape[0]; ++n) {
      const Array sample = sample_of(image, n);
      const Array columns = is_pointwise() ? pointwise_columns(sample) : columns_;
      multiply(memory_, weight_matrix(weight), true, out_matrix(out, n), false, columns);
      if (is_pointwise()) continue;
      with_real(image.type, [&](auto real) {
        launch(memory_.device(), element_count(sample),
               ColumnsImage<decltype(real)>{windows_, elements(sample), elements(columns_)});
      });
    }
  }

  void to_weight(const Array& image, const Array& out, const Array& weight) const {
    for (std::int64_t n = 0; n < image.shape[0]; ++n) {
      multiply(memory_, out_matrix(out, n), false, columns_of(image, n), true,
               weight_matrix(weight), n > 0);
    }
  }

 private:
  std::int64_t pixels() const { return windows_.out_height * windows_.out_width; }
  std::int64_t column_rows() const {
    return windows_.channels / windows_.groups * windows_.kernel * windows_.kernel;
  }
  // Its columns are the image itself.
  bool is_pointwise() const {
    return windows_.kernel == 1 && windows_.stride == 1 && windows_.padding == 0;
  }

  static Array sample_of(const Array& array, std::int64_t n) { return part_of_dim(array, 0, n, 1); }

  Array pointwise_columns(const Array& sample) const {
    return reshaped(sample, {windows_.groups, column_rows(), pixels()});
  }

  Array columns_of(const Array& image, std::int64_t n) const {
    const Array sample = sample_of(image, n);
    if (is_pointwise()) return pointwise_columns(sample);
    with_real(image.type, [&](auto real) {
      launch(memory_.device(), element_count(columns_),
             ImageColumns<decltype(real)>{windows_, elements(columns_), elements(sample)});
    });
    return columns_;
  }

  Array out_matrix(const Array& out, std::int64_t n) const {
    return reshaped(sample_of(out, n),
                    {windows_.groups, windows_.out_channels / windows_.groups, pixels()});
  }

  Array weight_matrix(const Array& weight) const {
    return reshaped(weight,
                    {windows_.groups, windows_.out_channels / windows_.groups, column_rows()});
  }

  Memory& memory_;
  Windows windows_ = {};
  Array columns_ = {};
};

void add_channel_bias(Memory& memory, const Array& out, const Array& bias) {
  apply(memory, out, out, reshaped(bias, {bias.shape[0], 1, 1}), Sum{});
}

void conv_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const OpAttributes& attributes = run.op.attributes;
  const auto side = [&](std::int64_t extent) {
    return (extent + 2 * attributes.padding - attributes.kernel) / or_one(attributes.stride) + 1;
  };
  run.outputs = {
      run.memory.make(x.type, {x.shape[0], attributes.width, side(x.shape[2]), side(x.shape[3])})};
  const Array& out = run.outputs[0];
  Convolution(run.memory, run.op, x, out, run.workspaces).to_out(x, run.inputs[1], out);
  if (run.inputs.size() > 2) add_channel_bias(run.memory, out, run.inputs[2]);
}

// The sum over all but the channels.
Array channel_sum(Memory& memory, const Array& gradient) {
  const Array out = memory.make(gradient.type, {gradient.shape[1]});
  const Array channels_last = with_dims_swapped(with_dims_swapped(gradient, 1, 2), 2, 3);
  with_real(out.type, [&](auto real) {
    launch(memory.device(), element_count(out),
           OuterSum<decltype(real)>{elements(out), elements(channels_last),
                                    element_count(gradient) / gradient.shape[1], gradient.shape[1],
                                    1});
  });
  return out;
}

// Of a convolution from the image x, or of one read backward, from x to the image.
void convolution_backward(BackwardRun& run, bool is_transposed) {
  const Array& x = run.inputs[0];
  const Array& gradient = run.output_gradients[0];
  const Array& image = is_transposed ? gradient : x;
  const Array& out = is_transposed ? x : gradient;
  const Convolution convolution(run.memory, run.op, image, out, run.workspaces);
  if (run.wants[0]) {
    const Array made = run.memory.make(x.type, x.shape);
    if (is_transposed) {
      convolution.to_out(gradient, run.inputs[1], made);
    } else {
      convolution.to_image(gradient, run.inputs[1], made);
    }
    run.gradients[0].array = made;
  }
  if (run.wants[1]) {
    run.gradients[1].array = run.memory.make(x.type, run.inputs[1].shape);
    convolution.to_weight(image, out, run.gradients[1].array);
  }
  if (run.inputs.size() > 2 && run.wants[2]) {
    run.gradients[2].array = channel_sum(run.memory, gradient);
  }
}

void conv_backward(BackwardRun& run) { convolution_backward(run, false); }

// A transposed convolution is one read backward: its output is the image that windows slide over.
void conv_transpose_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const OpAttributes& attributes = run.op.attributes;
  const auto side = [&](std::int64_t extent) {
    return (extent - 1) * or_one(attributes.stride) + attributes.kernel - 2 * attributes.padding;
  };
  run.outputs = {
      run.memory.make(x.type, {x.shape[0], attributes.width, side(x.shape[2]), side(x.shape[3])})};
  const Array& out = run.outputs[0];
  Convolution(run.memory, run.op, out, x, run.workspaces).to_image(x, run.inputs[1], out);
  if (run.inputs.size() > 2) add_channel_bias(run.memory, out, run.inputs[2]);
}

void conv_transpose_backward(BackwardRun& run) { convolution_backward(run, true); }

// --- Pools
// ----------------------------------------------------------------------------------------

Windows pool_windows(const Op& op, const Shape& image, const Shape& out) {
  Windows windows = windows_between(op, image, out);
  if (op.attributes.stride == 0) windows.stride = windows.kernel;
  return windows;
}

Shape pooled_shape(const Op& op, const Array& x) {
  const std::int64_t kernel = op.attributes.kernel;
  const std::int64_t stride = op.attributes.stride == 0 ? kernel : op.attributes.stride;
  const auto side = [&](std::int64_t extent) {
    return (extent + 2 * op.attributes.padding - kernel) / stride + 1;
  };
  return {x.shape[0], x.shape[1], side(x.shape[2]), side(x.shape[3])};
}

void max_pool_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const Shape shape = pooled_shape(run.op, x);
  run.outputs = {run.memory.make(x.type, shape)};
  run.auxiliaries = {run.memory.make(DataType::kInt64, shape)};
  with_real(x.type, [&](auto real) {
    launch(run.memory.device(), element_count(run.outputs[0]),
           MaxPool<decltype(real)>{pool_windows(run.op, x.shape, shape), elements(run.outputs[0]),
                                   elements(run.auxiliaries[0]), elements(x)});
  });
}

void max_pool_backward(BackwardRun& run) {
  const Array& gradient = run.output_gradients[0];
  Array out = run.memory.make(run.inputs[0].type, run.inputs[0].shape);
  with_real(out.type, [&](auto real) {
    launch(run.memory.device(), element_count(out),
           MaxPoolGradient<decltype(real)>{pool_windows(run.op, out.shape, gradient.shape),
                                           elements(out), elements(gradient),
                                           elements(run.auxiliaries[0])});
  });
  run.gradients[0] = {.array = std::move(out)};
}

template <template <class> class Pool>
void pool_to(ForwardRun& run, const Shape& shape) {
  const Array& x = run.inputs[0];
  run.outputs = {run.memory.make(x.type, shape)};
  with_real(x.type, [&](auto real) {
    launch(run.memory.device(), element_count(run.outputs[0]),
           Pool<decltype(real)>{pool_windows(run.op, x.shape, shape), elements(run.outputs[0]),
                                elements(x)});
  });
}

template <template <class> class PoolGradient>
void pool_backward(BackwardRun& run) {
  const Array& gradient = run.output_gradients[0];
  Array out = run.memory.make(run.inputs[0].type, run.inputs[0].shape);
  with_real(out.type, [&](auto real) {
    launch(run.memory.device(), element_count(out),
           PoolGradient<decltype(real)>{pool_windows(run.op, out.shape, gradient.shape),
                                        elements(out), elements(gradient)});
  });
  run.gradients[0] = {.array = std::move(out)};
}

Shape cells(const Array& x, std::int64_t side) { return {x.shape[0], x.shape[1], side, side}; }

// --- Batch norm
// -----------------------------------------------------------------------------------

ChannelNormTensors channel_norm(const Array& x, const Array& weight,
                                const std::vector<Array>& statistics) {
  return {.x = elements(x),
          .weight = elements(weight),
          .mean = elements(statistics[0]),
          .invstd = elements(statistics[1]),
          .batch = x.shape[0],
          .channels = x.shape[1],
          .pixels = x.shape[2] * x.shape[3]};
}

void batch_norm_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  for (int i = 0; i < 2; ++i) {
    run.auxiliaries.push_back(run.memory.make(statistics_type(x.type), {x.shape[1]}));
  }
  run.outputs = {run.memory.make(x.type, x.shape)};
  with_real(x.type, [&](auto real) {
    launch(run.memory.device(), x.shape[1],
           ChannelNorm<decltype(real)>{channel_norm(x, run.inputs[1], run.auxiliaries),
                                       elements(run.outputs[0]), elements(run.inputs[2]),
                                       run.op.attributes.constant.value_or(kEpsilon)});
  });
}

void batch_norm_backward(BackwardRun& run) {
  const Array& x = run.inputs[0];
  for (std::size_t i = 0; i < 3; ++i) {
    if (!run.wants[i]) continue;
    run.gradients[i].array =
        run.memory.make(run.inputs[i].type, i == 0 ? x.shape : Shape{x.shape[1]});
  }
  const auto written = [&](std::size_t input) {
    return run.wants[input] ? elements(run.gradients[input].array) : Elements{};
  };
  with_real(x.type, [&](auto real) {
    launch(run.memory.device(), x.shape[1],
           ChannelNormGradient<decltype(real)>{
               channel_norm(x, run.inputs[1], run.auxiliaries), elements(run.output_gradients[0]),
               written(0), written(1), written(2), run.wants[0], run.wants[1], run.wants[2]});
  });
}

}  // namespace

std::vector<Kernel> image_kernels() {
  return {
      {"conv2d", conv_forward, conv_backward},
      {"conv_transpose2d", conv_transpose_forward, conv_transpose_backward},
      {"max_pool2d", max_pool_forward, max_pool_backward},
      {"avg_pool2d",
       [](ForwardRun& run) { pool_to<AveragePool>(run, pooled_shape(run.op, run.inputs[0])); },
       pool_backward<AveragePoolGradient>},
      {"adaptive_avg_pool2d",
       [](ForwardRun& run) {
         pool_to<AdaptivePool>(run, cells(run.inputs[0], run.op.attributes.rows));
       },
       pool_backward<AdaptivePoolGradient>},
      {"global_avg_pool",
       [](ForwardRun& run) { pool_to<AdaptivePool>(run, cells(run.inputs[0], 1)); },
       pool_backward<AdaptivePoolGradient>},
      {"batch_norm", batch_norm_forward, batch_norm_backward},
  };
}

}  // namespace cairn
