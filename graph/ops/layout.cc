#include <fmt/format.h>

#include "graph/checked.h"
#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

// Parts of a tensor along its last dim: views, so forward costs nothing. And tensors put together.

namespace cairn {
namespace {

constexpr std::int64_t kMostParts = 4096;

// As many as `widths` says, which fill the last dim, or `parts` equal ones.
std::vector<std::int64_t> part_widths(const OpContext& op, const Tensor& input) {
  const std::vector<std::int64_t>& widths = op.attributes.widths;
  const std::int64_t parts = op.attributes.parts;
  if (widths.empty()) {
    if (parts < 1) refuse(op, "needs 'parts' or 'widths'");
    if (parts > kMostParts) refuse(op, fmt::format("{} parts are too many", parts));
    const std::int64_t width = part_width(op, input, parts, "parts");
    return std::vector<std::int64_t>(static_cast<std::size_t>(parts), width);
  }
  if (parts > 0) refuse(op, "takes 'parts' or 'widths', not both");
  std::int64_t sum = 0;
  for (const std::int64_t width : widths) {
    sum = checked_add(sum, width, "op '{}': its widths", op.name);
  }
  if (sum != last_dim(op, input)) {
    refuse(op, fmt::format("the widths {} do not fill the {} of '{}'", shape_text(widths),
                           last_dim(op, input), input.name));
  }
  return widths;
}

// Where the last dim is cut or joined head by head, each part has as much of every head. Whether it
// is changes no size.
void check_heads(const OpContext& op, std::int64_t width) {
  const std::int64_t heads = op.attributes.heads;
  if (heads == 0 || width % heads == 0) return;
  refuse(op, fmt::format("a part of {} does not divide into {} heads", width, heads));
}

OpDerivation derive_slice(const OpContext& op) {
  const Tensor& input = *op.inputs[0];
  const std::vector<std::int64_t> widths = part_widths(op, input);
  const auto count = static_cast<std::int64_t>(widths.size());
  if (op.attributes.part < 0 || op.attributes.part >= count) {
    refuse(op, fmt::format("part {} is not among {} parts", op.attributes.part, count));
  }
  const std::int64_t width = widths[static_cast<std::size_t>(op.attributes.part)];
  for (const std::int64_t each : widths) check_heads(op, each);
  return partial_view(op, with_last_dim(input.shape, width));
}

// The dim to cut or concatenate along, from 0.
std::size_t stated_dim(const OpContext& op) {
  last_dim(op, *op.inputs[0]);  // there has to be one
  const auto rank = static_cast<std::int64_t>(op.inputs[0]->shape.size());
  const std::int64_t axis = op.attributes.axis;
  if (axis >= rank || axis < -rank) {
    refuse(op, fmt::format("axis {} is none of {}", axis, shape_text(op.inputs[0]->shape)));
  }
  return static_cast<std::size_t>(axis < 0 ? rank + axis : axis);
}

// torch.split of a size: parts of `width` along the dim, of which the last may be smaller.
std::vector<std::int64_t> widths_of_size(const OpContext& op, std::int64_t extent) {
  if (op.attributes.parts > 0 || !op.attributes.widths.empty()) {
    refuse(op, "takes one of 'width', 'parts' and 'widths'");
  }
  const std::int64_t count = (extent - 1) / op.attributes.width + 1;
  if (count > kMostParts) refuse(op, fmt::format("{} parts are too many", count));
  std::vector<std::int64_t> widths(static_cast<std::size_t>(count), op.attributes.width);
  widths.back() = extent - (count - 1) * op.attributes.width;
  return widths;
}

// All parts: the gradients of the parts are concatenated into a new tensor.
OpDerivation derive_split(const OpContext& op) {
  const Tensor& input = *op.inputs[0];
  const std::size_t dim = stated_dim(op);
  if (op.attributes.width == 0 && dim + 1 != input.shape.size()) {
    refuse(op, "along another dim than the last it needs 'width'");
  }
  OpDerivation result{.backward = {.moved_bytes = product(op, {2, input.bytes})}};
  for (const std::int64_t width :
       op.attributes.width > 0 ? widths_of_size(op, input.shape[dim]) : part_widths(op, input)) {
    if (dim + 1 == input.shape.size()) check_heads(op, width);
    Shape shape = input.shape;
    shape[dim] = width;
    result.outputs.push_back({.suffix = std::to_string(result.outputs.size()),
                              .data_type = input.data_type,
                              .shape = std::move(shape),
                              .view_of_input = 0});
  }
  return result;
}

// Concatenates along one dim; the gradients are slices of the output's gradient, cast for an input
// of another type.
OpDerivation derive_cat(const OpContext& op) {
  const std::size_t dim = stated_dim(op);
  std::int64_t extent = 0;
  DataType type = op.inputs[0]->data_type;
  Shape outside = op.inputs[0]->shape;
  outside[dim] = 1;
  for (const Tensor* input : op.inputs) {
    type = promoted_type(type, input->data_type);
    if (dim + 1 == outside.size()) check_heads(op, last_dim(op, *input));
    Shape shape = input->shape;
    if (shape.size() == outside.size()) {
      extent = checked_add(extent, shape[dim], "op '{}': its width", op.name);
      shape[dim] = 1;
    }
    if (shape != outside) {
      refuse(op,
             fmt::format("{} and {} differ outside {}", shape_text(op.inputs[0]->shape),
                         shape_text(input->shape),
                         dim + 1 == outside.size() ? "the last dim" : fmt::format("dim {}", dim)));
    }
  }
  Shape shape = outside;
  shape[dim] = extent;
  OpDerivation result{.outputs = {{.data_type = type, .shape = std::move(shape)}},
                      .forward = memory_bound_cost(),
                      .backward = memory_bound_cost()};
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i]->data_type == type) result.gradient_alias_inputs.push_back(i);
  }
  return result;
}

}  // namespace

OpKindInfo slice_kind() {
  return {.name = "slice",
          .source = "derivatives.yaml: slice",
          .attributes = {AttributeKey::kParts, AttributeKey::kPart, AttributeKey::kWidths,
                         AttributeKey::kHeads},
          .derive = derive_slice,
          .autocast = AutocastList::kNone};
}

OpKindInfo split_kind() {
  return {.name = "split",
          .source = "derivatives.yaml: split, split_with_sizes",
          .attributes = {AttributeKey::kParts, AttributeKey::kWidths, AttributeKey::kWidth,
                         AttributeKey::kAxis, AttributeKey::kHeads},
          .derive = derive_split,
          .autocast = AutocastList::kNone};
}

OpKindInfo split_ids_kind() {
  return {.name = "split_ids",
          .source = "torch.split",
          .integer_inputs = {0},
          .attributes = {AttributeKey::kParts, AttributeKey::kWidths, AttributeKey::kWidth,
                         AttributeKey::kAxis},
          .derive = derive_split,
          .autocast = AutocastList::kNone};
}

OpKindInfo cat_kind() {
  return {.name = "cat",
          .source = "derivatives.yaml: cat",
          .min_inputs = 1,
          .max_inputs = kMostParts,
          .attributes = {AttributeKey::kAxis, AttributeKey::kHeads},
          .derive = derive_cat,
          .autocast = AutocastList::kNone};
}

}  // namespace cairn
