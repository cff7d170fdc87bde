#include <fmt/format.h>

#include <algorithm>

#include "graph/checked.h"
#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

// A convolution of kernel 1 along the tokens of [batch, tokens, channels], for which PyTorch swaps
// the last two dims of its input and of its output, views both. It takes the channels group by
// group: a linear layer of each.

namespace cairn {
namespace {

// `groups` equal ones in one convolution, or one for each of `widths`, put together afterwards.
struct Groups {
  std::int64_t count = 1;
  std::int64_t width = 0;  // of all that is made
  std::int64_t widest = 0;
};

Groups groups_of(const OpContext& op) {
  const OpAttributes& attributes = op.attributes;
  if (attributes.widths.empty()) {
    if (attributes.width < 1) refuse(op, "needs 'width' or 'widths'");
    const std::int64_t count = std::max<std::int64_t>(attributes.groups, 1);
    if (attributes.width % count != 0) {
      refuse(op,
             fmt::format("a width of {} does not divide into {} groups", attributes.width, count));
    }
    return {.count = count, .width = attributes.width, .widest = attributes.width / count};
  }
  if (attributes.width > 0 || attributes.groups > 0) {
    refuse(op, "takes 'width' and 'groups', or 'widths', not both");
  }
  Groups groups{.count = 0};
  for (const std::int64_t width : attributes.widths) {
    groups.width = checked_add(groups.width, width, "op '{}': its widths", op.name);
    groups.widest = std::max(groups.widest, width);
    if (width > 0) ++groups.count;
  }
  if (groups.count == 0) refuse(op, "expected a width above 0, found none");
  return groups;
}

std::vector<TensorSketch> conv1d_parameters(const OpContext& op) {
  const Groups groups = groups_of(op);
  const std::int64_t channels = part_width(op, *op.inputs[0], groups.count, "groups");
  return {{.suffix = "weight", .shape = {groups.width, channels}}};
}

// Saves input and weight even where only one of them has a gradient (derivatives.yaml:
// convolution). Its kernels want what they read in one piece: the swapped input, and in backward
// the swapped gradient, are copied. Several convolutions are concatenated, and the gradients of
// their inputs and weights are too.
OpDerivation derive_conv1d(const OpContext& op) {
  const Tensor& input = *op.inputs[0];
  const Tensor& weight = *op.parameters[0];
  const Groups groups = groups_of(op);
  const bool is_one = op.attributes.widths.empty();
  OpDerivation result{.outputs = {{.data_type = input.data_type,
                                   .shape = with_last_dim(input.shape, groups.width)}}};
  if (input.requires_grad || weight.requires_grad) result.saved.inputs = {0, 1};
  const std::int64_t item = bytes_per_element(input.data_type);
  const std::int64_t rows = row_count(op, input);
  const std::int64_t output_bytes = product(op, {rows, groups.width, item});
  const std::int64_t read_bytes = input.bytes / groups.count;
  result.workspace_bytes = is_one ? input.bytes : sum(op, {output_bytes, read_bytes});
  result.backward_workspace_bytes = is_one ? sum(op, {output_bytes, input.bytes})
                                           : sum(op, {product(op, {rows, groups.widest, item}),
                                                      read_bytes, input.bytes, weight.bytes});
  const std::int64_t product_flops =
      product(op, {2, rows, element_count(weight.shape, weight.name)});
  const int gradients = (weight.requires_grad ? 1 : 0) + (input.requires_grad ? 1 : 0);
  const std::int64_t kernels = is_one ? 1 : groups.count + 1;
  result.forward = matmul_cost(product_flops, kernels);
  result.backward = matmul_cost(product(op, {gradients, product_flops}), gradients * kernels);
  return result;
}

}  // namespace

OpKindInfo conv1d_kind() {
  return {.name = "conv1d",
          .source = "derivatives.yaml: convolution",
          .attributes = {AttributeKey::kWidth, AttributeKey::kGroups, AttributeKey::kWidths},
          .skips_empty_widths = true,
          .parameters = conv1d_parameters,
          .derive = derive_conv1d,
          .autocast = AutocastList::kLowerPrecision};
}

}  // namespace cairn
