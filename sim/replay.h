#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/schedule.h"

// The memory of one replay: which copies of storages and gradients are live, and their bytes.

namespace cairn {

// One allocation: a copy of a storage, or of a gradient's storage. It lives while anything is on
// it.
struct Allocation {
  std::int64_t bytes = 0;
  std::int32_t reference_count = 0;
};

// Bytes that are there during a step and gone at its end.
struct Transient {
  // kSum: a gradient and a contribution while their sum is made, behind the step's frees; kClone:
  // there too, of a gradient that shares its storage and is added to a main gradient.
  enum class Kind { kWorkspace, kDuplicate, kContribution, kSum, kClone, kOptimizer };
  Kind kind = Kind::kWorkspace;
  TensorId tensor = kNoTensor;  // of a duplicate, or whose gradient it is
  std::int64_t bytes = 0;
};

// What is there before the first step, beside inputs and parameters.
struct ReplayStart {
  bool has_states = true;      // the optimizer's, of an earlier training step
  bool has_gradients = false;  // of parameters, kept from it
};

class Replay {
 public:
  Replay(const Graph& graph, const Schedule& schedule, const ReplayStart& start = {});

  // Runs the step at `position` (not a Free): allocates all it makes. `transients` are replaced.
  void begin_step(std::size_t position);
  // Runs the Free steps behind it; returns the position of the next step that is not a Free.
  std::size_t end_step(std::size_t position);
  // The first half of it: the frees alone, but of gradients that go into main gradients. Behind
  // them sums are made, before what parameters have gathered or share is settled.
  std::size_t free_behind(std::size_t position);

  std::int64_t live_bytes() const { return live_bytes_; }
  std::int64_t during_bytes() const;
  std::int64_t optimizer_state_bytes() const { return state_bytes_; }
  const std::vector<Transient>& transients() const { return transients_; }
  // Behind end_step: what a sum out of place has beside all that is live (rule 10), the largest.
  const Transient& sum() const { return sum_; }
  // With it, behind the frees.
  std::int64_t summing_bytes() const { return summing_bytes_; }

  // The allocation that holds the tensor, or its gradient; -1 when not live.
  std::int32_t allocation_of(TensorId tensor) const { return of_tensor_[index(tensor)]; }
  std::int32_t allocation_of_gradient(TensorId tensor) const { return of_gradient_[index(tensor)]; }
  // Of what gathers contributions for a gradient of an earlier micro-batch.
  std::int32_t allocation_of_gathered(TensorId tensor) const { return of_gathered_[index(tensor)]; }
  const Allocation& allocation(std::int32_t id) const {
    return allocations_[static_cast<std::size_t>(id)];
  }

 private:
  // A contribution that is added out of place, behind the frees.
  struct LateSum {
    TensorId tensor = kNoTensor;
    std::int64_t contribution_bytes = 0;
    std::int32_t lies_in = -1;  // the allocation, of one that has no bytes of its own
  };

  void run_forward(const Op& op, std::size_t position, bool recompute);
  void run_backward(const Op& op);
  void run_optimizer(const ParameterGroup& group);
  void make_states(TensorId parameter);
  void make(TensorId tensor, bool recompute);
  void contribute(const Op& op, std::size_t input);
  void sum_behind(TensorId tensor, std::int64_t contribution_bytes, std::int32_t lies_in);
  void add_late_sums();
  std::int32_t& gathering_slot(TensorId tensor);
  void count_contribution(TensorId tensor);
  void settle(TensorId parameter);
  bool goes_into_main_gradient(const Step& free) const;
  void clone_if_shared(TensorId parameter);
  bool sweeps(const Op& op, std::size_t position) const;
  std::vector<TensorId> freed_behind(std::size_t position) const;
  std::int32_t allocate(std::int64_t bytes);
  void attach(std::int32_t& slot, std::int32_t allocation);
  void release(std::int32_t& slot);

  const Graph& graph_;
  const Schedule& schedule_;
  std::vector<std::int32_t> of_tensor_ = {};
  std::vector<std::int32_t> of_gradient_ = {};
  std::vector<Allocation> allocations_ = {};
  std::vector<std::int32_t> unused_ = {};
  std::vector<Transient> transients_ = {};
  std::vector<bool> has_states_ = {};
  std::int64_t state_bytes_ = 0;
  std::vector<LateSum> late_sums_ = {};
  Transient sum_ = {};
  std::int64_t summing_bytes_ = 0;
  std::vector<bool> is_view_ = {};  // by tensor: nothing is added into its gradient
  // By parameter: contributions of one pass, those so far, what gathers them, and whether there is
  // a gradient of an earlier pass.
  std::vector<std::int32_t> contribution_count_ = {};
  std::vector<std::int32_t> contributed_ = {};
  std::vector<std::int32_t> of_gathered_ = {};
  std::vector<bool> has_earlier_gradient_ = {};
  std::vector<TensorId> completed_ = {};  // parameters, with this step's contribution
  std::int64_t live_bytes_ = 0;
};

}  // namespace cairn
