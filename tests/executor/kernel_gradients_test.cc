// Gradients of every kernel against central differences, in float64.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "executor/kernel.h"
#include "graph/graph_builder.h"
#include "tests/executor/test_device.h"
#include "tests/seed.h"

namespace cairn {
namespace {

struct KernelCase {
  std::string kind = {};
  OpAttributes attributes = {};
  std::vector<Shape> shapes = {};
  std::int64_t integers_below = 0;  // of inputs that are ids or labels
  bool is_positive = false;         // inputs are above zero
};

std::vector<KernelCase> kernel_cases() {
  const Shape rows = {2, 3, 4};
  const Shape image = {2, 4, 5, 6};
  return {
      {.kind = "gelu", .shapes = {rows}},
      {.kind = "silu", .shapes = {rows}},
      {.kind = "relu", .shapes = {rows}},
      {.kind = "tanh", .shapes = {rows}},
      {.kind = "sigmoid", .shapes = {rows}},
      {.kind = "rsqrt", .shapes = {rows}, .is_positive = true},
      {.kind = "neg", .shapes = {rows}},
      {.kind = "copy", .shapes = {rows}},
      {.kind = "pow", .shapes = {rows}},
      {.kind = "pow", .attributes = {.constant = 3.0}, .shapes = {rows}},
      {.kind = "pow", .attributes = {.constant = 1.5}, .shapes = {rows}, .is_positive = true},
      {.kind = "scale", .attributes = {.constant = 0.7}, .shapes = {rows}},
      {.kind = "add_scalar", .attributes = {.constant = 0.7}, .shapes = {rows}},
      {.kind = "clamp", .attributes = {.constant = 0.5}, .shapes = {rows}},
      {.kind = "dropout", .attributes = {.probability = 0.3}, .shapes = {rows}},
      {.kind = "add", .shapes = {rows, rows}},
      {.kind = "add", .shapes = {rows, {4}}},
      {.kind = "add", .shapes = {rows, {2, 3, 1}}},
      {.kind = "sub", .shapes = {rows, rows}},
      {.kind = "sub", .shapes = {rows, {1, 3, 4}}},
      {.kind = "mul", .shapes = {rows, rows}},
      {.kind = "mul", .shapes = {rows, {2, 3, 1}}},
      {.kind = "div", .shapes = {rows, rows}, .is_positive = true},
      {.kind = "div", .shapes = {rows, {2, 3, 1}}, .is_positive = true},
      {.kind = "mul_weight", .shapes = {rows}},
      {.kind = "mul_one_plus_weight", .shapes = {rows}},
      {.kind = "softmax", .shapes = {rows}},
      {.kind = "log_softmax", .shapes = {rows}},
      {.kind = "mean", .shapes = {rows}},
      {.kind = "sum", .shapes = {rows}},
      {.kind = "mask_causal", .attributes = {.constant = -2.0}, .shapes = {{2, 3, 3}}},
      {.kind = "layer_norm", .shapes = {rows}},
      {.kind = "layer_norm", .attributes = {.bias = true}, .shapes = {rows}},
      {.kind = "rms_norm", .shapes = {rows}},
      {.kind = "linear", .attributes = {.width = 5}, .shapes = {rows}},
      {.kind = "linear", .attributes = {.width = 5, .bias = true}, .shapes = {{3, 4}}},
      {.kind = "embedding",
       .attributes = {.width = 3, .rows = 5},
       .shapes = {{2, 4}},
       .integers_below = 5},
      {.kind = "attention_scores", .attributes = {.heads = 2}, .shapes = {{2, 3, 4}, {2, 5, 4}}},
      {.kind = "attention_values", .attributes = {.heads = 2}, .shapes = {{2, 2, 3, 5}, {2, 5, 4}}},
      {.kind = "attention",
       .attributes = {.heads = 2, .causal = true},
       .shapes = {{2, 3, 4}, {2, 3, 4}, {2, 3, 4}}},
      {.kind = "attention",
       .attributes = {.heads = 4, .kv_heads = 2, .causal = true, .window = 2},
       .shapes = {{2, 5, 8}, {2, 5, 4}, {2, 5, 4}}},
      {.kind = "attention",
       .attributes = {.heads = 2},
       .shapes = {{1, 3, 4}, {1, 5, 4}, {1, 5, 6}}},
      {.kind = "nll_loss", .shapes = {{6, 4}, {6}}, .integers_below = 4},
      {.kind = "cross_entropy", .shapes = {{6, 4}, {6}}, .integers_below = 4},
      {.kind = "split_heads", .attributes = {.heads = 2}, .shapes = {rows}},
      {.kind = "merge_heads", .shapes = {rows}},
      {.kind = "flatten", .shapes = {image}},
      {.kind = "slice", .attributes = {.parts = 2, .part = 1}, .shapes = {rows}},
      {.kind = "slice", .attributes = {.part = 1, .widths = {1, 3}}, .shapes = {rows}},
      {.kind = "split", .attributes = {.parts = 2}, .shapes = {rows}},
      {.kind = "split", .attributes = {.width = 2, .axis = 1}, .shapes = {rows}},
      {.kind = "cat", .shapes = {rows, {2, 3, 2}}},
      {.kind = "cat", .attributes = {.axis = 1}, .shapes = {rows, {2, 1, 4}}},
      {.kind = "conv2d", .attributes = {.width = 3, .kernel = 3}, .shapes = {image}},
      {.kind = "conv2d",
       .attributes =
           {.width = 6, .bias = true, .kernel = 3, .stride = 2, .padding = 1, .groups = 2},
       .shapes = {image}},
      {.kind = "conv_transpose2d",
       .attributes = {.width = 3, .bias = true, .kernel = 3, .stride = 2, .padding = 1},
       .shapes = {image}},
      {.kind = "max_pool2d",
       .attributes = {.kernel = 3, .stride = 2, .padding = 1},
       .shapes = {image}},
      {.kind = "avg_pool2d", .attributes = {.kernel = 2}, .shapes = {image}},
      {.kind = "adaptive_avg_pool2d", .attributes = {.rows = 3}, .shapes = {image}},
      {.kind = "global_avg_pool", .shapes = {image}},
      {.kind = "batch_norm", .shapes = {image}},
  };
}

// One op in a graph of its own, and float64 numbers for all it reads.
class OpRun {
 public:
  explicit OpRun(const KernelCase& of, DataType type = DataType::kFloat64) {
    GraphBuilder builder("kernel", DataType::kFloat32);
    const OpKindInfo* const kind = find_op_kind(of.kind);
    std::vector<TensorId> inputs;
    for (std::size_t i = 0; i < of.shapes.size(); ++i) {
      const bool is_integer =
          std::count(kind->integer_inputs.begin(), kind->integer_inputs.end(), i) > 0;
      inputs.push_back(builder.add_input(fmt::format("in{}", i),
                                         is_integer ? DataType::kInt64 : DataType::kFloat32,
                                         of.shapes[i], !is_integer));
    }
    const auto outputs =
        builder.add_op({.name = "op", .kind = kind, .attributes = of.attributes, .inputs = inputs});
    graph_ = builder.build(outputs[0]);
    for (const TensorId id : op().inputs) {
      const Tensor& tensor = graph_.tensor(id);
      const bool is_integer = !is_floating(tensor.data_type);
      Array array = memory_.make(is_integer ? tensor.data_type : type, tensor.shape);
      const std::uint64_t seed = test_seed() + values_.size();
      if (is_integer) {
        launch(*device_, element_count(array),
               FillIntegers{elements(array), seed, of.integers_below});
      } else {
        launch(*device_, element_count(array), FillNormal<double>{elements(array), seed, 1.0});
        if (of.is_positive) {
          for (std::int64_t i = 0; i < element_count(array); ++i) {
            const Elements all = elements(array);
            all.set(i, std::abs(all.get<double>(i)) + 0.5);
          }
        }
      }
      values_.push_back(std::move(array));
    }
  }

  const Op& op() const { return graph_.ops.back(); }
  const Graph& graph() const { return graph_; }
  std::vector<Array>& values() { return values_; }
  static double& number(const Array& array, std::int64_t i) {
    return static_cast<double*>(first_element(array))[elements(array).position(i)];
  }

  ForwardRun forward() {
    ForwardRun run{
        .memory = memory_, .graph = graph_, .op = op(), .inputs = values_, .seed = test_seed()};
    find_kernel(op().kind->name)->forward(run);
    return run;
  }

  // Fixed numbers by which the outputs are weighted.
  Array weights_like(const Array& output, std::size_t place) {
    Array array = memory_.make(output.type, output.shape);
    launch(*device_, element_count(array),
           FillNormal<double>{elements(array), test_seed() + 100 + place, 1.0});
    return array;
  }

  double weighted_sum() {
    const ForwardRun run = forward();
    double sum = 0.0;
    for (std::size_t o = 0; o < run.outputs.size(); ++o) {
      const Array weights = weights_like(run.outputs[o], o);
      for (std::int64_t i = 0; i < element_count(weights); ++i) {
        sum += number(weights, i) * number(run.outputs[o], i);
      }
    }
    return sum;
  }

  // Of what autograd does not save there are no elements.
  Array saved(TensorId id, Array array) const {
    if (std::find(op().saved.begin(), op().saved.end(), id) == op().saved.end()) {
      array.block = nullptr;
    }
    return array;
  }

  std::vector<InputGradient> backward() {
    const ForwardRun forward_run = forward();
    BackwardRun run{.memory = memory_, .graph = graph_, .op = op()};
    for (std::size_t i = 0; i < values_.size(); ++i) {
      run.inputs.push_back(saved(op().inputs[i], values_[i]));
      run.wants.push_back(graph_.tensor(op().inputs[i]).requires_grad);
    }
    for (std::size_t i = 0; i < op().outputs.size(); ++i) {
      run.outputs.push_back(saved(op().outputs[i], forward_run.outputs[i]));
      run.output_gradients.push_back(weights_like(forward_run.outputs[i], i));
    }
    for (std::size_t i = 0; i < op().auxiliaries.size(); ++i) {
      run.auxiliaries.push_back(saved(op().auxiliaries[i], forward_run.auxiliaries[i]));
    }
    run.gradients.resize(values_.size());
    find_kernel(op().kind->name)->backward(run);
    return run.gradients;
  }

 private:
  std::unique_ptr<Device> device_ = make_test_device();
  Memory memory_{*device_};
  Graph graph_ = {};
  std::vector<Array> values_ = {};
};

std::string case_text(const KernelCase& of) {
  std::string text = of.kind;
  for (const Shape& shape : of.shapes) text += fmt::format(" [{}]", fmt::join(shape, ", "));
  return text;
}

TEST_CASE("kernels make tensors of the shapes that the graph has") {
  for (const KernelCase& of : kernel_cases()) {
    CAPTURE(case_text(of));
    OpRun run(of);
    const ForwardRun made = run.forward();
    REQUIRE(made.outputs.size() == run.op().outputs.size());
    for (std::size_t i = 0; i < made.outputs.size(); ++i) {
      CHECK(made.outputs[i].shape == run.graph().tensor(run.op().outputs[i]).shape);
    }
    REQUIRE(made.auxiliaries.size() == run.op().auxiliaries.size());
    for (std::size_t i = 0; i < made.auxiliaries.size(); ++i) {
      CHECK(made.auxiliaries[i].shape == run.graph().tensor(run.op().auxiliaries[i]).shape);
    }
  }
}

TEST_CASE("kernels run in fp32 and bf16, forward and backward, and make gradients of that type") {
  for (const KernelCase& of : kernel_cases()) {
    for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
      CAPTURE(case_text(of));
      OpRun run(of, type);
      const std::vector<InputGradient> gradients = run.backward();
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        if (!run.graph().tensor(run.op().inputs[i]).requires_grad) continue;
        CHECK(gradients[i].array.type == type);
      }
    }
  }
}

TEST_CASE("gradients of every kernel are those of central differences, in float64") {
  constexpr double kStep = 1e-6;
  INFO("--seed=", test_seed());
  for (const KernelCase& of : kernel_cases()) {
    CAPTURE(case_text(of));
    OpRun run(of);
    const std::vector<InputGradient> gradients = run.backward();
    for (std::size_t input = 0; input < run.values().size(); ++input) {
      if (!run.graph().tensor(run.op().inputs[input]).requires_grad) continue;
      const Array& values = run.values()[input];
      const Array& gradient = gradients[input].array;
      REQUIRE(gradient.shape == values.shape);
      for (std::int64_t i = 0; i < element_count(values); ++i) {
        double& value = OpRun::number(values, i);
        const double before = value;
        value = before + kStep;
        const double above = run.weighted_sum();
        value = before - kStep;
        const double below = run.weighted_sum();
        value = before;
        CAPTURE(input);
        CAPTURE(i);
        CHECK(OpRun::number(gradient, i) ==
              doctest::Approx((above - below) / (2 * kStep)).epsilon(1e-6).scale(1.0));
      }
    }
  }
}

}  // namespace
}  // namespace cairn
