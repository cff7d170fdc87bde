#include <fmt/format.h>

#include "graph/ops/expert_rows.h"
#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

// The experts of a mixture-of-experts layer. A token that takes k experts has k rows; the rows of
// all tokens, sorted by expert, are one matrix [rows, width]. All experts of a layer are alike and
// are one op: its weight has them all, its FLOPs follow the rows and not the experts.

namespace cairn {
namespace {

// The op's rows, of indices [..., k].
std::int64_t rows_of(const OpContext& op, const Tensor& indices) {
  const std::int64_t k = last_dim(op, indices);
  const OpAttributes& attributes = op.attributes;
  if (k > attributes.experts) {
    refuse(op, fmt::format("{} experts a token, of {}", k, attributes.experts));
  }
  const double most = most_expert_imbalance(attributes.experts, k);
  if (attributes.imbalance < 1.0 || attributes.imbalance > most) {
    refuse(op, fmt::format("imbalance {} is not from 1 to {} ({} experts, {} a token)",
                           attributes.imbalance, most, attributes.experts, k));
  }
  if (attributes.capacity > most) {
    refuse(op, fmt::format("capacity {} is above {} ({} experts, {} a token)", attributes.capacity,
                           most, attributes.experts, k));
  }
  return expert_rows({.rows = element_count(indices.shape, indices.name),
                      .experts = attributes.experts,
                      .imbalance = attributes.imbalance,
                      .capacity = attributes.capacity});
}

// Copies each token's row once for every expert it takes, sorted by expert. `indices` are the
// experts of each token, [..., k]. Besides the rows it makes what later ops read: the order
// that sorted them, a flag for rows that belong to no expert here, where each expert's rows end,
// and the expert of each row. Saves the token of each row (derivatives.yaml: index) and the flags
// (masked_fill_). Backward copies the gradient for masked_fill_, then adds it up by token.
OpDerivation derive_dispatch(const OpContext& op) {
  const Tensor& x = *op.inputs[0];
  const Tensor& indices = *op.inputs[1];
  check_same_rows(op, x, indices);
  const std::int64_t rows = rows_of(op, indices);
  const Shape by_row = {rows, last_dim(op, x)};
  OpDerivation result{
      .outputs = {{.suffix = "rows", .data_type = x.data_type, .shape = by_row},
                  {.suffix = "order", .data_type = DataType::kInt64, .shape = {rows}},
                  {.suffix = "absent", .data_type = DataType::kBool, .shape = {rows, 1}},
                  {.suffix = "ends",
                   .data_type = DataType::kInt32,
                   .shape = {op.attributes.experts}},
                  {.suffix = "experts", .data_type = DataType::kInt64, .shape = {rows}}},
      .auxiliaries = {{.suffix = "token", .data_type = DataType::kInt64, .shape = {rows}}},
      .forward = {.kernel_count = 9},
      .backward = {.kernel_count = 3}};
  if (x.requires_grad) result.saved = {.outputs = {2}, .auxiliaries = {0}};
  result.backward_workspace_bytes =
      product(op, {element_count(by_row, op.name), bytes_per_element(x.data_type)});
  return result;
}

// Elements of its first input, in whatever shape, in the order of the second: one a row. Saves the
// order (derivatives.yaml: index).
OpDerivation derive_take(const OpContext& op) {
  const Tensor& order = *op.inputs[1];
  OpDerivation result{.outputs = {{.data_type = op.inputs[0]->data_type,
                                   .shape = {element_count(order.shape, order.name), 1}}},
                      .forward = memory_bound_cost(),
                      .backward = memory_bound_cost()};
  if (op.inputs[0]->requires_grad) result.saved.inputs = {1};
  return result;
}

std::vector<TensorSketch> expert_parameters(const OpContext& op) {
  const std::int64_t experts = op.attributes.experts;
  const std::int64_t width = op.attributes.width;
  std::vector<TensorSketch> parameters = {
      {.suffix = "weight", .shape = {experts, width, last_dim(op, *op.inputs[0])}}};
  if (op.attributes.bias) parameters.push_back({.suffix = "bias", .shape = {experts, width}});
  return parameters;
}

// Each row through its own expert's matrix, one grouped kernel. Saves its rows, its weight and
// where each expert's rows end (derivatives.yaml: _grouped_mm). A bias is copied for every row,
// which saves the expert of each row, and added in place. 2 * rows * in * out FLOPs each for the
// output and the two gradients.
OpDerivation derive_expert_linear(const OpContext& op) {
  const Tensor& rows = *op.inputs[0];
  const Tensor& weight = *op.parameters[0];
  if (rows.shape.size() != 2) {
    refuse(op,
           fmt::format("'{}' must be [rows, width], found {}", rows.name, shape_text(rows.shape)));
  }
  if (op.attributes.bias && op.inputs.size() != 3) {
    refuse(op, "with a bias it needs the expert of each row as its third input");
  }
  const Shape shape = with_last_dim(rows.shape, op.attributes.width);
  OpDerivation result{.outputs = {{.data_type = rows.data_type, .shape = shape}}};
  const std::size_t weight_position = op.inputs.size();
  if (weight.requires_grad) result.saved.inputs.push_back(0);
  if (rows.requires_grad || weight.requires_grad) result.saved.inputs.push_back(1);
  if (rows.requires_grad) result.saved.inputs.push_back(weight_position);
  if (op.attributes.bias) {
    if (op.parameters[1]->requires_grad) result.saved.inputs.push_back(2);
    result.workspace_bytes =
        product(op, {element_count(shape, op.name), bytes_per_element(rows.data_type)});
  }
  const std::int64_t product_flops =
      product(op, {2, rows.shape[0], last_dim(op, rows), op.attributes.width});
  const int gradients = (weight.requires_grad ? 1 : 0) + (rows.requires_grad ? 1 : 0);
  result.forward = matmul_cost(product_flops, op.attributes.bias ? 3 : 1);
  result.backward = matmul_cost(product(op, {gradients, product_flops}), gradients);
  return result;
}

// The sum of each token's rows, in the order of its experts. `indices` say how many those are.
// Saves the order back (derivatives.yaml: index); both directions copy the rows into it.
OpDerivation derive_combine(const OpContext& op) {
  const Tensor& rows = *op.inputs[0];
  const Tensor& indices = *op.inputs[1];
  const std::int64_t token_rows = element_count(indices.shape, indices.name);
  const std::int64_t width = last_dim(op, rows);
  OpDerivation result{
      .outputs = {{.data_type = rows.data_type, .shape = with_last_dim(indices.shape, width)}},
      .auxiliaries = {{.suffix = "inverse", .data_type = DataType::kInt64, .shape = {token_rows}}},
      .forward = {.kernel_count = 4},
      .backward = {.kernel_count = 2}};
  if (rows.requires_grad) result.saved.auxiliaries = {0};
  result.workspace_bytes = product(op, {token_rows, width, bytes_per_element(rows.data_type)});
  result.backward_workspace_bytes = result.workspace_bytes;
  return result;
}

}  // namespace

OpKindInfo dispatch_kind() {
  return {.name = "dispatch",
          .source = "derivatives.yaml: index, masked_fill",
          .min_inputs = 2,
          .max_inputs = 2,
          .integer_inputs = {1},
          .attributes = {AttributeKey::kExperts, AttributeKey::kImbalance, AttributeKey::kCapacity},
          .required = {AttributeKey::kExperts},
          .derive = derive_dispatch};
}

OpKindInfo take_kind() {
  return {.name = "take",
          .source = "derivatives.yaml: index",
          .min_inputs = 2,
          .max_inputs = 2,
          .integer_inputs = {1},
          .derive = derive_take};
}

OpKindInfo expert_linear_kind() {
  return {.name = "expert_linear",
          .source = "derivatives.yaml: _grouped_mm, index",
          .min_inputs = 2,
          .max_inputs = 3,
          .integer_inputs = {1, 2},
          .attributes = {AttributeKey::kExperts, AttributeKey::kWidth, AttributeKey::kBias},
          .required = {AttributeKey::kExperts, AttributeKey::kWidth},
          .parameters = expert_parameters,
          .derive = derive_expert_linear};
}

OpKindInfo combine_kind() {
  return {.name = "combine",
          .source = "derivatives.yaml: index, sum",
          .min_inputs = 2,
          .max_inputs = 2,
          .integer_inputs = {1},
          .attributes = {AttributeKey::kExperts},
          .derive = derive_combine};
}

}  // namespace cairn
