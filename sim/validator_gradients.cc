#include <algorithm>
#include <vector>

#include "graph/checked.h"
#include "sim/validator_groups.h"
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
        gathering_(graph.tensors.size()),
        is_shared_(graph.tensors.size(), false),
        last_run_(graph.tensors.size(), 0) {
    std::vector<Member> members;
    for (std::size_t i = 0; i < account.storage_copies.size(); ++i) {
      members.push_back({.group = index(account.storage_copies[i].owner), .value = i});
    }
    copies_of_ = Groups(graph.tensors.size(), members);
  }

  void add_all() {
    find_contributions();
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
      const bool is_input = graph_.tensors[i].role == TensorRole::kInput;
      const bool lasts = !is_input || micro_batch_.leaves_input_gradients;
      leave(static_cast<TensorId>(i), lasts ? runs_.size() : runs_.size() - 1, lasts);
    }
    for (const Buffer& buffer : buffers_) {
      if (buffer.charge.life.first < runs_.size()) settle(buffer);
    }
    for (std::size_t i = 0; i < late_sums_.size(); ++i) add_late_sum(i);
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  struct Buffer {
    Charge charge = {};
    std::size_t gradient_count = 0;  // gradients that are in it now
    std::size_t copy = kNone;        // of a saved tensor's storage: bytes that are charged already
  };

  struct Gradient {
    std::size_t buffer = kNone;
    std::size_t first_run = 0;
    bool is_view = false;  // only a first contribution is

    bool is_live() const { return buffer != kNone; }
  };

  // A view and what is added to it, behind the frees of a run: their sum takes the buffer.
  struct LateSum {
    std::size_t run = 0;
    std::int64_t bytes = 0;        // of the sum
    std::int64_t apart_bytes = 0;  // of a contribution with bytes of its own,
    std::size_t buffer = kNone;    // or where it lies
  };

  // What is there while it is made, of what the frees behind the run leave uncounted: the sum,
  // and what it and those after it add, a freed buffer once.
  void add_late_sum(std::size_t at) {
    const std::size_t run = late_sums_[at].run;
    std::int64_t bytes = late_sums_[at].bytes;
    std::vector<const Charge*> freed;
    for (std::size_t i = at; i < late_sums_.size() && late_sums_[i].run == run; ++i) {
      bytes = checked_add(bytes, late_sums_[i].apart_bytes, "live bytes");
      if (late_sums_[i].buffer == kNone) continue;
      const Buffer& buffer = buffers_[late_sums_[i].buffer];
      const Charge& charge = buffer.copy == kNone
                                 ? buffer.charge
                                 : account_.charges[account_.storage_copies[buffer.copy].charge];
      if (charge.life.last > run || charge.ends_in_hook) continue;
      if (std::find(freed.begin(), freed.end(), &charge) != freed.end()) continue;
      freed.push_back(&charge);
      bytes = checked_add(bytes, charge.bytes, "live bytes");
    }
    account_.sums.push_back({.bytes = bytes, .life = {.first = run, .last = run}});
  }

  // Those that were there before.
  void add_found() {
    for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
      const Tensor& tensor = graph_.tensors[i];
      if (tensor.role != TensorRole::kParameter || !tensor.has_gradient) continue;
      if (goes_into_main_gradient(static_cast<TensorId>(i))) continue;
      begin(static_cast<TensorId>(i), new_buffer(static_cast<TensorId>(i), 0), 0);
    }
  }

  // Temporaries: those of all parameters, or the largest sum of one's and what the one before left,
  // early in a parameter's step or later.
  void add_optimizer(std::size_t run) {
    const ParameterGroup& group = groups_[static_cast<std::size_t>(runs_[run].group)];
    std::int64_t all = 0;
    std::int64_t largest = 0;
    std::int64_t left_over = 0;
    std::int64_t left_over_early = 0;
    for (const TensorId parameter : group.parameters) {
      const Tensor& tensor = graph_.tensor(parameter);
      all += tensor.optimizer_temporary_bytes;
      largest = std::max(largest, left_over + tensor.optimizer_temporary_bytes);
      if (tensor.optimizer_early_temporary_bytes > 0) {
        largest = std::max(largest, left_over_early + tensor.optimizer_early_temporary_bytes);
      }
      left_over = tensor.optimizer_carried_bytes;
      left_over_early = tensor.optimizer_early_carried_bytes;
      if (micro_batch_.leaves_gradients || goes_into_main_gradient(parameter)) continue;
      leave(parameter, run, false);
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
    for (const TensorId input : op.inputs) {
      Gradient& gathered = gathering_[index(input)];
      if (gathered.is_live() && last_run_[index(input)] == run) move_out(gathered, run, true);
    }
    for (const TensorId output : op.outputs) {
      if (gradients_[index(output)].is_live()) leave(output, run, false);
    }
    for (const TensorId input : op.inputs) own(input, run);
  }

  // Behind its last contribution a parameter's gradient lies alone: it is cloned where it does not.
  void own(TensorId tensor, std::size_t run) {
    Gradient& gradient = gradients_[index(tensor)];
    if (graph_.tensor(tensor).role != TensorRole::kParameter || !gradient.is_live()) return;
    if (last_run_[index(tensor)] != run) return;
    const bool is_cloned = has_others(buffers_[gradient.buffer], run + 1);
    if (goes_into_main_gradient(tensor)) {
      if (is_cloned) {
        account_.sums.push_back(
            {.bytes = graph_.tensor(tensor).bytes, .life = {.first = run, .last = run}});
      }
      leave(tensor, run, false, true);
    } else if (is_cloned) {
      move_out(gradient, run);
      move_in(gradient, new_buffer(tensor, run + 1));
    }
  }

  // Its hook adds it there, behind its last contribution, and drops it.
  bool goes_into_main_gradient(TensorId tensor) const {
    return micro_batch_.adds_to_main_gradients && graph_.tensor(tensor).main_gradient_bytes > 0;
  }

  void contribute(const Op& op, std::size_t input, std::size_t run) {
    const TensorId tensor = op.inputs[input];
    const std::size_t of_output = gradients_[index(op.outputs[0])].buffer;
    const bool is_alias = op.gradient_aliases[input] && of_output != kNone;
    const TensorId place = op.gradient_places[input];
    Gradient& gradient = gathers(tensor) ? gathering_[index(tensor)] : gradients_[index(tensor)];
    if (!gradient.is_live()) {
      gradient.first_run = run;
      move_in(gradient, place != kNoTensor ? buffer_over(place, run)
                        : is_alias         ? of_output
                                           : new_buffer(tensor, run));
      gradient.is_view = op.gradient_views[input];
      return;
    }
    const std::int64_t bytes = graph_.tensor(tensor).bytes;
    // The contribution: a tensor of this run only, unless it lies where something is charged.
    const bool is_apart = !is_alias && place == kNoTensor;
    if (is_apart) new_buffer(tensor, run);
    if (has_others(buffers_[gradient.buffer], run)) {
      // The others still need the old value: the sum is a new tensor.
      move_out(gradient, run);
      move_in(gradient, new_buffer(tensor, run));
    } else if (gradient.is_view) {
      late_sums_.push_back({.run = run,
                            .bytes = bytes,
                            .apart_bytes = is_apart ? bytes : 0,
                            .buffer = is_apart             ? kNone
                                      : place != kNoTensor ? buffer_over(place, run)
                                                           : of_output});
    }
    gradient.is_view = false;
  }

  // A parameter with an earlier micro-batch's gradient, to which several ops contribute now: those
  // are summed apart, and their sum is added when it is complete.
  bool gathers(TensorId tensor) const {
    return micro_batch_.finds_gradients && graph_.tensor(tensor).role == TensorRole::kParameter &&
           is_shared_[index(tensor)] && !goes_into_main_gradient(tensor);
  }

  void find_contributions() {
    std::vector<bool> is_contributed_to(graph_.tensors.size(), false);
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      if (runs_[run].kind != StepKind::kBackward) continue;
      for (const TensorId input : graph_.op(runs_[run].op).inputs) {
        if (is_contributed_to[index(input)]) is_shared_[index(input)] = true;
        is_contributed_to[index(input)] = true;
        last_run_[index(input)] = run;
      }
    }
  }

  std::size_t new_buffer(TensorId tensor, std::size_t run) {
    const std::int64_t bytes = graph_.tensor(tensor).bytes;
    buffers_.push_back({.charge = {.bytes = bytes, .life = {.first = run, .last = run}}});
    return buffers_.size() - 1;
  }

  // The copy of a saved tensor that is there in `run`, as a gradient's buffer.
  std::size_t buffer_over(TensorId saved, std::size_t run) {
    buffers_.push_back({.charge = {.life = {.first = run, .last = run}}});
    for (const std::size_t copy : copies_of_[index(saved)]) {
      const Life& life = account_.storage_copies[copy].life;
      if (life.first <= run && run <= life.last) buffers_.back().copy = copy;
    }
    return buffers_.size() - 1;
  }

  // Whether another gradient, or a tensor, is in the buffer during `run`.
  bool has_others(const Buffer& buffer, std::size_t run) const {
    if (buffer.gradient_count > 1) return true;
    return buffer.copy != kNone && account_.storage_copies[buffer.copy].life.last >= run;
  }

  void settle(const Buffer& buffer) {
    if (buffer.copy == kNone) {
      account_.charges.push_back(buffer.charge);
      return;
    }
    Charge& charge = account_.charges[account_.storage_copies[buffer.copy].charge];
    if (buffer.charge.life.last < charge.life.last) return;
    const bool is_longer = buffer.charge.life.last > charge.life.last;
    charge.ends_in_hook = buffer.charge.ends_in_hook || (charge.ends_in_hook && !is_longer);
    charge.life.last = buffer.charge.life.last;
  }

  void move_in(Gradient& gradient, std::size_t buffer) {
    gradient.buffer = buffer;
    ++buffers_[buffer].gradient_count;
  }

  void move_out(Gradient& gradient, std::size_t run, bool in_hook = false) {
    Buffer& buffer = buffers_[gradient.buffer];
    Charge& charge = buffer.charge;
    if (run > charge.life.last) charge.ends_in_hook = false;
    charge.life.last = std::max(charge.life.last, run);
    if (charge.life.last == run) charge.ends_in_hook = charge.ends_in_hook || in_hook;
    --buffer.gradient_count;
    gradient.buffer = kNone;
  }

  void begin(TensorId tensor, std::size_t buffer, std::size_t run) {
    gradients_[index(tensor)].first_run = run;
    move_in(gradients_[index(tensor)], buffer);
  }

  void leave(TensorId tensor, std::size_t run, bool outlives, bool in_hook = false) {
    Gradient& gradient = gradients_[index(tensor)];
    move_out(gradient, run, in_hook);
    account_.gradient_lives.push_back({.tensor = tensor,
                                       .life = {.first = gradient.first_run, .last = run},
                                       .outlives = outlives});
  }

  const Graph& graph_;
  const std::vector<Run>& runs_;
  const std::vector<ParameterGroup>& groups_;
  const MicroBatch& micro_batch_;
  Account& account_;
  std::vector<Gradient> gradients_;    // by tensor
  std::vector<Gradient> gathering_;    // by tensor
  std::vector<bool> is_shared_;        // by tensor: several inputs of Backwards are this one
  std::vector<std::size_t> last_run_;  // by tensor: of its last contribution
  std::vector<Buffer> buffers_ = {};
  std::vector<LateSum> late_sums_ = {};  // in order of their runs
  Groups copies_of_ = Groups(0, {});     // by tensor: of its storage
};

}  // namespace

void add_gradients(const Graph& graph, const std::vector<Run>& runs,
                   const std::vector<ParameterGroup>& groups, const MicroBatch& micro_batch,
                   Account& account) {
  GradientAccount(graph, runs, groups, micro_batch, account).add_all();
}

}  // namespace cairn
