#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "graph/checked.h"
#include "sim/validator_memory.h"

// Derives the lives of gradients, rules 8 to 11.

namespace cairn {
namespace {

class GradientAccount {
 public:
  GradientAccount(const Graph& graph, const std::vector<Run>& runs,
                  const std::vector<ParameterGroup>& groups, const MicroBatch& micro_batch,
                  Account& account)
      : graph_(graph),
        runs_(runs),
        groups_(groups),
        micro_batch_(micro_batch),
        account_(account),
        gradients_(graph.tensors.size()),
        added_(graph.tensors.size()),
        uses_left_(graph.tensors.size(), 0) {}

  void add_all() {
    if (micro_batch_.finds_gradients) add_found();
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      if (runs_[run].kind == StepKind::kOptimizerStep) add_optimizer(run);
      if (runs_[run].kind != StepKind::kBackward) continue;
      const Op& op = graph_.op(runs_[run].op);
      add_run(run, op);
      account_.charges.push_back({op.backward_workspace_bytes, {.first = run, .last = run}});
    }
    for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
      if (!gradients_[i].is_live()) continue;
      buffers_[gradients_[i].buffer].charge.life.last = runs_.size();  // behind the last run's sum
      const bool is_input = graph_.tensors[i].role == TensorRole::kInput;
      leave(static_cast<TensorId>(i), runs_.size() - 1,
            is_input ? micro_batch_.leaves_input_gradients : true);
    }
    for (const auto& [buffer, run] : added_buffers_) {
      const Charge& charge = buffers_[buffer].charge;
      if (charge.life.last != run) continue;  // another gradient is in it
      account_.behind_sums.push_back({charge.bytes, {.first = run, .last = run}});
    }
    for (const Buffer& buffer : buffers_) account_.charges.push_back(buffer.charge);
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  struct Buffer {
    Charge charge = {};
    std::size_t gradient_count = 0;  // gradients that are in it now
  };

  struct Gradient {
    std::size_t buffer = kNone;
    std::size_t first_run = 0;
    bool is_view = false;   // only a first contribution is
    bool is_found = false;  // there before: contributions are summed beside it, then added to it

    bool is_live() const { return buffer != kNone; }
  };

  // Those that were there before.
  void add_found() {
    for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
      const Tensor& tensor = graph_.tensors[i];
      if (tensor.role != TensorRole::kParameter || !tensor.has_gradient) continue;
      begin(static_cast<TensorId>(i), new_buffer(static_cast<TensorId>(i), 0), 0);
      gradients_[i].is_found = true;
    }
    for (const Op& op : graph_.ops) {
      if (!op.has_backward) continue;
      for (const TensorId input : op.inputs) ++uses_left_[index(input)];
    }
  }

  // Temporaries: those of all parameters, or the largest sum of one's and what the one before left.
  void add_optimizer(std::size_t run) {
    const ParameterGroup& group = groups_[static_cast<std::size_t>(runs_[run].group)];
    std::int64_t all = 0;
    std::int64_t largest = 0;
    std::int64_t left_over = 0;
    for (const TensorId parameter : group.parameters) {
      const Tensor& tensor = graph_.tensor(parameter);
      all += tensor.optimizer_temporary_bytes;
      largest = std::max(largest, left_over + tensor.optimizer_temporary_bytes);
      left_over = tensor.optimizer_carried_bytes;
      if (!micro_batch_.leaves_gradients) leave(parameter, run, false);
    }
    account_.charges.push_back({group.at_once ? all : largest, {.first = run, .last = run}});
  }

  void add_run(std::size_t run, const Op& op) {
    const bool makes_loss =
        std::find(op.outputs.begin(), op.outputs.end(), graph_.loss) != op.outputs.end();
    if (makes_loss) begin(graph_.loss, new_buffer(graph_.loss, run), run);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (graph_.tensor(op.inputs[i]).has_gradient) contribute(op, i, run);
    }
    for (const TensorId output : op.outputs) {
      if (gradients_[index(output)].is_live()) leave(output, run, false);
    }
  }

  void contribute(const Op& op, std::size_t input, std::size_t run) {
    const TensorId tensor = op.inputs[input];
    const std::size_t of_output = gradients_[index(op.outputs[0])].buffer;
    const bool is_alias = op.gradient_aliases[input] && of_output != kNone;
    const bool is_found = gradients_[index(tensor)].is_found;
    Gradient& gradient = is_found ? added_[index(tensor)] : gradients_[index(tensor)];
    if (gradient.is_live()) {
      add_to(gradient, tensor, is_alias, run);
    } else {
      gradient.first_run = run;
      move_in(gradient, is_alias ? of_output : new_buffer(tensor, run));
      gradient.is_view = op.gradient_views[input];
    }
    if (is_found && --uses_left_[index(tensor)] == 0) add_to_found(gradient, run);
  }

  // The pass's last contribution is in: the sum is added in place, and ends with the run.
  void add_to_found(Gradient& sum, std::size_t run) {
    added_buffers_.insert({sum.buffer, run});
    move_out(sum, run);
  }

  void add_to(Gradient& gradient, TensorId tensor, bool is_alias, std::size_t run) {
    const std::int64_t bytes = graph_.tensor(tensor).bytes;
    if (!is_alias) new_buffer(tensor, run);  // the contribution: a tensor of this run only
    if (buffers_[gradient.buffer].gradient_count > 1) {
      // The others still need the old value: the sum is a new tensor.
      move_out(gradient, run);
      move_in(gradient, new_buffer(tensor, run));
    } else if (gradient.is_view) {
      // Behind the run: the view and the contribution, beside their sum, which takes the buffer.
      const std::int64_t added = is_alias ? bytes : checked_add(bytes, bytes, "live bytes");
      account_.sums.push_back({.bytes = added, .life = {.first = run, .last = run}});
    }
    gradient.is_view = false;
  }

  std::size_t new_buffer(TensorId tensor, std::size_t run) {
    const std::int64_t bytes = graph_.tensor(tensor).bytes;
    buffers_.push_back({.charge = {.bytes = bytes, .life = {.first = run, .last = run}}});
    return buffers_.size() - 1;
  }

  void move_in(Gradient& gradient, std::size_t buffer) {
    gradient.buffer = buffer;
    ++buffers_[buffer].gradient_count;
  }

  void move_out(Gradient& gradient, std::size_t run) {
    Buffer& buffer = buffers_[gradient.buffer];
    buffer.charge.life.last = std::max(buffer.charge.life.last, run);
    --buffer.gradient_count;
    gradient.buffer = kNone;
  }

  void begin(TensorId tensor, std::size_t buffer, std::size_t run) {
    gradients_[index(tensor)].first_run = run;
    move_in(gradients_[index(tensor)], buffer);
  }

  void leave(TensorId tensor, std::size_t run, bool outlives) {
    Gradient& gradient = gradients_[index(tensor)];
    move_out(gradient, run);
    account_.gradient_lives.push_back({.tensor = tensor,
                                       .life = {.first = gradient.first_run, .last = run},
                                       .outlives = outlives});
  }

  const Graph& graph_;
  const std::vector<Run>& runs_;
  const std::vector<ParameterGroup>& groups_;
  const MicroBatch& micro_batch_;
  Account& account_;
  std::vector<Gradient> gradients_;  // by tensor
  std::vector<Gradient> added_;      // by tensor: what is added to a gradient that was found
  std::vector<std::size_t> uses_left_;
  std::set<std::pair<std::size_t, std::size_t>> added_buffers_ = {};  // buffer, its run
  std::vector<Buffer> buffers_ = {};
};

}  // namespace

void add_gradients(const Graph& graph, const std::vector<Run>& runs,
                   const std::vector<ParameterGroup>& groups, const MicroBatch& micro_batch,
                   Account& account) {
  GradientAccount(graph, runs, groups, micro_batch, account).add_all();
}

}  // namespace cairn
