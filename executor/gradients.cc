#include "executor/gradients.h"

namespace cairn {

Gradients::Gradients(const Graph& graph, Memory& memory)
    : graph_(graph),
      memory_(memory),
      held_(graph.tensors.size()),
      gathered_(graph.tensors.size()),
      is_view_(graph.tensors.size(), false),
      is_of_earlier_pass_(graph.tensors.size(), false),
      contributions_(graph.tensors.size(), 0),
      contributed_(graph.tensors.size(), 0) {
  for (const Op& op : graph.ops) {
    if (!op.has_backward) continue;
    for (const TensorId input : op.inputs) ++contributions_[index(input)];
  }
}

void Gradients::begin_training_step() {
  for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
    const auto id = static_cast<TensorId>(i);
    if (graph_.tensors[i].role == TensorRole::kInput) release(id);
    if (held_.holds(id)) memory_.device().fill(held_[id].block->data, 0, held_[id].block->bytes);
  }
}

void Gradients::start_from(TensorId loss, const Array& value) {
  const Array ones = memory_.make_like(value);
  apply(memory_, ones, ones, Constant{1.0});
  held_.hold(loss, ones);
}

Holders& Gradients::place_of(TensorId id) {
  return is_of_earlier_pass_[index(id)] && contributions_[index(id)] > 1 ? gathered_ : held_;
}

void Gradients::add(Holders& holders, TensorId id, const InputGradient& gradient) {
  if (!holders.holds(id)) {
    holders.hold(id, gradient.array);
    is_view_[index(id)] = gradient.is_view;
    return;
  }
  const Array held = holders[id];
  if (held.block->holders > 1) {
    const Array sum = memory_.make_like(held);
    apply(memory_, sum, held, gradient.array, Sum{});
    holders.hold(id, sum);
  } else if (is_view_[index(id)]) {
    sums_.push_back({.id = id, .contribution = gradient.array});
  } else {
    apply(memory_, held, held, gradient.array, Sum{});
  }
  is_view_[index(id)] = false;
}

void Gradients::contribute(TensorId id, const InputGradient& gradient) {
  add(place_of(id), id, gradient);
  if (graph_.tensor(id).role != TensorRole::kParameter) return;
  if (++contributed_[index(id)] == contributions_[index(id)]) completed_.push_back(id);
}

void Gradients::add_late_sums() {
  for (LateSum& sum : sums_) {
    Holders& holders = place_of(sum.id);
    const Array out = memory_.make_like(holders[sum.id]);
    apply(memory_, out, holders[sum.id], sum.contribution, Sum{});
    holders.hold(sum.id, out);
    sum.contribution = {};
  }
  sums_.clear();
}

void Gradients::settle_parameters() {
  for (const TensorId id : completed_) settle_parameter(id);
  completed_.clear();
}

// What was gathered is added to the gradient of earlier passes; memory that something else reads is
// copied.
void Gradients::settle_parameter(TensorId id) {
  if (gathered_.holds(id)) {
    apply(memory_, held_[id], held_[id], gathered_[id], Sum{});
    gathered_.release(id);
  }
  if (held_[id].block->holders > 1 || !is_dense(held_[id])) {
    const Array own = memory_.make_like(held_[id]);
    apply(memory_, own, held_[id], Same{});
    held_.hold(id, own);
  }
  contributed_[index(id)] = 0;
  is_view_[index(id)] = false;
  is_of_earlier_pass_[index(id)] = true;
}

void Gradients::release(TensorId id) {
  held_.release(id);
  is_of_earlier_pass_[index(id)] = false;
}

}  // namespace cairn
