#include <fmt/format.h>

#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

// Heads as a dim of their own and back: views that cost nothing, whose gradient passes by alias.

namespace cairn {
namespace {

// [batch, tokens, heads * head_dim] as [batch, tokens, heads, head_dim]
OpDerivation derive_split_heads(const OpContext& op) {
  const Tensor& input = *op.inputs[0];
  const std::int64_t heads = op.attributes.heads;
  const std::int64_t head_dim = part_width(op, input, heads, "heads");
  Shape shape = with_last_dim(input.shape, heads);
  shape.push_back(head_dim);
  return whole_view(op, std::move(shape));
}

// The last two dims as one.
OpDerivation derive_merge_heads(const OpContext& op) {
  const Tensor& input = *op.inputs[0];
  if (input.shape.size() < 2) {
    refuse(op, fmt::format("'{}' must be [..., heads, head_dim], found {}", input.name,
                           shape_text(input.shape)));
  }
  Shape shape(input.shape.begin(), input.shape.end() - 1);
  shape.back() = product(op, {shape.back(), input.shape.back()});
  return whole_view(op, std::move(shape));
}

}  // namespace

OpKindInfo split_heads_kind() {
  return {.name = "split_heads",
          .source = "derivatives.yaml: view",
          .attributes = {AttributeKey::kHeads},
          .required = {AttributeKey::kHeads},
          .derive = derive_split_heads,
          .autocast = AutocastList::kNone};
}

OpKindInfo merge_heads_kind() {
  return {.name = "merge_heads",
          .source = "derivatives.yaml: view",
          .derive = derive_merge_heads,
          .autocast = AutocastList::kNone};
}

}  // namespace cairn
