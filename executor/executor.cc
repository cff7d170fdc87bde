#include "executor/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "executor/gradients.h"
#include "executor/holders.h"
#include "executor/kernel.h"
#include "executor/live_tensors.h"
#include "executor/load.h"
#include "graph/error.h"
#include "graph/ops/op_kind.h"

namespace cairn {

namespace {

// Of a gradient that an observer sees at once.
constexpr std::int64_t kPartBytes = std::int64_t{1} << 20;

// A tensor's type and shape, without its elements.
Array without_elements(Array array) {
  array.block = nullptr;
  return array;
}

std::int64_t bytes_of_blocks(const std::vector<Array>& arrays) {
  std::int64_t bytes = 0;
  for (const Array& array : arrays) bytes += array.block->bytes;
  return bytes;
}

std::int64_t nanoseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() -
                                                              begin)
      .count();
}

}  // namespace

class Executor::State {
 public:
  State(const Graph& graph, const Schedule& schedule, Device& device,
        const ExecutorOptions& options)
      : graph_(graph),
        schedule_(schedule),
        options_(options),
        memory_(device, options.limit_bytes),
        tensors_(graph.tensors.size()),
        gradients_(graph, memory_),
        optimizer_(graph, memory_, options.optimizer),
        seen_(graph.tensors.size()),
        workspaces_(graph.ops.size()) {
    memory_.poison_freed(options.poisons_freed);
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      const auto id = static_cast<TensorId>(i);
      if (!is_resident(graph.tensor(id)) || graph.storage(graph.tensor(id).storage).owner != id) {
        continue;
      }
      try {
        hold(id, load_tensor(graph, id, memory_, options.seed));
        if (graph.tensor(id).role == TensorRole::kParameter) optimizer_.load(id, tensors_[id]);
      } catch (const DeviceError& error) {
        throw DeviceError(
            fmt::format("loading {}: {}{}", graph.tensor(id).name, error.what(), live_text()));
      }
    }
  }

  const Memory& memory() const { return memory_; }
  const std::vector<OpWorkspaces>& workspaces() const { return workspaces_; }
  const Array& resident(TensorId id) const { return tensors_[id]; }

  ExecutedStep run_step(const GradientObserver& observer) {
    ExecutedStep result;
    const auto begin = std::chrono::steady_clock::now();
    gradients_.begin_training_step();
    ++training_step_;
    std::size_t position = 0;
    while (position < schedule_.steps.size()) {
      const std::size_t end = end_of_micro_batch(position);
      const std::int64_t times = times_run(schedule_, schedule_.steps[position]);
      for (std::int64_t i = 0; i < times; ++i) {
        run_range(position, end, observer, i + 1 == times ? &result : nullptr);
        ++pass_count_;
      }
      position = end;
    }
    observe_input_gradients();
    result.time_ns = nanoseconds_since(begin) - std::exchange(observed_ns_, 0);
    result.loss = loss_;
    for (const MeasuredStep& step : result.steps) {
      result.peak_bytes = std::max(result.peak_bytes, step.during_bytes);
    }
    return result;
  }

 private:
  void hold(TensorId id, Array array) {
    seen_[index(id)] = without_elements(array);
    tensors_.hold(id, std::move(array));
  }

  std::size_t end_of_micro_batch(std::size_t position) const {
    const Step& first = schedule_.steps[position];
    std::size_t end = position;
    while (end < schedule_.steps.size() &&
           times_run(schedule_, schedule_.steps[end]) == times_run(schedule_, first) &&
           schedule_.steps[end].micro_batch == first.micro_batch) {
      ++end;
    }
    return end;
  }

  void run_range(std::size_t position, std::size_t end, const GradientObserver& observer,
                 ExecutedStep* result) {
    Device& device = memory_.device();
    while (position < end) {
      const std::int64_t observed_before_ns = observed_ns_;
      MeasuredStep measured{.step = position};
      memory_.begin_peak();
      try {
        const std::int64_t begin = device.mark();
        run(position, observer);
        measured.during_bytes = memory_.peak_bytes();
        position = free_behind(position);
        memory_.begin_peak();
        gradients_.add_late_sums();
        measured.during_bytes = std::max(measured.during_bytes, memory_.peak_bytes());
        gradients_.settle_parameters();
        // Waits for the device, so that what fails there fails in this step.
        measured.time_ns = device.elapsed_ns(begin, device.mark());
      } catch (const DeviceError& error) {
        throw DeviceError(place(measured.step) + error.what() + live_text());
      } catch (const ScheduleFault& fault) {
        throw ScheduleFault(place(measured.step) + fault.what());
      }
      measured.after_bytes = memory_.live_bytes();
      measured.time_ns -= observed_ns_ - observed_before_ns;
      if (result != nullptr) result->steps.push_back(measured);
    }
  }

  std::string place(std::size_t position) const {
    const Step& step = schedule_.steps[position];
    const std::string of = step.op == kNoOp ? "" : " of " + graph_.op(step.op).name;
    return fmt::format("training step {}, step {} of {}, {}{}: ", training_step_, position + 1,
                       schedule_.steps.size(), step_kind_name(step.kind), of);
  }

  std::string live_text() const {
    std::vector<LiveArray> live = live_arrays(graph_, tensors_, gradients_);
    if (optimizer_.bytes() > 0) {
      live.push_back({.name = "optimizer states", .bytes = optimizer_.bytes()});
    }
    return largest_text(std::move(live), memory_.live_bytes());
  }

  void run(std::size_t position, const GradientObserver& observer) {
    const Step& step = schedule_.steps[position];
    switch (step.kind) {
      case StepKind::kCompute:
      case StepKind::kRecompute:
        return forward(step.op, position);
      case StepKind::kBackward:
        return backward(step.op);
      case StepKind::kOptimizerStep:
        return step_parameters(schedule_.groups[static_cast<std::size_t>(step.group)], observer);
      case StepKind::kFree:
      case StepKind::kFreeGradient:
        break;
    }
    CAIRN_CHECK(false, "a Free is run behind the step before it");
  }

  const Array& read(TensorId id) const {
    if (!tensors_.holds(id)) {
      throw ScheduleFault(fmt::format("it reads {}, which is not there", graph_.tensor(id).name));
    }
    return tensors_[id];
  }

  const Array& read_gradient(TensorId id) const {
    if (graph_.tensor(id).has_gradient && !gradients_.holds(id)) {
      throw ScheduleFault(
          fmt::format("it reads the gradient of {}, which is not there", graph_.tensor(id).name));
    }
    return gradients_[id];
  }

  // Whether an auxiliary that this run makes outlives the step.
  bool keeps_auxiliaries(const Op& op, std::size_t position) const {
    const auto is_freed = [&](TensorId id) {
      for (std::size_t i = position + 1;
           i < schedule_.steps.size() && is_free(schedule_.steps[i].kind); ++i) {
        const Step& step = schedule_.steps[i];
        if (step.kind == StepKind::kFree && step.tensor == id) return true;
      }
      return false;
    };
    return std::any_of(op.auxiliaries.begin(), op.auxiliaries.end(),
                       [&](TensorId id) { return !tensors_.holds(id) && !is_freed(id); });
  }

  // One that is live keeps its copy: what a recompute makes of it is gone with the step.
  void take(const std::vector<TensorId>& ids, std::vector<Array>& made) {
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (!tensors_.holds(ids[i])) hold(ids[i], made[i]);
    }
  }

  void forward(OpId id, std::size_t position) {
    const Op& op = graph_.op(id);
    // The same numbers whenever this pass computes the op, other ones in another.
    const std::uint64_t seed = options_.seed + 0x9E3779B97F4A7C15U * (index(id) + 1) +
                               (static_cast<std::uint64_t>(pass_count_) << 32);
    ForwardRun run{.memory = memory_,
                   .graph = graph_,
                   .op = op,
                   .seed = seed,
                   .keeps_auxiliaries = keeps_auxiliaries(op, position)};
    for (const TensorId input : op.inputs) run.inputs.push_back(read(input));
    find_kernel(op.kind->name)->forward(run);
    workspaces_[index(id)].forward_bytes = bytes_of_blocks(run.workspaces);
    take(op.outputs, run.outputs);
    take(op.auxiliaries, run.auxiliaries);
    for (const TensorId output : op.outputs) observe(output, tensors_[output], false);
    if (std::find(op.outputs.begin(), op.outputs.end(), graph_.loss) != op.outputs.end()) {
      loss_ = first_number(tensors_[graph_.loss]);
    }
  }

  void observe(TensorId id, const Array& array, bool is_gradient) const {
    if (!options_.tensor_observer) return;
    options_.tensor_observer({.tensor = id,
                              .is_gradient = is_gradient,
                              .type = array.type,
                              .bytes = host_bytes(memory_.device(), array)});
  }

  // Those of parameters are seen where the optimizer steps them.
  void observe_input_gradients() const {
    for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
      const auto id = static_cast<TensorId>(i);
      if (graph_.tensors[i].role != TensorRole::kInput || !gradients_.holds(id)) continue;
      observe(id, gradients_[id], true);
    }
  }

  double first_number(const Array& array) const {
    if (element_count(array) == 0) return 0.0;
    if (array.type == DataType::kFloat64) {
      double value = 0.0;
      memory_.device().copy_out(&value, first_element(array), sizeof(value));
      return value;
    }
    if (array.type == DataType::kBFloat16) {
      std::uint16_t bits = 0;
      memory_.device().copy_out(&bits, first_element(array), sizeof(bits));
      return static_cast<double>(float_of_bf16(bits));
    }
    float value = 0.0F;
    memory_.device().copy_out(&value, first_element(array), sizeof(value));
    return static_cast<double>(value);
  }

  // Elements of what the op saved, type and shape of the rest.
  std::vector<Array> saved(const Op& op, const std::vector<TensorId>& ids) const {
    std::vector<Array> arrays;
    for (const TensorId id : ids) {
      const bool is_saved = std::find(op.saved.begin(), op.saved.end(), id) != op.saved.end();
      arrays.push_back(is_saved ? read(id) : seen_[index(id)]);
    }
    return arrays;
  }

  void backward(OpId id) {
    const Op& op = graph_.op(id);
    if (std::find(op.outputs.begin(), op.outputs.end(), graph_.loss) != op.outputs.end()) {
      gradients_.start_from(graph_.loss, seen_[index(graph_.loss)]);
    }
    BackwardRun run{.memory = memory_,
                    .graph = graph_,
                    .op = op,
                    .inputs = saved(op, op.inputs),
                    .outputs = saved(op, op.outputs),
                    .auxiliaries = saved(op, op.auxiliaries)};
    for (const TensorId output : op.outputs) {
      run.output_gradients.push_back(read_gradient(output));
    }
    for (const TensorId input : op.inputs) {
      run.wants.push_back(graph_.tensor(input).has_gradient);
    }
    run.gradients.resize(op.inputs.size());
    find_kernel(op.kind->name)->backward(run);
    workspaces_[index(id)].backward_bytes = bytes_of_blocks(run.workspaces);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (run.wants[i]) gradients_.contribute(op.inputs[i], run.gradients[i]);
    }
  }

  void step_parameters(const ParameterGroup& group, const GradientObserver& observer) {
    for (const TensorId id : group.parameters) {
      const Array& gradient = read_gradient(id);
      if (observer) show(id, observer);
      observe(id, gradient, true);
      optimizer_.step(id, tensors_[id], gradient);
    }
  }

  void show(TensorId parameter, const GradientObserver& observer) {
    const auto begin = std::chrono::steady_clock::now();
    const Array& array = gradients_[parameter];
    const std::int64_t bytes = element_count(array) * bytes_per_element(array.type);
    const auto* const data = static_cast<const std::uint8_t*>(first_element(array));
    for (std::int64_t first = 0; first < bytes; first += kPartBytes) {
      const std::int64_t count = std::min(kPartBytes, bytes - first);
      GradientSeen seen{.parameter = parameter, .first_byte = first};
      seen.bytes.resize(static_cast<std::size_t>(count));
      memory_.device().copy_out(seen.bytes.data(), data + first, count);
      observer(seen);
    }
    observed_ns_ += nanoseconds_since(begin);
  }

  std::size_t free_behind(std::size_t position) {
    std::size_t next = position + 1;
    for (; next < schedule_.steps.size() && is_free(schedule_.steps[next].kind); ++next) {
      const Step& step = schedule_.steps[next];
      if (step.kind == StepKind::kFree) {
        tensors_.release(step.tensor);
      } else {
        gradients_.release(step.tensor);
      }
    }
    return next;
  }

  const Graph& graph_;
  const Schedule& schedule_;
  ExecutorOptions options_ = {};
  Memory memory_;  // before all that holds its blocks
  Holders tensors_;
  Gradients gradients_;
  ParameterSteps optimizer_;
  std::vector<Array> seen_ = {};  // types and shapes
  std::vector<OpWorkspaces> workspaces_ = {};
  std::int64_t training_step_ = 0;  // from 1
  std::int64_t pass_count_ = 0;
  double loss_ = 0.0;
  std::int64_t observed_ns_ = 0;  // in this training step, by the observer
};

Executor::Executor(const Graph& graph, const Schedule& schedule, Device& device,
                   const ExecutorOptions& options) {
  check_executable(graph);
  state_ = std::make_unique<State>(graph, schedule, device, options);
}

Executor::~Executor() = default;

std::int64_t Executor::resident_bytes() const { return state_->memory().live_bytes(); }

const std::vector<OpWorkspaces>& Executor::workspaces() const { return state_->workspaces(); }

void Executor::set_tensor(TensorId id, const void* bytes) {
  const Array& array = state_->resident(id);
  state_->memory().device().copy_in(array.block->data, bytes, array.block->bytes);
}

std::vector<std::uint8_t> Executor::tensor(TensorId id) const {
  const Array& array = state_->resident(id);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(array.block->bytes));
  state_->memory().device().copy_out(bytes.data(), array.block->data, array.block->bytes);
  return bytes;
}

ExecutedStep Executor::run_step(const GradientObserver& observer) {
  return state_->run_step(observer);
}

}  // namespace cairn
