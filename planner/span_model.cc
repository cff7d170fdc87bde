#include "planner/span_model.h"

#include <algorithm>

#include "planner/blocks.h"

namespace cairn {
namespace {

class ModelMaker {
 public:
  ModelMaker(const Graph& graph, const Span& span, Extent extent, const OpCosts& costs)
      : graph_(graph), costs_(costs) {
    model_.span = span;
    model_.extent = extent;
    number_.assign(graph.tensors.size(), -1);
    storage_number_.assign(graph.storages.size(), -1);
    is_held_before_.assign(graph.storages.size(), false);
    for (std::int32_t i = 0; i < span.begin; ++i) {
      const Op& op = graph.ops[static_cast<std::size_t>(i)];
      if (!op.has_backward) continue;
      for (const TensorId saved : op.saved) {
        is_held_before_[index(graph.tensor(saved).storage)] = true;
      }
    }
  }

  SpanModel make(const KeepConstraints& constraints) {
    for (std::int32_t i = model_.span.begin; i < model_.span.end; ++i) add_op(i);
    note_saved();
    note_reads();
    note_overwrites();
    note_storages();
    for (std::size_t i = 0; i < model_.ops.size(); ++i) note_run(i);
    for (const TensorId id : constraints.keep) {
      if (SpanTensor* const tensor = find(id)) tensor->must_keep = tensor->producer >= 0;
    }
    for (const TensorId id : constraints.recompute) {
      if (SpanTensor* const tensor = find(id)) tensor->must_drop = tensor->producer >= 0;
    }
    return std::move(model_);
  }

 private:
  SpanTensor* find(TensorId id) {
    const std::int32_t number = number_[index(id)];
    return number < 0 ? nullptr : &model_.tensors[static_cast<std::size_t>(number)];
  }

  std::int32_t place(OpId op) const { return static_cast<std::int32_t>(op) - model_.span.begin; }

  void add_op(std::int32_t position) {
    const Op& op = graph_.ops[static_cast<std::size_t>(position)];
    SpanOp added{.id = static_cast<OpId>(position),
                 .cost = costs_.forward[static_cast<std::size_t>(position)],
                 .may_rerun = op.recompute != RecomputePolicy::kNever};
    for (const TensorId input : op.inputs) {
      const std::int32_t number = number_of(input);
      if (number >= 0) added.inputs.push_back(number);
    }
    std::sort(added.inputs.begin(), added.inputs.end());
    added.inputs.erase(std::unique(added.inputs.begin(), added.inputs.end()), added.inputs.end());
    for (const auto* const made : {&op.outputs, &op.auxiliaries}) {
      for (const TensorId id : *made) added.made.push_back(number_of(id));
    }
    model_.ops.push_back(std::move(added));
  }

  // -1 for what lives for the whole step, and for what ops before the span hold anyway: that costs
  // the span nothing.
  std::int32_t number_of(TensorId id) {
    if (number_[index(id)] >= 0) return number_[index(id)];
    const Tensor& tensor = graph_.tensor(id);
    if (tensor.producer == kNoOp) return -1;
    const bool is_handed = static_cast<std::int32_t>(tensor.producer) < model_.span.begin;
    const bool is_of_others = !tensor.has_gradient || is_leaf(graph_, id);
    if (is_handed && is_of_others && is_held_before_[index(tensor.storage)]) return -1;
    number_[index(id)] = static_cast<std::int32_t>(model_.tensors.size());
    model_.tensors.push_back({.id = id,
                              .producer = is_handed ? -1 : place(tensor.producer),
                              .storage = storage_number_of(tensor.storage, id)});
    return number_[index(id)];
  }

  std::int32_t storage_number_of(StorageId id, TensorId tensor) {
    const Tensor& owner = graph_.tensor(graph_.storage(id).owner);
    if (is_resident(owner)) return -1;
    std::int32_t& number = storage_number_[index(id)];
    if (number < 0) {
      // A view of what is handed over counts only where the span is what holds it.
      const bool is_handed = place(owner.producer) < 0;
      if (is_handed && is_held_before_[index(id)] && !graph_.tensor(tensor).has_gradient) return -1;
      number = static_cast<std::int32_t>(model_.storages.size());
      model_.storages.push_back(
          {.bytes = graph_.storage(id).bytes, .owner = is_handed ? -1 : place(owner.producer)});
    }
    model_.storages[static_cast<std::size_t>(number)].tensors.push_back(
        static_cast<std::int32_t>(model_.tensors.size()));
    return number;
  }

  void note_saved() {
    std::int32_t stop = 0;
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      const Op& op = graph_.ops[i];
      const std::int32_t at = place(static_cast<OpId>(i));
      const bool is_inside = at >= 0 && at < static_cast<std::int32_t>(model_.ops.size());
      if (is_inside) stop = std::max(stop, end_of_saves(op, at));
      if (!op.has_backward) continue;
      for (const TensorId saved : op.saved) {
        SpanTensor* const tensor = find(saved);
        if (tensor == nullptr) continue;
        tensor->is_read_outside = tensor->is_read_outside || !is_inside;
        if (!is_inside) continue;
        tensor->first_saver = std::min(tensor->first_saver, at);
        tensor->last_saver = std::max(tensor->last_saver, at);
      }
      const bool is_whole = model_.extent == Extent::kWhole;
      const bool triggers = is_whole || (model_.extent == Extent::kPrefix && !op.saved.empty());
      if (is_inside && triggers) model_.trigger = at;
    }
    if (model_.trigger < 0) return;
    const auto op_count = static_cast<std::int32_t>(model_.ops.size());
    model_.stop = model_.extent == Extent::kWhole ? op_count : stop;
  }

  // Section 5: a saved input ends the run before its op, what the op makes behind it.
  std::int32_t end_of_saves(const Op& op, std::int32_t at) const {
    std::int32_t end = 0;
    for (const auto* const list : {&op.saved, &op.unread_saved}) {
      for (const TensorId saved : *list) {
        const OpId producer = graph_.tensor(saved).producer;
        const bool is_behind =
            op.saves_after_forward || (producer != kNoOp && place(producer) == at);
        end = std::max(end, is_behind ? at + 1 : at);
      }
    }
    return end;
  }

  void note_reads() {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      for (const TensorId input : graph_.ops[i].inputs) {
        if (SpanTensor* const tensor = find(input)) {
          tensor->last_reader = place(static_cast<OpId>(i));
        }
      }
    }
    for (SpanTensor& tensor : model_.tensors) {
      const OpId held_until = graph_.tensor(tensor.id).held_until;
      if (held_until != kNoOp) tensor.held_until = place(held_until);
    }
  }

  void note_overwrites() {
    for (const Op& op : graph_.ops) {
      if (!op.in_place) continue;
      const StorageId storage = graph_.tensor(op.inputs[0]).storage;
      const OpId writer = graph_.tensor(op.outputs[0]).producer;
      for (SpanTensor& tensor : model_.tensors) {
        if (graph_.tensor(tensor.id).storage != storage) continue;
        if (graph_.tensor(tensor.id).producer < writer) tensor.is_overwritten = true;
      }
    }
  }

  // Of any tensor on the storage, those of other ops too.
  void note_forward_uses() {
    const auto use = [this](TensorId tensor, OpId op) {
      const std::int32_t number = storage_number_[index(graph_.tensor(tensor).storage)];
      if (number < 0 || op == kNoOp) return;
      std::int32_t& last = model_.storages[static_cast<std::size_t>(number)].last_forward_use;
      last = std::max(last, place(op));
    };
    for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
      use(static_cast<TensorId>(i), graph_.tensors[i].producer);
      use(static_cast<TensorId>(i), graph_.tensors[i].held_until);
    }
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      for (const TensorId input : graph_.ops[i].inputs) use(input, static_cast<OpId>(i));
    }
  }

  void note_storages() {
    note_forward_uses();
    for (SpanStorage& storage : model_.storages) {
      bool has_gradient = false;
      for (const std::int32_t number : storage.tensors) {
        const SpanTensor& tensor = model_.tensors[static_cast<std::size_t>(number)];
        has_gradient = has_gradient || graph_.tensor(tensor.id).has_gradient;
      }
      if (storage.owner >= 0) continue;
      const StorageId id =
          graph_.tensor(model_.tensors[static_cast<std::size_t>(storage.tensors[0])].id).storage;
      const bool is_passed = model_.extent != Extent::kNeeded && model_.trigger >= 0;
      storage.is_always_held = is_passed || (has_gradient && is_held_before_[index(id)]);
    }
  }

  void note_run(std::size_t i) {
    SpanOp& made = model_.ops[i];
    const Op& op = graph_.op(made.id);
    const auto own_bytes = [&](const std::vector<TensorId>& ids) {
      std::int64_t bytes = 0;
      for (const TensorId id : ids) {
        const Storage& storage = graph_.storage(graph_.tensor(id).storage);
        if (storage.owner == id) bytes += storage.bytes;
      }
      return bytes;
    };
    const std::int64_t unswept_bytes = own_bytes(op.auxiliaries) + op.workspace_bytes;
    if (op.sweep_workspace_bytes) {
      made.unswept_bytes = unswept_bytes - *op.sweep_workspace_bytes;
      for (const TensorId id : op.auxiliaries) {
        made.auxiliaries.push_back(number_[index(id)]);
      }
    }
    const bool is_swept =
        op.sweep_workspace_bytes &&
        std::none_of(made.auxiliaries.begin(), made.auxiliaries.end(), [&](auto t) {
          return model_.tensors[static_cast<std::size_t>(t)].is_saved();
        });
    made.run_bytes = own_bytes(op.outputs) + (is_swept ? *op.sweep_workspace_bytes : unswept_bytes);
  }

  const Graph& graph_;
  const OpCosts& costs_;
  SpanModel model_ = {};
  std::vector<std::int32_t> number_ = {};          // by tensor
  std::vector<std::int32_t> storage_number_ = {};  // by storage
  std::vector<bool> is_held_before_ = {};          // by storage: for a Backward before the span
};

}  // namespace

SpanModel span_model(const Graph& graph, const Span& span, Extent extent, const OpCosts& costs,
                     const KeepConstraints& constraints) {
  return ModelMaker(graph, span, extent, costs).make(constraints);
}

}  // namespace cairn
