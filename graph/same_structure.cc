#include "graph/same_structure.h"

#include <algorithm>

namespace cairn {
namespace {

bool are_alike(const Op& a, const Op& b) {
  return a.kind == b.kind && a.block == b.block && a.inputs == b.inputs && a.outputs == b.outputs &&
         a.auxiliaries == b.auxiliaries && a.saved == b.saved && a.unread_saved == b.unread_saved &&
         a.gradient_aliases == b.gradient_aliases && a.gradient_places == b.gradient_places &&
         a.gradient_views == b.gradient_views && a.recompute == b.recompute &&
         a.side_effect == b.side_effect && a.in_place == b.in_place &&
         a.saves_after_forward == b.saves_after_forward && a.has_backward == b.has_backward &&
         a.sweep_workspace_bytes.has_value() == b.sweep_workspace_bytes.has_value();
}

bool are_alike(const Tensor& a, const Tensor& b) {
  return a.storage == b.storage && a.role == b.role && a.producer == b.producer &&
         a.requires_grad == b.requires_grad && a.has_gradient == b.has_gradient;
}

bool are_alike(const Storage& a, const Storage& b) { return a.owner == b.owner; }

template <typename Item>
bool all_alike(const std::vector<Item>& a, const std::vector<Item>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Item& x, const Item& y) { return are_alike(x, y); });
}

}  // namespace

bool have_same_structure(const Graph& a, const Graph& b) {
  return a.loss == b.loss && a.block_count == b.block_count && all_alike(a.ops, b.ops) &&
         all_alike(a.tensors, b.tensors) && all_alike(a.storages, b.storages);
}

}  // namespace cairn
