#include "graph/recompute_sets.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/error.h"

namespace cairn {
namespace {

class SetBuilder {
 public:
  SetBuilder(const Graph& graph, const Plan& plan, const RegionTree& tree)
      : graph_(graph), plan_(plan), tree_(tree) {
    sets_.ops_of_frame.resize(tree.frames.size());
    sets_.reads_frames.resize(tree.frames.size());
    sets_.stop_of_frame.assign(tree.frames.size(), 0);
    sets_.is_kept.assign(graph.tensors.size(), false);
    needed_.resize(tree.frames.size());
    is_read_.assign(graph.tensors.size(), false);
    last_run_in_.assign(graph.ops.size(), 0);
    for (const Region& region : plan.regions) {
      for (const TensorId kept : region.keep) sets_.is_kept[index(kept)] = true;
    }
  }

  RecomputeSets build() {
    collect_backward_reads();
    // Inner regions have larger numbers: what they read is known before their parent's turn.
    for (std::size_t frame = tree_.frames.size(); frame-- > 1;) {
      const auto id = static_cast<std::int32_t>(frame);
      if (plan_.extent == Extent::kNeeded) {
        collect_needed_ops(id);
      } else {
        collect_contiguous_ops(id);
      }
      collect_outside_reads(id);
    }
    collect_read_frames();
    check_keep_lists();
    return std::move(sets_);
  }

 private:
  std::int32_t frame_of_producer(TensorId tensor) const {
    const OpId producer = graph_.tensor(tensor).producer;
    return producer == kNoOp ? 0 : tree_.frame_of_op[index(producer)];
  }

  // `tensor` is wanted by a reader in `reader_frame`: the innermost frame around it and its
  // producer has to hold it (the root always does).
  void need(TensorId tensor, std::int32_t reader_frame) {
    is_read_[index(tensor)] = true;
    const std::int32_t holder = common_frame(tree_, frame_of_producer(tensor), reader_frame);
    if (holder == 0 || sets_.is_kept[index(tensor)]) return;
    const Op& producer = graph_.op(graph_.tensor(tensor).producer);
    if (producer.recompute == RecomputePolicy::kNever) {
      force_keep(producer, tensor);
    } else {
      needed_[static_cast<std::size_t>(holder)].push_back(tensor);
    }
  }

  void collect_backward_reads() {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      if (!graph_.ops[i].has_backward) continue;
      for (const TensorId tensor : graph_.ops[i].saved) need(tensor, tree_.frame_of_op[i]);
    }
  }

  // What an op that may not be recomputed makes is held from forward.
  void force_keep(const Op& op, TensorId tensor) {
    if (sets_.is_kept[index(tensor)]) return;
    sets_.is_kept[index(tensor)] = true;
    sets_.warnings.push_back(fmt::format("'{}' is kept: op '{}' may not be recomputed",
                                         graph_.tensor(tensor).name, op.name));
  }

  // Rule 19: from what the frame still has to hold, back to what is live.
  void collect_needed_ops(std::int32_t frame) {
    std::vector<TensorId> work = std::move(needed_[static_cast<std::size_t>(frame)]);
    std::vector<OpId>& ops = sets_.ops_of_frame[static_cast<std::size_t>(frame)];
    while (!work.empty()) {
      const TensorId tensor = work.back();
      work.pop_back();
      is_read_[index(tensor)] = true;
      const OpId producer = graph_.tensor(tensor).producer;
      if (producer == kNoOp || sets_.is_kept[index(tensor)]) continue;
      if (!is_inside(tree_, tree_.frame_of_op[index(producer)], frame)) continue;
      if (last_run_in_[index(producer)] == frame) continue;
      const Op& op = graph_.op(producer);
      if (op.recompute == RecomputePolicy::kNever) {
        force_keep(op, tensor);
        continue;
      }
      last_run_in_[index(producer)] = frame;
      ops.push_back(producer);
      work.insert(work.end(), op.inputs.begin(), op.inputs.end());
    }
    std::sort(ops.begin(), ops.end(), [this](OpId a, OpId b) {
      return tree_.position_of_op[index(a)] < tree_.position_of_op[index(b)];
    });
  }

  bool all_kept(const Op& op) const {
    const auto kept = [this](TensorId tensor) { return bool{sets_.is_kept[index(tensor)]}; };
    return std::all_of(op.outputs.begin(), op.outputs.end(), kept) &&
           std::all_of(op.auxiliaries.begin(), op.auxiliaries.end(), kept);
  }

  // Whether some Backward in the region triggers its recompute at all (section 5).
  bool is_triggered(const Frame& region) const {
    for (std::int32_t i = region.begin; i < region.end; ++i) {
      const Op& op = graph_.op(plan_.order[static_cast<std::size_t>(i)]);
      if (op.has_backward && (plan_.extent == Extent::kWhole || !op.saved.empty())) return true;
    }
    return false;
  }

  // `prefix` and `whole` run the region's ops in order up to some end.
  void collect_contiguous_ops(std::int32_t frame) {
    const Frame& region = tree_.frames[static_cast<std::size_t>(frame)];
    if (!is_triggered(region)) return;
    const bool whole = plan_.extent == Extent::kWhole;
    const std::int32_t end = whole ? region.end : end_of_last_save_event(frame);
    sets_.stop_of_frame[static_cast<std::size_t>(frame)] = end;
    for (std::int32_t i = region.begin; i < end; ++i) {
      const OpId id = plan_.order[static_cast<std::size_t>(i)];
      const Op& op = graph_.op(id);
      if (op.recompute == RecomputePolicy::kNever || (!whole && all_kept(op))) continue;
      sets_.ops_of_frame[static_cast<std::size_t>(frame)].push_back(id);
      for (const TensorId input : op.inputs) {
        if (graph_.tensor(input).producer == kNoOp) continue;
        const Op& producer = graph_.op(graph_.tensor(input).producer);
        const bool inside = is_inside(tree_, frame_of_producer(input), frame);
        if (inside && producer.recompute == RecomputePolicy::kNever) force_keep(producer, input);
      }
    }
  }

  // One past the last op that runs: a saved input (or an inner region's inputs) ends the run
  // before its op, a saved output or auxiliary behind it.
  std::int32_t end_of_last_save_event(std::int32_t frame) const {
    const Frame& region = tree_.frames[static_cast<std::size_t>(frame)];
    std::int32_t end = region.begin;
    for (std::int32_t i = region.begin; i < region.end; ++i) {
      const OpId id = plan_.order[static_cast<std::size_t>(i)];
      const Op& op = graph_.op(id);
      if (tree_.frame_of_op[index(id)] != frame) continue;
      for (const auto* saved : {&op.saved, &op.unread_saved}) {
        for (const TensorId tensor : *saved) {
          const bool is_behind = op.saves_after_forward || graph_.tensor(tensor).producer == id;
          end = std::max(end, is_behind ? i + 1 : i);
        }
      }
    }
    for (std::size_t inner = 1; inner < tree_.frames.size(); ++inner) {
      if (tree_.frames[inner].parent != frame) continue;
      if (reads_from_outside(static_cast<std::int32_t>(inner))) {
        end = std::max(end, tree_.frames[inner].begin);
      }
    }
    return end;
  }

  bool reads_from_outside(std::int32_t frame) const {
    const Frame& region = tree_.frames[static_cast<std::size_t>(frame)];
    for (std::int32_t i = region.begin; i < region.end; ++i) {
      for (const TensorId input : graph_.op(plan_.order[static_cast<std::size_t>(i)]).inputs) {
        const Tensor& tensor = graph_.tensor(input);
        if (tensor.role == TensorRole::kParameter) continue;
        if (tensor.producer == kNoOp ||
            !is_inside(tree_, tree_.frame_of_op[index(tensor.producer)], frame)) {
          return true;
        }
      }
    }
    return false;
  }

  void collect_outside_reads(std::int32_t frame) {
    for (const OpId id : sets_.ops_of_frame[static_cast<std::size_t>(frame)]) {
      for (const TensorId input : graph_.op(id).inputs) {
        const std::int32_t holder = common_frame(tree_, frame_of_producer(input), frame);
        if (holder == frame || graph_.tensor(input).producer == kNoOp) {
          is_read_[index(input)] = true;
        } else {
          need(input, frame);
        }
      }
    }
  }

  // Rule 18: a region's inputs are what its recompute or Backwards read from outside; where a
  // dropped region makes one, that region is recomputed first.
  void collect_read_frames() {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      if (!graph_.ops[i].has_backward) continue;
      for (const TensorId tensor : graph_.ops[i].saved) {
        add_read_frames(tensor, tree_.frame_of_op[i]);
      }
    }
    for (std::size_t frame = 1; frame < tree_.frames.size(); ++frame) {
      for (const OpId id : sets_.ops_of_frame[frame]) {
        for (const TensorId input : graph_.op(id).inputs) {
          add_read_frames(input, static_cast<std::int32_t>(frame));
        }
      }
    }
    for (std::vector<std::int32_t>& frames : sets_.reads_frames) {
      std::sort(frames.begin(), frames.end());
      frames.erase(std::unique(frames.begin(), frames.end()), frames.end());
    }
  }

  void add_read_frames(TensorId tensor, std::int32_t reader_frame) {
    if (sets_.is_kept[index(tensor)] || graph_.tensor(tensor).producer == kNoOp) return;
    const std::int32_t holder = common_frame(tree_, frame_of_producer(tensor), reader_frame);
    if (holder == 0) return;
    for (std::int32_t frame = reader_frame; frame != holder;
         frame = tree_.frames[static_cast<std::size_t>(frame)].parent) {
      sets_.reads_frames[static_cast<std::size_t>(frame)].push_back(holder);
    }
  }

  void check_keep_lists() {
    for (const Region& region : plan_.regions) {
      for (const TensorId kept : region.keep) {
        if (!is_read_[index(kept)] && sets_.useless_keep == kNoTensor) sets_.useless_keep = kept;
        warn_of_keep_inside(graph_.tensor(kept));
        warn_of_partial_keep(graph_.op(graph_.tensor(kept).producer), kept);
      }
    }
  }

  // Rule 25: a selective context of torch answers in the recompute of its own region alone.
  void warn_of_keep_inside(const Tensor& kept) {
    const std::int32_t frame = tree_.frame_of_op[index(kept.producer)];
    if (plan_.extent != Extent::kPrefix ||
        tree_.frames[static_cast<std::size_t>(frame)].depth < 2) {
      return;
    }
    sets_.warnings.push_back(fmt::format(
        "'{}' is kept, but made in an inner region, which torch recomputes all the same",
        kept.name));
  }

  // Rule 24: an op that reruns for one output makes the kept one again.
  void warn_of_partial_keep(const Op& op, TensorId kept) {
    for (const std::vector<OpId>& ops : sets_.ops_of_frame) {
      if (std::any_of(ops.begin(), ops.end(), [&](OpId id) { return &graph_.op(id) == &op; })) {
        sets_.warnings.push_back(fmt::format("'{}' is kept, but op '{}' runs again all the same",
                                             graph_.tensor(kept).name, op.name));
        return;
      }
    }
  }

  const Graph& graph_;
  const Plan& plan_;
  const RegionTree& tree_;
  RecomputeSets sets_ = {};
  std::vector<std::vector<TensorId>> needed_ = {};  // by frame: what it has to hold for backward
  std::vector<bool> is_read_ = {};                  // by tensor: by a Backward or a recompute
  std::vector<std::int32_t> last_run_in_ = {};      // by op: the frame whose list has it already
};

}  // namespace

RecomputeSets recompute_sets(const Graph& graph, const Plan& plan, const RegionTree& tree) {
  return SetBuilder(graph, plan, tree).build();
}

}  // namespace cairn
