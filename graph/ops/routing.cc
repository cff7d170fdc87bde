#include <fmt/format.h>

#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

// What a router chooses its experts with: scores of each token, [..., experts], in; the largest k
// of them and their positions, [..., k], out.

namespace cairn {
namespace {

// The largest k of the last dim and where they were; with k 1 also torch's max over that dim. Saves
// the indices (torch derivatives.yaml: value_selecting_reduction_backward).
OpDerivation derive_topk(const OpContext& op) {
  const Tensor& scores = *op.inputs[0];
  const std::int64_t k = op.attributes.largest_count;
  if (k > last_dim(op, scores)) {
    refuse(op, fmt::format("the {} largest of a last dim of {}", k, last_dim(op, scores)));
  }
  const Shape shape = with_last_dim(scores.shape, k);
  return {.outputs = {{.suffix = "values", .data_type = scores.data_type, .shape = shape},
                      {.suffix = "indices", .data_type = DataType::kInt64, .shape = shape}},
          .saved = {.outputs = {1}},
          .forward = memory_bound_cost(),
          .backward = memory_bound_cost()};
}

// The values at given positions of the last dim. Saves its indices, and its input for the shape of
// the gradient (derivatives.yaml: gather_backward).
OpDerivation derive_gather(const OpContext& op) {
  const Tensor& values = *op.inputs[0];
  const Tensor& indices = *op.inputs[1];
  check_same_rows(op, values, indices);
  OpDerivation result{.outputs = {{.data_type = values.data_type, .shape = indices.shape}},
                      .forward = memory_bound_cost(),
                      .backward = memory_bound_cost()};
  if (values.requires_grad) result.saved.inputs = {0, 1};
  return result;
}

// Which scores lie outside the groups of experts that a token may choose from. No gradient; the
// scores of the groups are gone when it ends, and not counted: some bytes a token and group.
OpDerivation derive_group_mask(const OpContext& op) {
  const Tensor& scores = *op.inputs[0];
  part_width(op, scores, op.attributes.groups, "groups");
  return {.outputs = {{.data_type = DataType::kBool, .shape = scores.shape}},
          .forward = memory_bound_cost()};
}

// Its input where the mask is false, a constant elsewhere. Saves the mask.
OpDerivation derive_masked_fill(const OpContext& op) {
  const Tensor& input = *op.inputs[0];
  const Tensor& mask = *op.inputs[1];
  last_dim(op, input);  // there has to be one
  if (mask.shape != input.shape && mask.shape != with_last_dim(input.shape, 1)) {
    refuse(op, fmt::format("a mask {} does not fit {}", shape_text(mask.shape),
                           shape_text(input.shape)));
  }
  OpDerivation result{.outputs = {{.data_type = input.data_type, .shape = input.shape}},
                      .forward = memory_bound_cost(),
                      .backward = memory_bound_cost()};
  if (input.requires_grad) result.saved.inputs = {1};
  return result;
}

}  // namespace

OpKindInfo topk_kind() {
  return {.name = "topk",
          .source = "derivatives.yaml: topk",
          .attributes = {AttributeKey::kLargestCount},
          .required = {AttributeKey::kLargestCount},
          .derive = derive_topk};
}

OpKindInfo gather_kind() {
  return {.name = "gather",
          .source = "derivatives.yaml: gather",
          .min_inputs = 2,
          .max_inputs = 2,
          .integer_inputs = {1},
          .derive = derive_gather};
}

OpKindInfo group_mask_kind() {
  return {
      .name = "group_mask",
      .source = "derivatives.yaml: _to_copy",
      .attributes = {AttributeKey::kGroups, AttributeKey::kLargestCount, AttributeKey::kConstant},
      .required = {AttributeKey::kGroups},
      .derive = derive_group_mask};
}

OpKindInfo masked_fill_kind() {
  return {.name = "masked_fill",
          .source = "derivatives.yaml: masked_fill",
          .min_inputs = 2,
          .max_inputs = 2,
          .integer_inputs = {1},
          .attributes = {AttributeKey::kConstant},
          .derive = derive_masked_fill};
}

}  // namespace cairn
