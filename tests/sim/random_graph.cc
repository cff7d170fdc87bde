#include "tests/sim/random_graph.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph_builder.h"
#include "sim/validator.h"

namespace cairn {
namespace {

// Few sizes, so that gradients can alias; zero now and then.
std::int64_t random_bytes(Random& random) {
  constexpr std::int64_t kSizes[] = {0, 1, 4, 4, 4, 8, 8, 16};
  return kSizes[pick(random, std::size(kSizes))];
}

class GraphMaker {
 public:
  explicit GraphMaker(Random& random) : random_(random) {}

  Graph make() {
    add_sources();
    const std::size_t op_count = 4 + pick(random_, 9);
    for (std::size_t i = 1; i < op_count; ++i) add_op("op" + std::to_string(i));
    const TensorId loss = add_loss();
    if (one_in(random_, 4)) add_op("behind");
    hold_some();
    Graph graph = builder_.build(loss);
    for (Tensor& tensor : graph.tensors) {
      const bool is_stepped = tensor.role == TensorRole::kParameter && tensor.has_gradient;
      if (is_stepped && one_in(random_, 2)) tensor.optimizer_state_bytes = 2 * tensor.bytes;
      if (!is_stepped || one_in(random_, 2)) continue;
      tensor.optimizer_temporary_bytes = random_bytes(random_);
      tensor.optimizer_carried_bytes = std::min(tensor.optimizer_temporary_bytes, tensor.bytes);
      if (one_in(random_, 2)) continue;
      tensor.optimizer_part = one_in(random_, 2) ? 1 : 0;
      tensor.optimizer_early_temporary_bytes = random_bytes(random_);
      tensor.optimizer_early_carried_bytes = random_bytes(random_);
    }
    return graph;
  }

 private:
  void add_sources() {
    values_.push_back(builder_.add_input_bytes("in0", random_bytes(random_), true));
    if (one_in(random_, 2)) {
      values_.push_back(builder_.add_input_bytes("in1", random_bytes(random_), one_in(random_, 2)));
    }
    const std::size_t parameter_count = pick(random_, 4);
    for (std::size_t i = 0; i < parameter_count; ++i) {
      parameters_.push_back(builder_.add_parameter_bytes(
          "w" + std::to_string(i), random_bytes(random_), !one_in(random_, 4)));
    }
  }

  // A value, more likely a late one.
  TensorId random_value() {
    const std::size_t first = pick(random_, values_.size());
    const std::size_t second = pick(random_, values_.size());
    return values_[std::max(first, second)];
  }

  CustomOp start_op(const std::string& name) {
    CustomOp op{.name = name};
    const std::size_t input_count = 1 + pick(random_, 3);
    for (std::size_t i = 0; i < input_count; ++i) {
      const TensorId value = random_value();
      const bool is_new = std::find(op.inputs.begin(), op.inputs.end(), value) == op.inputs.end();
      if (is_new || one_in(random_, 3)) op.inputs.push_back(value);
    }
    return op;
  }

  // Inputs whose storage no other input shares: what a view can be of.
  std::vector<TensorId> view_bases(const CustomOp& op) const {
    std::vector<TensorId> bases;
    for (const TensorId input : op.inputs) {
      const auto on_same_storage =
          std::count_if(op.inputs.begin(), op.inputs.end(), [&](TensorId other) {
            return builder_.tensor(other).storage == builder_.tensor(input).storage;
          });
      if (on_same_storage == 1) bases.push_back(input);
    }
    return bases;
  }

  void add_made(CustomOp& op) {
    const std::size_t output_count = one_in(random_, 4) ? 2 : 1;
    const std::vector<TensorId> bases = view_bases(op);
    const bool is_view = !bases.empty() && one_in(random_, 5);
    for (std::size_t i = 0; i < output_count; ++i) {
      CustomTensor made{.name = op.name + ".out" + std::to_string(i),
                        .bytes = random_bytes(random_)};
      if (is_view && (i == 0 || one_in(random_, 2))) {
        made.view_of = bases[pick(random_, bases.size())];
        made.bytes = builder_.tensor(made.view_of).bytes;
      } else if (one_in(random_, 2)) {
        made.bytes = builder_.tensor(op.inputs[0]).bytes;  // as `add` does
      }
      op.outputs.push_back(made);
    }
    const std::size_t auxiliary_count = one_in(random_, 3) ? 1 + pick(random_, 2) : 0;
    for (std::size_t i = 0; i < auxiliary_count; ++i) {
      op.auxiliaries.push_back(
          {.name = op.name + ".aux" + std::to_string(i), .bytes = 1 + random_bytes(random_)});
    }
  }

  void finish_op(CustomOp& op) {
    for (const TensorId input : op.inputs) {
      const Tensor& tensor = builder_.tensor(input);
      if (one_in(random_, 3)) op.saved.push_back(tensor.name);
      if (tensor.bytes == op.outputs[0].bytes && one_in(random_, 2)) {
        op.gradient_aliases.push_back(tensor.name);
      }
      if (one_in(random_, 3)) op.gradient_views.push_back(tensor.name);
    }
    place_gradient(op);
    for (const CustomTensor& output : op.outputs) {
      if (one_in(random_, 3)) op.saved.push_back(output.name);
    }
    for (const CustomTensor& auxiliary : op.auxiliaries) {
      if (!one_in(random_, 4)) op.saved.push_back(auxiliary.name);
    }
    op.saves_after_forward = one_in(random_, 5);
    if (one_in(random_, 3)) op.workspace_bytes = random_bytes(random_);
    if (one_in(random_, 3)) op.backward_workspace_bytes = random_bytes(random_);
    if (one_in(random_, 4)) op.sweep_workspace_bytes = random_bytes(random_);
    if (one_in(random_, 12)) op.recompute = RecomputePolicy::kNever;
    was_read_.insert(op.inputs.begin(), op.inputs.end());
    const std::vector<TensorId> outputs = builder_.add_custom(op);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      values_.push_back(outputs[i]);
      if (op.outputs[i].view_of == kNoTensor) continue;
      is_view_.insert(outputs[i]);
      was_read_.insert(op.outputs[i].view_of);
    }
  }

  // Backward may write an input's gradient over an auxiliary of its bytes, or over the input
  // itself, where nothing has read that and, as it is no value any more, nothing will.
  void place_gradient(CustomOp& op) {
    if (!one_in(random_, 3)) return;
    const TensorId input = op.inputs[pick(random_, op.inputs.size())];
    const Tensor& tensor = builder_.tensor(input);
    if (std::count(op.inputs.begin(), op.inputs.end(), input) > 1) return;
    const bool over_input =
        one_in(random_, 2) && values_.size() > 1 && !was_read_.contains(input) &&
        tensor.role == TensorRole::kOutput && !is_view_.contains(input) &&
        std::none_of(op.outputs.begin(), op.outputs.end(),
                     [&](const CustomTensor& made) { return made.view_of == input; });
    if (over_input) {
      values_.erase(std::find(values_.begin(), values_.end(), input));
      op.saved.push_back(tensor.name);
      op.gradient_places = {{tensor.name, tensor.name}};
      return;
    }
    CustomTensor made{.name = op.name + ".gradient", .bytes = tensor.bytes};
    op.saved.push_back(made.name);
    op.gradient_places = {{tensor.name, made.name}};
    op.auxiliaries.push_back(std::move(made));
  }

  void add_op(const std::string& name) {
    CustomOp op = start_op(name);
    if (!parameters_.empty() && one_in(random_, 2)) {
      op.inputs.push_back(parameters_[pick(random_, parameters_.size())]);
    }
    add_made(op);
    finish_op(op);
  }

  // Reads some values late in the graph, so that most of it is on the loss's path.
  TensorId add_loss() {
    CustomOp op = start_op("loss");
    if (std::find(op.inputs.begin(), op.inputs.end(), values_.back()) == op.inputs.end()) {
      op.inputs.push_back(values_.back());
    }
    op.outputs.push_back({.name = "loss.out", .bytes = random_bytes(random_)});
    finish_op(op);
    return values_.back();
  }

  // Some outputs are held until some op from their own on.
  void hold_some() {
    if (one_in(random_, 3)) return;
    for (const TensorId value : values_) {
      const OpId producer = builder_.tensor(value).producer;
      if (producer == kNoOp || !one_in(random_, 3)) continue;
      const std::size_t first = index(producer);
      const std::size_t last = first + pick(random_, builder_.op_count() - first);
      builder_.hold_until(value, static_cast<OpId>(last));
    }
  }

  Random& random_;
  GraphBuilder builder_{"random", DataType::kFloat32};
  std::vector<TensorId> values_ = {};
  std::set<TensorId> was_read_ = {};
  std::set<TensorId> is_view_ = {};
  std::vector<TensorId> parameters_ = {};
};

std::vector<OpId> random_order(const Graph& graph, Random& random) {
  std::vector<OpId> order;
  std::vector<bool> made(graph.tensors.size(), false);
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    made[i] = graph.tensors[i].producer == kNoOp;
  }
  std::vector<bool> ordered(graph.ops.size(), false);
  while (order.size() < graph.ops.size()) {
    const std::size_t i = pick(random, graph.ops.size());
    const Op& op = graph.ops[i];
    const bool ready = std::all_of(op.inputs.begin(), op.inputs.end(),
                                   [&](TensorId input) { return made[index(input)]; });
    if (ordered[i] || !ready) continue;
    ordered[i] = true;
    order.push_back(static_cast<OpId>(i));
    for (const TensorId output : op.outputs) made[index(output)] = true;
  }
  return order;
}

std::vector<Region> random_regions(std::int32_t begin, std::int32_t end, int depth,
                                   Random& random) {
  std::vector<Region> regions;
  while (begin < end) {
    const auto left = static_cast<std::size_t>(end - begin);
    const auto length = static_cast<std::int32_t>(1 + pick(random, left));
    if (!one_in(random, 3)) {
      Region region{.begin = begin, .end = begin + length};
      if (depth < 3 && !one_in(random, 3)) {
        region.inner = random_regions(begin, begin + length, depth + 1, random);
      }
      regions.push_back(std::move(region));
      begin += length;
    } else {
      begin += 1;
    }
  }
  return regions;
}

void add_random_keeps(const Graph& graph, Plan& plan, Random& random) {
  for (Region& region : plan.regions) {
    if (one_in(random, 2)) continue;
    for (std::int32_t position = region.begin; position < region.end; ++position) {
      const Op& op = graph.op(plan.order[static_cast<std::size_t>(position)]);
      std::vector<TensorId> made = op.outputs;
      made.insert(made.end(), op.auxiliaries.begin(), op.auxiliaries.end());
      for (const TensorId tensor : made) {
        if (!one_in(random, 3)) continue;
        region.keep.push_back(tensor);
        if (validate(graph, plan, {}).fault == Fault::kUselessKeep) region.keep.pop_back();
      }
    }
  }
}

}  // namespace

std::size_t pick(Random& random, std::size_t count) { return random() % count; }

bool one_in(Random& random, std::size_t count) { return pick(random, count) == 0; }

TrainingStep random_training_step(Random& random) {
  TrainingStep step;
  step.optimizer_loop = one_in(random, 2) ? OptimizerLoop::kForLoop : OptimizerLoop::kFused;
  step.optimizer_in_backward = one_in(random, 3);
  if (step.optimizer_in_backward) return step;
  step.micro_batches = 1 + static_cast<std::int64_t>(pick(random, 4));
  step.keeps_gradients = one_in(random, 2);
  if (!step.keeps_gradients && one_in(random, 2)) step.main_gradient_type = DataType::kFloat32;
  if (one_in(random, 2)) step.optimizer_loop = OptimizerLoop::kForeach;
  return step;
}

Graph with_main_gradients(Graph graph, const TrainingStep& step) {
  if (!step.main_gradient_type) return graph;
  for (Tensor& tensor : graph.tensors) {
    const bool has_one = tensor.role == TensorRole::kParameter && tensor.requires_grad;
    if (has_one) tensor.main_gradient_bytes = 2 * tensor.bytes + 1;
  }
  return graph;
}

Graph random_graph(Random& random) { return GraphMaker(random).make(); }

Plan random_plan(const Graph& graph, Extent extent, Random& random) {
  Plan plan = keep_all_plan(graph);
  plan.algorithm = "random";
  plan.extent = extent;
  if (one_in(random, 2)) plan.order = random_order(graph, random);
  plan.regions = random_regions(0, static_cast<std::int32_t>(plan.order.size()), 1, random);
  add_random_keeps(graph, plan, random);
  return plan;
}

}  // namespace cairn
