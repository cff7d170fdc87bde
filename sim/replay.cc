#include "sim/replay.h"

#include <algorithm>

#include "graph/checked.h"
#include "graph/error.h"
#include "graph/training_step.h"

namespace cairn {

Replay::Replay(const Graph& graph, const Schedule& schedule, const ReplayStart& start)
    : graph_(graph), schedule_(schedule) {
  of_tensor_.assign(graph.tensors.size(), -1);
  of_gradient_.assign(graph.tensors.size(), -1);
  has_states_.assign(graph.tensors.size(), false);
  is_view_.assign(graph.tensors.size(), false);
  of_gathered_.assign(graph.tensors.size(), -1);
  contributed_.assign(graph.tensors.size(), 0);
  contribution_count_.assign(graph.tensors.size(), 0);
  has_earlier_gradient_.assign(graph.tensors.size(), false);
  for (const Op& op : graph.ops) {
    if (!op.has_backward) continue;
    for (const TensorId input : op.inputs) ++contribution_count_[index(input)];
  }
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& tensor = graph.tensors[i];
    if (!is_resident(tensor)) continue;
    attach(of_tensor_[i], allocate(graph.storage(tensor.storage).bytes));
    if (tensor.role != TensorRole::kParameter) continue;
    live_bytes_ = checked_add(live_bytes_, tensor.master_weight_bytes, "live bytes");
    live_bytes_ = checked_add(live_bytes_, tensor.main_gradient_bytes, "live bytes");
    if (start.has_states) make_states(static_cast<TensorId>(i));
    if (!start.has_gradients || !tensor.has_gradient) continue;
    attach(of_gradient_[i], allocate(tensor.bytes));
    has_earlier_gradient_[i] = true;
  }
}

void Replay::make_states(TensorId parameter) {
  if (has_states_[index(parameter)]) return;
  has_states_[index(parameter)] = true;
  const std::int64_t bytes = graph_.tensor(parameter).optimizer_state_bytes;
  state_bytes_ = checked_add(state_bytes_, bytes, "optimizer states");
  live_bytes_ = checked_add(live_bytes_, bytes, "live bytes");
}

std::int32_t Replay::allocate(std::int64_t bytes) {
  live_bytes_ = checked_add(live_bytes_, bytes, "live bytes");
  if (unused_.empty()) {
    allocations_.push_back({.bytes = bytes});
    return static_cast<std::int32_t>(allocations_.size()) - 1;
  }
  const std::int32_t id = unused_.back();
  unused_.pop_back();
  allocations_[static_cast<std::size_t>(id)] = {.bytes = bytes};
  return id;
}

void Replay::attach(std::int32_t& slot, std::int32_t allocation) {
  slot = allocation;
  ++allocations_[static_cast<std::size_t>(allocation)].reference_count;
}

void Replay::release(std::int32_t& slot) {
  Allocation& allocation = allocations_[static_cast<std::size_t>(slot)];
  if (--allocation.reference_count == 0) {
    live_bytes_ -= allocation.bytes;
    unused_.push_back(slot);
  }
  slot = -1;
}

void Replay::make(TensorId id, bool recompute) {
  std::int32_t& slot = of_tensor_[index(id)];
  const Storage& storage = graph_.storage(graph_.tensor(id).storage);
  if (slot >= 0) {
    CAIRN_CHECK(recompute, graph_.tensor(id).name + " is computed while live");
    if (storage.owner == id) {
      transients_.push_back(
          {.kind = Transient::Kind::kDuplicate, .tensor = id, .bytes = storage.bytes});
    }
    return;
  }
  if (storage.owner == id) {
    attach(slot, allocate(storage.bytes));
    return;
  }
  // A view sits on the copy that an input of its op, on the same storage, has now.
  for (const TensorId input : graph_.op(graph_.tensor(id).producer).inputs) {
    if (graph_.tensor(input).storage != graph_.tensor(id).storage) continue;
    CAIRN_CHECK(of_tensor_[index(input)] >= 0, graph_.tensor(input).name + " is not live");
    attach(slot, of_tensor_[index(input)]);
    return;
  }
  CAIRN_CHECK(false, graph_.tensor(id).name + " is a view of nothing its op reads");
}

// The tensors that the Free steps behind `position` free, in order of id.
std::vector<TensorId> Replay::freed_behind(std::size_t position) const {
  std::vector<TensorId> freed;
  for (std::size_t i = position + 1; i < schedule_.steps.size(); ++i) {
    const Step& step = schedule_.steps[i];
    if (!is_free(step.kind)) break;
    if (step.kind == StepKind::kFree) freed.push_back(step.tensor);
  }
  std::sort(freed.begin(), freed.end());
  return freed;
}

// Rule 5: no auxiliary of this run outlives its step.
bool Replay::sweeps(const Op& op, std::size_t position) const {
  if (!op.sweep_workspace_bytes) return false;
  const std::vector<TensorId> freed = freed_behind(position);
  return std::all_of(op.auxiliaries.begin(), op.auxiliaries.end(), [&](TensorId auxiliary) {
    return of_tensor_[index(auxiliary)] >= 0 ||
           std::binary_search(freed.begin(), freed.end(), auxiliary);
  });
}

void Replay::run_forward(const Op& op, std::size_t position, bool recompute) {
  for (const TensorId input : op.inputs) {
    CAIRN_CHECK(of_tensor_[index(input)] >= 0,
                op.name + " reads " + graph_.tensor(input).name + ", which is not live");
  }
  for (const TensorId output : op.outputs) make(output, recompute);
  const bool is_sweep = sweeps(op, position);
  if (!is_sweep) {
    for (const TensorId auxiliary : op.auxiliaries) make(auxiliary, recompute);
  }
  transients_.push_back({.kind = Transient::Kind::kWorkspace,
                         .bytes = is_sweep ? *op.sweep_workspace_bytes : op.workspace_bytes});
}

// Where the contributions of this pass go: to the gradient, or, where a parameter has one of an
// earlier pass and gets several now, to a tensor that gathers them first.
std::int32_t& Replay::gathering_slot(TensorId id) {
  const bool gathers = has_earlier_gradient_[index(id)] && contribution_count_[index(id)] > 1;
  return gathers ? of_gathered_[index(id)] : of_gradient_[index(id)];
}

// A first contribution begins the gradient; a later one is a tensor of its own in this step.
void Replay::contribute(const Op& op, std::size_t input) {
  const TensorId id = op.inputs[input];
  const Tensor& tensor = graph_.tensor(id);
  std::int32_t& gradient = gathering_slot(id);
  const std::int32_t output_gradient = of_gradient_[index(op.outputs[0])];
  const TensorId place = op.gradient_places[input];
  const bool aliases = op.gradient_aliases[input] && output_gradient >= 0;
  const std::int64_t contribution_bytes = aliases || place != kNoTensor ? 0 : tensor.bytes;
  if (gradient < 0) {
    attach(gradient, place != kNoTensor ? of_tensor_[index(place)]
                     : aliases          ? output_gradient
                                        : allocate(tensor.bytes));
    is_view_[index(id)] = op.gradient_views[input];
    return;
  }
  if (contribution_bytes > 0) {
    transients_.push_back(
        {.kind = Transient::Kind::kContribution, .tensor = id, .bytes = tensor.bytes});
  }
  // Adding into memory that another gradient still reads makes a new storage.
  if (allocation(gradient).reference_count > 1) {
    release(gradient);
    attach(gradient, allocate(tensor.bytes));
  } else if (is_view_[index(id)]) {
    sum_behind(id, contribution_bytes,
               place != kNoTensor ? of_tensor_[index(place)]
               : aliases          ? output_gradient
                                  : -1);
  }
  is_view_[index(id)] = false;
}

// A contribution without bytes of its own keeps what it lies in alive until it is added.
void Replay::sum_behind(TensorId id, std::int64_t contribution_bytes, std::int32_t lies_in) {
  late_sums_.push_back({.tensor = id, .contribution_bytes = contribution_bytes});
  if (lies_in >= 0) attach(late_sums_.back().lies_in, lies_in);
}

// Behind the frees, one by one: the old gradient, the sum that takes its place, and the
// contributions that were not added yet.
void Replay::add_late_sums() {
  std::int64_t contribution_bytes = 0;
  for (const LateSum& sum : late_sums_) {
    contribution_bytes = checked_add(contribution_bytes, sum.contribution_bytes, "live bytes");
  }
  std::int64_t most = live_bytes_;
  for (LateSum& sum : late_sums_) {
    const std::int64_t made =
        checked_add(graph_.tensor(sum.tensor).bytes, contribution_bytes, "live bytes");
    const std::int64_t during = checked_add(live_bytes_, made, "live bytes");
    if (during > most) {
      most = during;
      sum_ = {.kind = Transient::Kind::kSum, .tensor = sum.tensor};
    }
    contribution_bytes -= sum.contribution_bytes;
    if (sum.lies_in >= 0) release(sum.lies_in);
  }
  sum_.bytes = most - live_bytes_;
  late_sums_.clear();
}

// Behind a parameter's last contribution of a pass, what was gathered is added to its gradient.
void Replay::count_contribution(TensorId id) {
  if (graph_.tensor(id).role != TensorRole::kParameter) return;
  if (++contributed_[index(id)] < contribution_count_[index(id)]) return;
  contributed_[index(id)] = 0;
  is_view_[index(id)] = false;
  has_earlier_gradient_[index(id)] = true;
  completed_.push_back(id);
}

// What was gathered is added and gone. A gradient that shares its storage is cloned: the
// parameter's has to be its own.
void Replay::settle(TensorId parameter) {
  std::int32_t& gathered = of_gathered_[index(parameter)];
  if (gathered >= 0) release(gathered);
  std::int32_t& gradient = of_gradient_[index(parameter)];
  if (gradient < 0 || allocation(gradient).reference_count == 1) return;
  release(gradient);
  attach(gradient, allocate(graph_.tensor(parameter).bytes));
}

void Replay::run_backward(const Op& op) {
  for (const TensorId saved : op.saved) {
    CAIRN_CHECK(
        of_tensor_[index(saved)] >= 0,
        "backward of " + op.name + " reads " + graph_.tensor(saved).name + ", which is not live");
  }
  for (const TensorId output : op.outputs) {
    if (output == graph_.loss && graph_.tensor(output).has_gradient) {
      attach(of_gradient_[index(output)], allocate(graph_.tensor(output).bytes));
    }
  }
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    if (!graph_.tensor(op.inputs[i]).has_gradient) continue;
    contribute(op, i);
    count_contribution(op.inputs[i]);
  }
  transients_.push_back(
      {.kind = Transient::Kind::kWorkspace, .bytes = op.backward_workspace_bytes});
}

void Replay::run_optimizer(const ParameterGroup& group) {
  const bool makes_states =
      !group.parameters.empty() && !has_states_[index(group.parameters.front())];
  for (const TensorId parameter : group.parameters) {
    CAIRN_CHECK(
        graph_.tensor(parameter).main_gradient_bytes > 0 || of_gradient_[index(parameter)] >= 0,
        "the optimizer steps " + graph_.tensor(parameter).name + ", without a gradient");
    make_states(parameter);
  }
  transients_.push_back({.kind = Transient::Kind::kOptimizer,
                         .bytes = optimizer_workspace_bytes(graph_, group, makes_states)});
}

void Replay::begin_step(std::size_t position) {
  const Step& step = schedule_.steps[position];
  transients_.clear();
  sum_ = {};
  switch (step.kind) {
    case StepKind::kCompute:
    case StepKind::kRecompute:
      run_forward(graph_.op(step.op), position, step.kind == StepKind::kRecompute);
      return;
    case StepKind::kBackward:
      run_backward(graph_.op(step.op));
      return;
    case StepKind::kOptimizerStep:
      run_optimizer(schedule_.groups[static_cast<std::size_t>(step.group)]);
      return;
    case StepKind::kFree:
    case StepKind::kFreeGradient:
      break;
  }
  CAIRN_CHECK(false, "a Free is run by end_step");
}

std::int64_t Replay::during_bytes() const {
  std::int64_t bytes = live_bytes_;
  for (const Transient& transient : transients_) {
    bytes = checked_add(bytes, transient.bytes, "live bytes");
  }
  return bytes;
}

// The accumulation hook of a parameter adds its gradient to the main gradient, and drops it.
bool Replay::goes_into_main_gradient(const Step& free) const {
  return free.kind == StepKind::kFreeGradient && graph_.tensor(free.tensor).main_gradient_bytes > 0;
}

std::size_t Replay::end_step(std::size_t position) {
  const std::size_t next = free_behind(position);
  for (std::size_t i = position + 1; i < next; ++i) {
    const Step& step = schedule_.steps[i];
    if (!goes_into_main_gradient(step)) continue;
    release(of_gradient_[index(step.tensor)]);
    has_earlier_gradient_[index(step.tensor)] = false;
  }
  for (const TensorId parameter : completed_) settle(parameter);
  completed_.clear();
  return next;
}

// A parameter's gradient has to be its own, also where it only goes into the main gradient.
void Replay::clone_if_shared(TensorId parameter) {
  const std::int64_t bytes = graph_.tensor(parameter).bytes;
  const bool is_shared = allocation(of_gradient_[index(parameter)]).reference_count > 1;
  if (!is_shared || bytes <= sum_.bytes) return;
  sum_ = {.kind = Transient::Kind::kClone, .tensor = parameter, .bytes = bytes};
}

std::size_t Replay::free_behind(std::size_t position) {
  std::size_t next = position + 1;
  for (; next < schedule_.steps.size() && is_free(schedule_.steps[next].kind); ++next) {
    const Step& step = schedule_.steps[next];
    if (goes_into_main_gradient(step)) continue;
    std::int32_t& slot = step.kind == StepKind::kFree ? of_tensor_[index(step.tensor)]
                                                      : of_gradient_[index(step.tensor)];
    if (step.kind == StepKind::kFreeGradient) has_earlier_gradient_[index(step.tensor)] = false;
    if (slot >= 0) {
      release(slot);
      continue;
    }
    // A swept op did not make its auxiliaries; nothing else may be freed twice.
    CAIRN_CHECK(graph_.tensor(step.tensor).role == TensorRole::kAuxiliary,
                step_text(graph_, step) + " frees what is not live");
  }
  add_late_sums();
  for (std::size_t i = position + 1; i < next; ++i) {
    if (goes_into_main_gradient(schedule_.steps[i])) clone_if_shared(schedule_.steps[i].tensor);
  }
  summing_bytes_ = checked_add(live_bytes_, sum_.bytes, "live bytes");
  return next;
}

}  // namespace cairn
