#include <fmt/format.h>

#include "graph/checked.h"
#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

// From images [batch, channels, height, width] to rows of features and to tokens, and what vision
// transformers do to their tokens. A view costs nothing; where the whole of a tensor is seen
// through it, so does its gradient.

namespace cairn {
namespace {

// [batch, all else]
OpDerivation derive_flatten(const OpContext& op) {
  const Tensor& input = *op.inputs[0];
  last_dim(op, input);  // there has to be one
  const std::int64_t batch = input.shape[0];
  return whole_view(op, {batch, element_count(input.shape, input.name) / batch});
}

// Each pixel a token of `channels`: a view that walks the image with strides.
OpDerivation derive_to_tokens(const OpContext& op) {
  const ImageDims image = image_dims(op, *op.inputs[0]);
  return whole_view(op, {image.batch, product(op, {image.height, image.width}), image.channels});
}

// [rows, columns, heads] as [1, heads, rows, columns]: a table of positions for attention.
OpDerivation derive_heads_first(const OpContext& op) {
  const Shape& shape = op.inputs[0]->shape;
  if (shape.size() != 3) {
    refuse(op, fmt::format("'{}' must be [rows, columns, heads], found {}", op.inputs[0]->name,
                           shape_text(shape)));
  }
  return whole_view(op, {1, shape[2], shape[0], shape[1]});
}

// The middle of an image, `rows` pixels square.
OpDerivation derive_crop(const OpContext& op) {
  const ImageDims image = image_dims(op, *op.inputs[0]);
  const std::int64_t side = op.attributes.rows;
  if (side > image.height || side > image.width) {
    refuse(op, fmt::format("{0} x {0} is larger than '{1}' {2}", side, op.inputs[0]->name,
                           shape_text(op.inputs[0]->shape)));
  }
  return partial_view(op, {image.batch, image.channels, side, side});
}

void check_tokens(const OpContext& op) {
  if (op.inputs[0]->shape.size() == 3) return;
  refuse(op, fmt::format("'{}' must be [batch, tokens, width], found {}", op.inputs[0]->name,
                         shape_text(op.inputs[0]->shape)));
}

// The first token of each sample. What saves it holds the storage of all tokens.
OpDerivation derive_first_token(const OpContext& op) {
  check_tokens(op);
  return partial_view(op, {op.inputs[0]->shape[0], op.inputs[0]->shape[2]});
}

// What x and a weight make together: its type is that of both, and x's gradient aliases the
// output's where it is of x's type.
OpDerivation with_weight(const OpContext& op, Shape shape) {
  const DataType type = promoted_type(op.inputs[0]->data_type, op.parameters[0]->data_type);
  OpDerivation result{.outputs = {{.data_type = type, .shape = std::move(shape)}},
                      .forward = memory_bound_cost(),
                      .backward = memory_bound_cost()};
  if (type == op.inputs[0]->data_type) result.gradient_alias_inputs = {0};
  return result;
}

std::vector<TensorSketch> token_parameters(const OpContext& op) {
  return {{.suffix = "weight", .shape = {last_dim(op, *op.inputs[0])}}};
}

// A learned token before those of each sample: a concatenation, which saves nothing; the gradient
// of x is a slice of the output's.
OpDerivation derive_prepend_token(const OpContext& op) {
  check_tokens(op);
  Shape shape = op.inputs[0]->shape;
  shape[1] = checked_add(shape[1], 1, "op '{}': its tokens", op.name);
  return with_weight(op, std::move(shape));
}

std::vector<TensorSketch> sample_parameters(const OpContext& op) {
  check_tokens(op);
  const Shape& shape = op.inputs[0]->shape;
  return {{.suffix = "weight", .shape = {shape[1], shape[2]}}};
}

// A learned tensor added to every sample, as position embeddings are. Saves nothing.
OpDerivation derive_add_weight(const OpContext& op) { return with_weight(op, op.inputs[0]->shape); }

}  // namespace

OpKindInfo flatten_kind() {
  return {.name = "flatten",
          .source = "derivatives.yaml: view",
          .derive = derive_flatten,
          .autocast = AutocastList::kNone};
}
OpKindInfo to_tokens_kind() {
  return {.name = "to_tokens",
          .source = "derivatives.yaml: view, transpose",
          .derive = derive_to_tokens,
          .autocast = AutocastList::kNone};
}
OpKindInfo heads_first_kind() {
  return {.name = "heads_first",
          .source = "derivatives.yaml: permute, unsqueeze",
          .derive = derive_heads_first,
          .autocast = AutocastList::kNone};
}
OpKindInfo first_token_kind() {
  return {.name = "first_token",
          .source = "derivatives.yaml: select",
          .derive = derive_first_token,
          .autocast = AutocastList::kNone};
}

OpKindInfo crop_kind() {
  return {.name = "crop",
          .source = "derivatives.yaml: slice",
          .attributes = {AttributeKey::kRows},
          .required = {AttributeKey::kRows},
          .derive = derive_crop,
          .autocast = AutocastList::kNone};
}

OpKindInfo prepend_token_kind() {
  return {.name = "prepend_token",
          .source = "derivatives.yaml: expand, cat",
          .parameters = token_parameters,
          .derive = derive_prepend_token,
          .autocast = AutocastList::kNone};
}

OpKindInfo add_weight_kind() {
  return {.name = "add_weight",
          .source = "derivatives.yaml: add",
          .parameters = sample_parameters,
          .derive = derive_add_weight,
          .autocast = AutocastList::kNone};
}

}  // namespace cairn
