#include "sim/validator_memory.h"

#include <algorithm>
#include <utility>

#include "graph/checked.h"

namespace cairn {
namespace {

// Everything with bytes of its own: it is charged in the runs [life.first, life.last].
struct Charge {
  std::int64_t bytes = 0;
  Life life = {};
};

// What the rules say of memory, in runs.
struct Account {
  std::vector<Charge> charges = {};
  LivesByTensor tensor_lives = {};    // one a copy, in order
  LivesByTensor gradient_lives = {};  // at most one
};

bool contains(const std::vector<TensorId>& tensors, TensorId tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

std::vector<Run> list_runs(const Graph& graph, const Plan& plan,
                           const std::vector<RegionRule>& rules, const Schedule& schedule) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (step.kind == StepKind::kFree || step.kind == StepKind::kFreeGradient) continue;
    Run run{.step = i, .kind = step.kind, .op = step.op};
    const bool is_backward = step.kind == StepKind::kBackward;
    run.reads = is_backward ? graph.op(step.op).saved : graph.op(step.op).inputs;
    for (const RegionRule& rule : rules) {
      if (!is_backward || rule.trigger == kNoPosition || rule.held_until == kNoPosition ||
          plan.order[static_cast<std::size_t>(rule.held_until)] != step.op) {
        continue;
      }
      run.reads.insert(run.reads.end(), rule.inputs.begin(), rule.inputs.end());
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

// Copies of tensors and of storages, rules 1 to 7.
class TensorAccount {
 public:
  TensorAccount(const Graph& graph, const Plan& plan, const std::vector<Run>& runs,
                Account& account)
      : graph_(graph),
        runs_(runs),
        account_(account),
        kept_(kept_tensors(graph, plan)),
        reads_(graph.tensors.size()),
        makes_(graph.tensors.size()),
        storage_copy_(graph.tensors.size(), kNoCopy) {}

  void add_all() {
    list_reads_and_makes();
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      if (runs_[run].kind != StepKind::kBackward) add_run(run);
    }
    for (const Charge& copy : storage_copies_) account_.charges.push_back(copy);
  }

 private:
  static constexpr std::size_t kNoCopy = static_cast<std::size_t>(-1);

  void list_reads_and_makes() {
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      for (const TensorId read : runs_[run].reads) reads_[index(read)].push_back(run);
      if (runs_[run].kind == StepKind::kBackward) continue;
      const Op& op = graph_.op(runs_[run].op);
      for (const TensorId made : op.outputs) makes_[index(made)].push_back(run);
      for (const TensorId made : op.auxiliaries) makes_[index(made)].push_back(run);
    }
  }

  // A kept tensor that something still reads stays; what a Recompute makes beside it is a
  // duplicate.
  bool is_duplicate(TensorId tensor, std::size_t run) const {
    const std::vector<std::size_t>& reads = reads_[index(tensor)];
    return runs_[run].kind == StepKind::kRecompute && kept_[index(tensor)] && !reads.empty() &&
           reads.back() > run;
  }

  // The life of the copy made in `run`: to its last read before the tensor is made again.
  Life life_of_copy(TensorId tensor, std::size_t run) const {
    std::size_t made_again = runs_.size();
    for (const std::size_t make : makes_[index(tensor)]) {
      if (make > run && !is_duplicate(tensor, make)) made_again = std::min(made_again, make);
    }
    Life life{.first = run, .last = run};
    for (const std::size_t read : reads_[index(tensor)]) {
      // A step reads before it makes.
      if (read > run && read <= made_again) life.last = std::max(life.last, read);
    }
    return life;
  }

  void add_run(std::size_t run) {
    const Op& op = graph_.op(runs_[run].op);
    const bool auxiliaries_die =
        std::none_of(op.auxiliaries.begin(), op.auxiliaries.end(), [&](TensorId auxiliary) {
          return !is_duplicate(auxiliary, run) && life_of_copy(auxiliary, run).last > run;
        });
    const bool is_swept = op.sweep_workspace_bytes.has_value() && auxiliaries_die;
    for (const TensorId made : op.outputs) add_copy(op, made, run, graph_.tensor(made).bytes);
    for (const TensorId made : op.auxiliaries) {
      add_copy(op, made, run, is_swept ? 0 : graph_.tensor(made).bytes);
    }
    const std::int64_t workspace_bytes = is_swept ? *op.sweep_workspace_bytes : op.workspace_bytes;
    account_.charges.push_back({.bytes = workspace_bytes, .life = {.first = run, .last = run}});
  }

  void add_copy(const Op& op, TensorId tensor, std::size_t run, std::int64_t owned_bytes) {
    const StorageId storage = graph_.tensor(tensor).storage;
    const bool is_owner = graph_.storage(storage).owner == tensor;
    if (is_duplicate(tensor, run)) {
      if (is_owner) account_.charges.push_back({owned_bytes, {.first = run, .last = run}});
      return;
    }
    const Life life = life_of_copy(tensor, run);
    account_.tensor_lives[index(tensor)].push_back(life);
    if (is_owner) {
      storage_copy_[index(tensor)] = storage_copies_.size();
      storage_copies_.push_back({.bytes = owned_bytes, .life = life});
      return;
    }
    for (const TensorId base : op.inputs) {
      if (graph_.tensor(base).storage != storage) continue;
      storage_copy_[index(tensor)] = storage_copy_[index(base)];
      break;
    }
    const std::size_t copy = storage_copy_[index(tensor)];
    if (copy == kNoCopy) return;  // a view of what is resident
    Life& storage_life = storage_copies_[copy].life;
    storage_life.last = std::max(storage_life.last, life.last);
  }

  const Graph& graph_;
  const std::vector<Run>& runs_;
  Account& account_;
  std::vector<bool> kept_;
  std::vector<std::vector<std::size_t>> reads_;  // by tensor: runs
  std::vector<std::vector<std::size_t>> makes_;
  std::vector<std::size_t> storage_copy_;  // by tensor: of its latest copy
  std::vector<Charge> storage_copies_ = {};
};

// Gradients, rules 8 to 11.
class GradientAccount {
 public:
  GradientAccount(const Graph& graph, const std::vector<Run>& runs, Account& account)
      : graph_(graph), runs_(runs), account_(account), buffer_(graph.tensors.size(), kNone) {}

  void add_all() {
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      if (runs_[run].kind != StepKind::kBackward) continue;
      const Op& op = graph_.op(runs_[run].op);
      add_run(run, op);
      account_.charges.push_back({op.backward_workspace_bytes, {.first = run, .last = run}});
    }
    for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
      if (buffer_[i] != kNone) leave(static_cast<TensorId>(i), runs_.size() - 1);
    }
    for (const Charge& buffer : buffers_) account_.charges.push_back(buffer);
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  void add_run(std::size_t run, const Op& op) {
    if (contains(op.outputs, graph_.loss)) begin(graph_.loss, new_buffer(graph_.loss, run), run);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (graph_.tensor(op.inputs[i]).has_gradient) contribute(op, i, run);
    }
    for (const TensorId output : op.outputs) {
      if (buffer_[index(output)] != kNone) leave(output, run);
    }
  }

  void contribute(const Op& op, std::size_t input, std::size_t run) {
    const TensorId tensor = op.inputs[input];
    const std::size_t of_output = buffer_[index(op.outputs[0])];
    const bool is_alias = op.gradient_aliases[input] && of_output != kNone;
    if (buffer_[index(tensor)] == kNone) {
      begin(tensor, is_alias ? of_output : new_buffer(tensor, run), run);
      return;
    }
    if (!is_alias) new_buffer(tensor, run);  // the contribution: a tensor of this run only
    if (is_shared(tensor)) {
      // The others still need the old value: the sum is a new tensor.
      move_out(tensor, run);
      buffer_[index(tensor)] = new_buffer(tensor, run);
    }
  }

  bool is_shared(TensorId tensor) const {
    return std::count(buffer_.begin(), buffer_.end(), buffer_[index(tensor)]) > 1;
  }

  std::size_t new_buffer(TensorId tensor, std::size_t run) {
    buffers_.push_back({graph_.tensor(tensor).bytes, {.first = run, .last = run}});
    return buffers_.size() - 1;
  }

  void begin(TensorId tensor, std::size_t buffer, std::size_t run) {
    buffer_[index(tensor)] = buffer;
    account_.gradient_lives[index(tensor)].push_back({.first = run, .last = runs_.size()});
  }

  void move_out(TensorId tensor, std::size_t run) {
    Life& life = buffers_[buffer_[index(tensor)]].life;
    life.last = std::max(life.last, run);
    buffer_[index(tensor)] = kNone;
  }

  void leave(TensorId tensor, std::size_t run) {
    move_out(tensor, run);
    account_.gradient_lives[index(tensor)].back().last = run;
  }

  const Graph& graph_;
  const std::vector<Run>& runs_;
  Account& account_;
  std::vector<std::size_t> buffer_;  // by tensor: where its gradient is now
  std::vector<Charge> buffers_ = {};
};

std::int64_t resident_bytes(const Graph& graph) {
  std::int64_t bytes = 0;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.producer != kNoOp) continue;
    bytes = checked_add(bytes, tensor.bytes, "bytes of inputs and parameters");
    bytes = checked_add(bytes, tensor.optimizer_state_bytes, "bytes of optimizer states");
  }
  return bytes;
}

ValidationResult find_peak(const Graph& graph, const std::vector<Run>& runs,
                           const Account& account) {
  std::vector<std::vector<std::int64_t>> begin(runs.size());
  std::vector<std::vector<std::int64_t>> end(runs.size());
  for (const Charge& charge : account.charges) {
    begin[charge.life.first].push_back(charge.bytes);
    end[charge.life.last].push_back(charge.bytes);
  }
  std::int64_t live = resident_bytes(graph);
  ValidationResult result{.peak_bytes = live};
  for (std::size_t run = 0; run < runs.size(); ++run) {
    for (const std::int64_t bytes : begin[run]) live = checked_add(live, bytes, "live bytes");
    if (live > result.peak_bytes || run == 0) {
      result.peak_bytes = live;
      result.peak_step = runs[run].step;
    }
    for (const std::int64_t bytes : end[run]) live -= bytes;
  }
  return result;
}

}  // namespace

ValidationResult check_memory(const Graph& graph, const Plan& plan,
                              const std::vector<RegionRule>& rules, const Schedule& schedule) {
  const std::vector<Run> runs = list_runs(graph, plan, rules, schedule);
  Account account;
  account.tensor_lives.resize(graph.tensors.size());
  account.gradient_lives.resize(graph.tensors.size());
  TensorAccount(graph, plan, runs, account).add_all();
  GradientAccount(graph, runs, account).add_all();

  ValidationResult result = check_frees(graph, schedule, runs, account.tensor_lives);
  if (result.fault != Fault::kNone) return result;
  result = check_gradient_frees(graph, schedule, runs, account.gradient_lives);
  if (result.fault != Fault::kNone) return result;
  return find_peak(graph, runs, account);
}

}  // namespace cairn
