#include <algorithm>
#include <span>
#include <vector>

#include "sim/validator_groups.h"
#include "sim/validator_memory.h"

// Derives the lives of the copies of tensors, rules 1 to 7.

namespace cairn {
namespace {

// By tensor, runs in order.
struct Uses {
  Groups reads;  // a run that holds the tensor counts as one that reads it
  Groups makes;
};

Uses uses_by_tensor(const Graph& graph, const Plan& plan, const std::vector<RegionRule>& rules,
                    const std::vector<Run>& runs) {
  std::vector<Member> reads = reads_of_holders(graph, plan, rules, runs);
  std::vector<Member> makes;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    const auto add = [run](const std::vector<TensorId>& tensors, std::vector<Member>& members) {
      for (const TensorId tensor : tensors) members.push_back({index(tensor), run});
    };
    if (runs[run].kind == StepKind::kOptimizerStep) continue;  // reads parameters and gradients
    const Op& op = graph.op(runs[run].op);
    if (runs[run].kind == StepKind::kBackward) {
      add(op.saved, reads);
    } else {
      add(op.inputs, reads);
      add(op.outputs, makes);
      add(op.auxiliaries, makes);
    }
  }
  std::stable_sort(reads.begin(), reads.end(),
                   [](const Member& a, const Member& b) { return a.value < b.value; });
  const std::size_t tensor_count = graph.tensors.size();
  return {.reads = Groups(tensor_count, reads), .makes = Groups(tensor_count, makes)};
}

// By run: the last run of the same forward or recompute. A recompute is the runs of one rule
// directly before the Backward at its trigger; those of several rules follow each other.
std::vector<std::size_t> last_of_pass(const Plan& plan, const std::vector<RegionRule>& rules,
                                      const std::vector<Run>& runs) {
  std::vector<std::size_t> last(runs.size(), 0);
  std::size_t compute_count = 0;
  std::vector<std::size_t> backward_of_op(plan.order.size(), 0);
  for (std::size_t run = 0; run < runs.size(); ++run) {
    last[run] = run;
    if (runs[run].kind == StepKind::kCompute) ++compute_count;
    if (runs[run].kind == StepKind::kBackward) backward_of_op[index(runs[run].op)] = run;
  }
  for (std::size_t run = 0; run < compute_count; ++run) last[run] = compute_count - 1;
  std::vector<std::size_t> begin(runs.size(), 0);  // by Backward: of the next rule's recompute
  for (const RegionRule& rule : rules) {
    if (rule.trigger == kNoPosition) continue;
    const OpId op = plan.order[static_cast<std::size_t>(rule.trigger)];
    begin[backward_of_op[index(op)]] += rule.ops.size();
  }
  for (std::size_t run = 0; run < runs.size(); ++run) begin[run] = run - begin[run];
  for (const RegionRule& rule : rules) {
    if (rule.trigger == kNoPosition) continue;
    const OpId op = plan.order[static_cast<std::size_t>(rule.trigger)];
    std::size_t& first = begin[backward_of_op[index(op)]];
    for (std::size_t i = 0; i < rule.ops.size(); ++i) {
      last[first + i] = first + rule.ops.size() - 1;
    }
    first += rule.ops.size();
  }
  return last;
}

// By op: its place in the plan's order.
std::vector<std::int32_t> positions_of_ops(const Plan& plan) {
  std::vector<std::int32_t> positions(plan.order.size(), kNoPosition);
  for (std::size_t i = 0; i < plan.order.size(); ++i) {
    positions[index(plan.order[i])] = static_cast<std::int32_t>(i);
  }
  return positions;
}

class TensorAccount {
 public:
  TensorAccount(const Graph& graph, const Plan& plan, const std::vector<RegionRule>& rules,
                const std::vector<Run>& runs, Account& account)
      : graph_(graph),
        plan_(plan),
        runs_(runs),
        account_(account),
        kept_(kept_tensors(graph, plan)),
        uses_(uses_by_tensor(graph, plan, rules, runs)),
        last_of_pass_(last_of_pass(plan, rules, runs)),
        positions_(positions_of_ops(plan)),
        last_readers_(graph.tensors.size(), kNoPosition),
        storage_copy_(graph.tensors.size(), kNoCopy) {
    for (const Op& op : graph.ops) {
      const std::int32_t reader = position(static_cast<OpId>(&op - graph.ops.data()));
      for (const TensorId input : op.inputs) {
        last_readers_[index(input)] = std::max(last_readers_[index(input)], reader);
      }
    }
  }

  void add_all() {
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      const StepKind kind = runs_[run].kind;
      if (kind == StepKind::kCompute || kind == StepKind::kRecompute) add_run(run);
    }
    for (std::size_t i = 0; i < storage_copies_.size(); ++i) {
      account_.storage_copies.push_back({.owner = owner_of_copy_[i],
                                         .life = storage_copies_[i].life,
                                         .charge = account_.charges.size()});
      account_.charges.push_back(storage_copies_[i]);
    }
  }

 private:
  static constexpr std::size_t kNoCopy = static_cast<std::size_t>(-1);

  // A kept tensor that something still reads stays; what a Recompute makes beside it is a
  // duplicate.
  bool is_duplicate(TensorId tensor, std::size_t run) const {
    const std::span<const std::size_t> reads = uses_.reads[index(tensor)];
    return runs_[run].kind == StepKind::kRecompute && kept_[index(tensor)] && !reads.empty() &&
           reads.back() > run;
  }

  // The life of the copy made in `run`: to its last read before the tensor is made again.
  Life life_of_copy(TensorId tensor, std::size_t run) const {
    const std::span<const std::size_t> makes = uses_.makes[index(tensor)];
    const auto made_again =
        std::find_if(std::upper_bound(makes.begin(), makes.end(), run), makes.end(),
                     [&](std::size_t make) { return !is_duplicate(tensor, make); });
    const std::span<const std::size_t> reads = uses_.reads[index(tensor)];
    // A step reads before it makes.
    const auto behind = made_again == makes.end()
                            ? reads.end()
                            : std::upper_bound(reads.begin(), reads.end(), *made_again);
    const std::size_t last_read = behind == reads.begin() ? run : *(behind - 1);
    return {.first = run, .last = std::max({run, last_read, scope_end(tensor, run)})};
  }

  // Rule 1a: walks the pass that makes the copy in `run` while the scope of its name lasts. In a
  // checkpoint's recompute that is, for every tensor, at least to the last op that reads it.
  std::size_t scope_end(TensorId tensor, std::size_t run) const {
    const OpId scope = graph_.tensor(tensor).held_until;
    std::int32_t until = scope == kNoOp ? kNoPosition : position(scope);
    if (plan_.extent != Extent::kNeeded && runs_[run].kind == StepKind::kRecompute) {
      until = std::max(until, last_readers_[index(tensor)]);
    }
    std::size_t end = run;
    while (end < last_of_pass_[run] && position(runs_[end + 1].op) <= until) ++end;
    return end;
  }

  std::int32_t position(OpId op) const { return positions_[index(op)]; }

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
    account_.tensor_lives.push_back({.tensor = tensor, .life = life});
    if (is_owner) {
      storage_copy_[index(tensor)] = storage_copies_.size();
      storage_copies_.push_back({.bytes = owned_bytes, .life = life});
      owner_of_copy_.push_back(tensor);
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
  const Plan& plan_;
  const std::vector<Run>& runs_;
  Account& account_;
  std::vector<bool> kept_;
  Uses uses_;
  std::vector<std::size_t> last_of_pass_;   // by run
  std::vector<std::int32_t> positions_;     // by op, in the plan's order
  std::vector<std::int32_t> last_readers_;  // by tensor: position of the last op that reads it
  std::vector<std::size_t> storage_copy_;   // by tensor: of its latest copy
  std::vector<Charge> storage_copies_ = {};
  std::vector<TensorId> owner_of_copy_ = {};  // by storage copy
};

}  // namespace

void add_tensors(const Graph& graph, const Plan& plan, const std::vector<RegionRule>& rules,
                 const std::vector<Run>& runs, Account& account) {
  TensorAccount(graph, plan, rules, runs, account).add_all();
}

}  // namespace cairn
