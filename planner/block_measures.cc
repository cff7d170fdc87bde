#include "planner/block_measures.h"

#include <algorithm>

#include "graph/error.h"
#include "graph/schedule.h"
#include "graph/training_step.h"
#include "sim/replay.h"

namespace cairn {
namespace {

// One step that is not a Free, as it was replayed.
struct Moment {
  StepKind kind = StepKind::kCompute;
  OpId op = kNoOp;
  std::size_t block = 0;
  std::int64_t before_bytes = 0;
  std::int64_t during_bytes = 0;
  std::int64_t gradients_behind_bytes = 0;  // of parameters, behind a Backward
};

class Measuring {
 public:
  Measuring(const Graph& graph, const std::vector<Block>& blocks, const Plan& plan,
            const Setting& setting, const OpCosts& costs)
      : graph_(graph),
        blocks_(blocks),
        costs_(costs),
        steps_in_backward_(setting.step.optimizer_in_backward),
        schedule_(lower_training_step(graph, setting.step, lower(graph, plan))),
        replay_(graph, schedule_,
                {.has_states = true, .has_gradients = keeps_gradients(graph, schedule_)}) {
    block_of_op_.resize(graph.ops.size());
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      for (std::int32_t i = blocks[b].begin; i < blocks[b].end; ++i) {
        block_of_op_[index(plan.order[static_cast<std::size_t>(i)])] = b;
      }
    }
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      if (graph.tensors[i].producer != kNoOp) continue;
      sources_.push_back(static_cast<TensorId>(i));
    }
    measures_.blocks.resize(blocks.size());
    held_before_.resize(blocks.size() + 1);
  }

  ChainMeasures measure() {
    const std::vector<Moment> moments = replay_all();
    for (const Moment& moment : moments) add(moment);
    return std::move(measures_);
  }

 private:
  // Whether what happens at this step is measured: the last micro-batch.
  bool counts(const Step& step) const {
    if (step.kind == StepKind::kOptimizerStep) return steps_in_backward_;
    return step.micro_batch == (schedule_.micro_batches > 1 ? 1 : 0);
  }

  std::vector<Moment> replay_all() {
    std::vector<Moment> moments;
    bool is_forward = true;
    for (std::size_t position = 0; position < schedule_.steps.size();) {
      const Step& step = schedule_.steps[position];
      Moment moment{.kind = step.kind, .before_bytes = replay_.live_bytes()};
      if (step.kind == StepKind::kOptimizerStep) {
        moment.block = moments.empty() ? 0 : moments.back().block;
      } else {
        moment.op = step.op;
        moment.block = block_of_op_[index(step.op)];
      }
      const bool is_counted = counts(step);
      if (is_counted && moments.empty()) {
        measures_.base_bytes = replay_.live_bytes();
        gradients_at_start_ = parameter_gradient_bytes();
      }
      if (is_counted && is_forward && step.kind != StepKind::kCompute) {
        count_held();
        is_forward = false;
      }
      replay_.begin_step(position);
      moment.during_bytes = replay_.during_bytes();
      position = replay_.end_step(position);
      moment.during_bytes = std::max(moment.during_bytes, replay_.summing_bytes());
      measures_.peak_bytes = std::max(measures_.peak_bytes, moment.during_bytes);
      moment.gradients_behind_bytes = is_forward ? 0 : parameter_gradient_bytes();
      if (is_counted) moments.push_back(moment);
    }
    if (is_forward) count_held();  // nothing has a Backward
    return moments;
  }

  std::int64_t parameter_gradient_bytes() const {
    std::int64_t bytes = 0;
    for (const TensorId source : sources_) {
      for (const std::int32_t allocation :
           {replay_.allocation_of_gradient(source), replay_.allocation_of_gathered(source)}) {
        if (allocation >= 0) bytes += replay_.allocation(allocation).bytes;
      }
    }
    return bytes;
  }

  // At the end of forward: what each block leaves behind, an allocation once.
  void count_held() {
    std::vector<std::int32_t> counted;
    const auto bytes_of = [&](TensorId tensor) -> std::int64_t {
      const std::int32_t allocation = replay_.allocation_of(tensor);
      if (allocation < 0) return 0;
      if (replay_.allocation(allocation).reference_count > 1) {
        if (std::find(counted.begin(), counted.end(), allocation) != counted.end()) return 0;
        counted.push_back(allocation);
      }
      return replay_.allocation(allocation).bytes;
    };
    std::vector<bool> is_input(graph_.tensors.size(), false);
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      if (blocks_[b].input == kNoTensor || is_leaf(graph_, blocks_[b].input)) continue;
      is_input[index(blocks_[b].input)] = true;
      measures_.blocks[b].held_bytes = bytes_of(blocks_[b].input);
      measures_.blocks[b].held_input_bytes = measures_.blocks[b].held_bytes;
    }
    for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
      const OpId producer = graph_.tensors[i].producer;
      if (producer == kNoOp || is_input[i]) continue;
      BlockMeasure& block = measures_.blocks[block_of_op_[index(producer)]];
      block.held_bytes += bytes_of(static_cast<TensorId>(i));
    }
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      held_before_[b + 1] = held_before_[b] + measures_.blocks[b].held_bytes;
    }
  }

  void add(const Moment& moment) {
    BlockMeasure& block = measures_.blocks[moment.block];
    const std::int64_t held_bytes = measures_.base_bytes + held_before_[moment.block];
    if (moment.kind == StepKind::kCompute) {
      block.forward_peak_bytes =
          std::max(block.forward_peak_bytes, moment.during_bytes - held_bytes);
      return;
    }
    if (moment.block != backward_block_) {  // the backward pass comes to an earlier block
      backward_block_ = moment.block;
      later_gradients_bytes_ = gradients_bytes_;
    }
    const std::int64_t beside_bytes = held_bytes + later_gradients_bytes_;
    block.backward_peak_bytes =
        std::max(block.backward_peak_bytes, moment.during_bytes - beside_bytes);
    if (moment.kind == StepKind::kRecompute) {
      if (block.recompute_cost == 0) {
        block.gradient_bytes = moment.before_bytes - beside_bytes - block.held_input_bytes;
      }
      block.recompute_cost += costs_.forward[index(moment.op)];
    }
    gradients_bytes_ = moment.gradients_behind_bytes - gradients_at_start_;
    block.parameter_gradient_bytes = gradients_bytes_ - later_gradients_bytes_;
  }

  static constexpr std::size_t kNoBlock = static_cast<std::size_t>(-1);

  const Graph& graph_;
  const std::vector<Block>& blocks_;
  const OpCosts& costs_;
  bool steps_in_backward_ = false;
  Schedule schedule_;
  Replay replay_;
  std::vector<TensorId> sources_ = {};  // parameters and inputs: their gradients stay
  std::vector<std::size_t> block_of_op_ = {};
  std::vector<std::int64_t> held_before_ = {};
  std::int64_t gradients_at_start_ = 0;
  // While the moments of the backward pass are added.
  std::size_t backward_block_ = kNoBlock;
  std::int64_t gradients_bytes_ = 0;        // of parameters, so far
  std::int64_t later_gradients_bytes_ = 0;  // of those of later blocks
  ChainMeasures measures_ = {};
};

}  // namespace

ChainMeasures measure_blocks(const Graph& graph, const std::vector<Block>& blocks, const Plan& plan,
                             const Setting& setting, const OpCosts& costs) {
  return Measuring(graph, blocks, plan, setting, costs).measure();
}

}  // namespace cairn
