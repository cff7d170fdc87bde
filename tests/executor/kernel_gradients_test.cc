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
#include "tests/executor/kernel_cases.h"
#include "tests/executor/test_device.h"
#include "tests/seed.h"

namespace cairn {
namespace {

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

TEST_CASE("kernels run in fp32 and bf16, forward and backward, and make gradients of that type") {
  for (const KernelCase& of : all_cases()) {
    for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
      CAPTURE(case_text(of));
      OpRun run(of, type);
      if (!run.graph().tensor(run.op().outputs[0]).requires_grad) continue;
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
