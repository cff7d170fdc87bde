// Gradients of every kernel against central differences, in float64.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

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
  std::map<std::size_t, std::vector<std::int64_t>> integers = {};  // of an input, where it matters
  std::set<std::size_t> flags = {};                                // inputs that are booleans
  std::set<std::size_t> frozen = {};                               // without a gradient
  bool writes_over_inputs = false;
  DataType type = DataType::kFloat32;  // in the graph; all is computed in float64
};

std::vector<KernelCase> kernel_cases() {
  const Shape rows = {2, 3, 4};
  const Shape image = {2, 4, 5, 6};
  return {
      {.kind = "gelu", .shapes = {rows}},
      {.kind = "gelu", .attributes = {.tanh_form = true}, .shapes = {rows}},
      {.kind = "silu", .shapes = {rows}},
      {.kind = "relu", .shapes = {rows}},
      {.kind = "tanh", .shapes = {rows}},
      {.kind = "sigmoid", .shapes = {rows}},
      {.kind = "rsqrt", .shapes = {rows}, .is_positive = true},
      {.kind = "neg", .shapes = {rows}},
      {.kind = "copy", .shapes = {rows}},
      {.kind = "pow", .attributes = {.constant = 2.0}, .shapes = {rows}},
      {.kind = "pow", .attributes = {.constant = 3.0}, .shapes = {rows}},
      {.kind = "pow", .attributes = {.constant = 1.5}, .shapes = {rows}, .is_positive = true},
      {.kind = "scale", .attributes = {.constant = 0.7}, .shapes = {rows}},
      {.kind = "add_scalar", .attributes = {.constant = 0.7}, .shapes = {rows}},
      {.kind = "clamp", .attributes = {.constant = 0.5}, .shapes = {rows}},
      {.kind = "clamp", .attributes = {.one_sided = true, .constant = 0.5}, .shapes = {rows}},
      {.kind = "add_scalar", .attributes = {.causal = true}, .shapes = {{2, 3, 3}}},
      {.kind = "add_scalar", .attributes = {.causal = true, .window = 2}, .shapes = {{2, 4, 4}}},
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
      {.kind = "softmax", .attributes = {.causal = true}, .shapes = {{2, 3, 3}}},
      {.kind = "mean_saving_input", .shapes = {rows}},
      {.kind = "log_softmax", .shapes = {image}},
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

// Of language models, and of what only some of them have.
std::vector<KernelCase> language_cases() {
  const Shape rows = {2, 3, 4};
  const Shape q = {2, 5, 8};
  const std::vector<std::int64_t> chosen = {2, 0, 1, 2, 0, 1, 2, 1, 0, 2};  // of [5, 2], 3 experts
  return {
      {.kind = "swiglu", .shapes = {rows, rows}},
      {.kind = "swiglu", .shapes = {rows}},
      {.kind = "swiglu",
       .attributes = {.gradient_in_place = true},
       .shapes = {rows, rows},
       .writes_over_inputs = true},
      {.kind = "geglu", .shapes = {rows, rows}},
      {.kind = "geglu", .shapes = {rows}},
      {.kind = "rope", .shapes = {q, {1, 5, 4}, {1, 5, 4}}, .frozen = {1, 2}},
      {.kind = "rope",
       .attributes = {.heads = 2, .in_place = true},
       .shapes = {q, {2, 5, 2}, {2, 5, 2}},
       .frozen = {1, 2},
       .writes_over_inputs = true},
      {.kind = "mul_table", .shapes = {q, {1, 5, 4}}, .frozen = {1}},
      {.kind = "mul_table", .attributes = {.pairs = true}, .shapes = {q, {1, 5, 4}}, .frozen = {1}},
      {.kind = "split", .attributes = {.parts = 2, .axis = -1}, .shapes = {q}},
      {.kind = "cat", .attributes = {.heads = 2}, .shapes = {q, {2, 5, 4}}},
      {.kind = "repeat_kv", .attributes = {.heads = 4, .kv_heads = 2}, .shapes = {q}},
      {.kind = "matmul_rows", .shapes = {rows}},
      {.kind = "matmul_rows", .shapes = {{1, 3, 4}}},
      {.kind = "join_heads", .attributes = {.heads = 2}, .shapes = {q, {2, 5, 3}}},
      {.kind = "append_sinks", .shapes = {{2, 2, 3, 4}}},
      {.kind = "drop_sinks", .shapes = {{2, 2, 3, 4}}},
      {.kind = "attention_scores",
       .attributes = {.heads = 2, .constant = 0.3},
       .shapes = {{2, 3, 4}, {2, 5, 4}}},
      {.kind = "attention",
       .attributes = {.heads = 2, .softcap = 1.5, .constant = 0.7},
       .shapes = {q, q, q}},
      {.kind = "attention",
       .attributes = {.heads = 2, .causal = true, .probability = 0.3},
       .shapes = {q, q, q}},
      {.kind = "attention",
       .attributes = {.heads = 4, .kv_heads = 2, .causal = true, .window = 3, .sinks = true},
       .shapes = {q, {2, 5, 4}, {2, 5, 4}}},
      {.kind = "attention",
       .attributes = {.heads = 2, .bias = true},
       .shapes = {q, q, q, {1, 2, 5, 5}}},
      {.kind = "attention",
       .attributes = {.heads = 2, .bias = true, .probability = 0.2},
       .shapes = {{2, 3, 4}, {2, 8, 4}, {2, 8, 4}, {2, 2, 3, 8}}},
      {.kind = "masked_attention",
       .attributes = {.heads = 4, .kv_heads = 2, .causal = true, .window = 2},
       .shapes = {q, {2, 5, 4}, {2, 5, 4}}},
      {.kind = "masked_attention",
       .attributes = {.heads = 2, .probability = 0.3},
       .shapes = {q, q, q}},
      {.kind = "cross_entropy_in_place",
       .shapes = {{6, 4}, {6}},
       .integers_below = 4,
       .writes_over_inputs = true},
      {.kind = "cross_entropy_compiled", .shapes = {{6, 4}, {6}}, .integers_below = 4},
      {.kind = "nll_loss", .shapes = {{2, 3, 2, 4}, {2, 2, 4}}, .integers_below = 3},
      {.kind = "fused_linear_cross_entropy",
       .attributes = {.width = 7, .bias = true, .softcap = 2.0},
       .shapes = {{2, 3, 2}, {2, 3}},
       .integers_below = 7},
      {.kind = "chunked_linear_cross_entropy",
       .attributes = {.width = 7, .bias = true},
       .shapes = {{2, 3, 2}, {2, 3}},
       .integers_below = 7},
      {.kind = "cut_cross_entropy",
       .attributes = {.width = 7, .softcap = 2.0},
       .shapes = {{2, 3, 2}, {2, 3}},
       .integers_below = 7,
       .type = DataType::kBFloat16},
      {.kind = "topk", .attributes = {.largest_count = 2}, .shapes = {{2, 3, 5}}},
      {.kind = "gather", .shapes = {{2, 3, 5}, {2, 3, 2}}, .integers_below = 5},
      {.kind = "group_mask",
       .attributes = {.groups = 2, .largest_count = 1, .constant = 2.0},
       .shapes = {{2, 3, 6}}},
      {.kind = "masked_fill",
       .attributes = {.constant = 0.5},
       .shapes = {rows, rows},
       .integers_below = 2,
       .flags = {1}},
      {.kind = "masked_fill",
       .attributes = {.constant = 0.0},
       .shapes = {{3, 4}, {3, 1}},
       .integers_below = 2,
       .flags = {1}},
      {.kind = "dispatch",
       .attributes = {.experts = 3},
       .shapes = {{5, 4}, {5, 2}},
       .integers = {{1, chosen}}},
      {.kind = "take", .shapes = {{3, 2}, {6}}, .integers = {{1, {3, 1, 5, 0, 2, 4}}}},
      {.kind = "expert_linear",
       .attributes = {.width = 3, .experts = 3},
       .shapes = {{6, 4}, {3}},
       .integers = {{1, {2, 2, 6}}}},
      {.kind = "expert_linear",
       .attributes = {.width = 3, .bias = true, .experts = 3},
       .shapes = {{6, 4}, {3}, {6}},
       .integers = {{1, {1, 4, 6}}, {2, {0, 1, 1, 1, 2, 2}}}},
      {.kind = "combine", .shapes = {{10, 3}, {5, 2}}, .integers = {{1, chosen}}},
  };
}

// Of images and their tokens, and of adapters.
std::vector<KernelCase> other_cases() {
  const Shape rows = {2, 3, 4};
  const Shape image = {2, 4, 5, 6};
  return {
      {.kind = "to_tokens", .shapes = {image}},
      {.kind = "heads_first", .shapes = {{3, 5, 2}}},
      {.kind = "crop", .attributes = {.rows = 3}, .shapes = {image}},
      {.kind = "first_token", .shapes = {rows}},
      {.kind = "prepend_token", .shapes = {rows}},
      {.kind = "add_weight", .shapes = {rows}},
      {.kind = "cast", .attributes = {.data_type = DataType::kFloat64}, .shapes = {rows}},
      {.kind = "eye", .attributes = {.data_type = DataType::kFloat32}, .shapes = {{3, 4}}},
      {.kind = "transpose", .shapes = {{3, 4}}},
      {.kind = "detach", .shapes = {rows}},
      {.kind = "requires_grad", .shapes = {rows}, .frozen = {0}},
      {.kind = "row_norm", .shapes = {{3, 4}}, .frozen = {0}},
      {.kind = "weight_over", .shapes = {{5}}, .is_positive = true, .frozen = {0}},
      {.kind = "indices", .shapes = {rows}},
      {.kind = "stored_indices", .shapes = {rows}, .integers_below = 9},
      {.kind = "split_ids",
       .attributes = {.width = 2, .axis = 1},
       .shapes = {{2, 5}},
       .integers_below = 9},
      {.kind = "index_copy",
       .attributes = {.width = 7},
       .shapes = {rows, {4}},
       .integers = {{1, {6, 0, 3, 2}}}},
      {.kind = "conv1d", .attributes = {.width = 6, .groups = 2}, .shapes = {rows}},
      {.kind = "conv1d", .attributes = {.widths = {3, 0, 2}}, .shapes = {rows}},
  };
}

std::vector<KernelCase> all_cases() {
  std::vector<KernelCase> all = kernel_cases();
  for (const std::vector<KernelCase>& more : {language_cases(), other_cases()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

// One op in a graph of its own, and float64 numbers for all it reads.
class OpRun {
 public:
  explicit OpRun(const KernelCase& of, DataType number_type = DataType::kFloat64)
      : number_type_(number_type) {
    GraphBuilder builder("kernel", of.type);
    const OpKindInfo* const kind = find_op_kind(of.kind);
    std::vector<TensorId> inputs;
    for (std::size_t i = 0; i < of.shapes.size(); ++i) {
      const bool is_integer =
          std::count(kind->integer_inputs.begin(), kind->integer_inputs.end(), i) > 0;
      const DataType type = of.flags.count(i) > 0 ? DataType::kBool
                            : is_integer          ? DataType::kInt64
                                                  : of.type;
      TensorId input = builder.add_input(fmt::format("in{}", i), type, of.shapes[i],
                                         !is_integer && of.frozen.count(i) == 0);
      if (of.writes_over_inputs && !is_integer) {  // which no input of a graph may be
        input = builder
                    .add_op({.name = fmt::format("copy{}", i),
                             .kind = find_op_kind("copy"),
                             .inputs = {input}})
                    .front();
      }
      inputs.push_back(input);
    }
    const auto outputs =
        builder.add_op({.name = "op", .kind = kind, .attributes = of.attributes, .inputs = inputs});
    graph_ = builder.build(outputs[0]);
    for (const TensorId id : op().inputs) values_.push_back(load(of, id));
  }

  // Of an input or parameter.
  Array load(const KernelCase& of, TensorId id) {
    const Tensor& tensor = graph_.tensor(id);
    const std::uint64_t seed = test_seed() + values_.size();
    const auto stated = of.integers.find(values_.size());
    if (is_floating(tensor.data_type)) {
      Array array = memory_.make(number_type_, tensor.shape);
      launch(*device_, element_count(array), FillNormal<double>{elements(array), seed, 1.0});
      for (std::int64_t i = 0; of.is_positive && i < element_count(array); ++i) {
        const Elements all = elements(array);
        all.set(i, std::abs(all.get<double>(i)) + 0.5);
      }
      return array;
    }
    if (tensor.data_type == DataType::kBool) {
      Array array = memory_.make(DataType::kBool, tensor.shape);
      for (std::int64_t i = 0; i < element_count(array); ++i) {
        elements(array).set<double>(i, random_uniform(seed, static_cast<std::uint64_t>(i)) < 0.5);
      }
      return array;
    }
    // Where the rows of experts end is an int32 tensor, which no input of a graph has to be.
    const bool is_ends = of.kind == "expert_linear" && values_.size() == 1;
    Array array = memory_.make(is_ends ? DataType::kInt32 : DataType::kInt64, tensor.shape);
    launch(*device_, element_count(array),
           FillIntegers{elements(array), seed, std::max<std::int64_t>(of.integers_below, 1)});
    for (std::int64_t i = 0; stated != of.integers.end() && i < element_count(array); ++i) {
      elements(array).set_integer(i, stated->second[static_cast<std::size_t>(i)]);
    }
    return array;
  }

  const Op& op() const { return graph_.ops.back(); }
  const Graph& graph() const { return graph_; }
  std::vector<Array>& values() { return values_; }
  static double& number(const Array& array, std::int64_t i) {
    return static_cast<double*>(first_element(array))[elements(array).position(i)];
  }

  // Of copies of the inputs, over which an op may write.
  ForwardRun forward() {
    ForwardRun run{.memory = memory_, .graph = graph_, .op = op(), .seed = test_seed()};
    for (const Array& value : values_) {
      run.inputs.push_back(memory_.make_like(value));
      std::memcpy(first_element(run.inputs.back()), first_element(value),
                  static_cast<std::size_t>(value.block->bytes));
    }
    find_kernel(op().kind->name)->forward(run);
    return run;
  }

  // Fixed numbers by which the outputs are weighted.
  Array weights_like(const Array& output, std::size_t place) {
    Array array = memory_.make(output.type, output.shape);
    launch(*device_, element_count(array),
           FillNormal<double>{elements(array), test_seed() + 100 + place, 1.0});
    for (std::int64_t i = 0; i < element_count(array); ++i) {  // not of what a mask hides
      if (std::abs(elements(output).get<double>(i)) > 1e30) elements(array).set<double>(i, 0.0);
    }
    return array;
  }

  double weighted_sum() {
    const ForwardRun run = forward();
    double sum = 0.0;
    for (std::size_t o = 0; o < run.outputs.size(); ++o) {
      if (!is_floating(run.outputs[o].type)) continue;
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
      run.inputs.push_back(saved(op().inputs[i], forward_run.inputs[i]));
      run.wants.push_back(graph_.tensor(op().inputs[i]).requires_grad);
    }
    for (std::size_t i = 0; i < op().outputs.size(); ++i) {
      run.outputs.push_back(saved(op().outputs[i], forward_run.outputs[i]));
      run.output_gradients.push_back(is_floating(forward_run.outputs[i].type)
                                         ? weights_like(forward_run.outputs[i], i)
                                         : Array{});
    }
    for (std::size_t i = 0; i < op().auxiliaries.size(); ++i) {
      run.auxiliaries.push_back(saved(op().auxiliaries[i], forward_run.auxiliaries[i]));
    }
    run.gradients.resize(values_.size());
    find_kernel(op().kind->name)->backward(run);
    return run.gradients;
  }

 private:
  DataType number_type_ = DataType::kFloat64;
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
  for (const KernelCase& of : all_cases()) {
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

TEST_CASE("kernels run in fp32, bf16 and fp64, forward and backward: gradients have that type") {
  for (const KernelCase& of : all_cases()) {
    for (const DataType type : {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat64}) {
      CAPTURE(case_text(of));
      OpRun run(of, type);
      const std::vector<InputGradient> gradients = run.backward();
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        if (!gradients[i].array.is_there()) continue;  // none is asked for, or there is none
        CHECK(gradients[i].array.type == type);
      }
    }
  }
}

TEST_CASE("gradients of every kernel are those of central differences, in float64") {
  constexpr double kStep = 1e-6;
  INFO("--seed=", test_seed());
  for (const KernelCase& of : all_cases()) {
    CAPTURE(case_text(of));
    OpRun run(of);
    if (!run.graph().tensor(run.op().outputs[0]).requires_grad) continue;
    const std::vector<InputGradient> gradients = run.backward();
    for (std::size_t input = 0; input < run.values().size(); ++input) {
      if (!run.graph().tensor(run.op().inputs[input]).requires_grad) continue;
      const Array& values = run.values()[input];
      const Array& gradient = gradients[input].array;
      REQUIRE(has_same_shape(gradient, values));
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

TEST_CASE("every op kind has a kernel and a case here, but those that are refused") {
  const std::set<std::string> refused = {"linear_4bit", "linear_4bit_saving_input", "linear_8bit"};
  std::set<std::string> cases = {"custom"};  // tests/executor/executor_test.cc
  for (const KernelCase& of : all_cases()) cases.insert(of.kind);
  for (const std::string& kind : op_kind_names()) {
    CAPTURE(kind);
    CHECK((find_kernel(kind) == nullptr) == (refused.count(kind) > 0));
    CHECK((cases.count(kind) > 0) != (refused.count(kind) > 0));
  }
}

}  // namespace
}  // namespace cairn
