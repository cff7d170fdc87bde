#include <fmt/format.h>

#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

// Columns of a wider tensor of zeros, and which they are.

namespace cairn {
namespace {

// A number for each column of x, of which it takes nothing else.
OpDerivation derive_indices(const OpContext& op) {
  return {.outputs = {{.data_type = DataType::kInt64, .shape = {last_dim(op, *op.inputs[0])}}},
          .forward = memory_bound_cost()};
}

std::vector<TensorSketch> stored_indices_parameters(const OpContext& op) {
  return {{.suffix = "index",
           .data_type = DataType::kInt64,
           .shape = {last_dim(op, *op.inputs[0])},
           .is_stored = true,
           .is_buffer = true}};
}

// Zeros [..., width], over whose columns those of x are written (torch.index_copy along the last
// dim): saves x, of which Backward wants the shape, and the indices (derivatives.yaml: index_copy).
// Not in place the zeros are there beside what is made of them.
OpDerivation derive_index_copy(const OpContext& op) {
  const Tensor& source = *op.inputs[0];
  const Tensor& index = *op.inputs[1];
  const std::int64_t columns = last_dim(op, source);
  if (index.shape != Shape{columns}) {
    refuse(op, fmt::format("'{}' must be [{}], found {}", index.name, columns,
                           shape_text(index.shape)));
  }
  const std::int64_t width = op.attributes.width;
  if (width < columns) {
    refuse(op, fmt::format("{} columns of '{}' do not fit in {}", columns, source.name, width));
  }
  OpDerivation result{
      .outputs = {{.data_type = source.data_type, .shape = with_last_dim(source.shape, width)}},
      .forward = memory_bound_cost(),
      .backward = memory_bound_cost()};
  if (source.requires_grad) result.saved.inputs = {0, 1};
  if (!op.attributes.in_place) {
    result.workspace_bytes =
        product(op, {row_count(op, source), width, bytes_per_element(source.data_type)});
  }
  result.forward.kernel_count = op.attributes.in_place ? 2 : 3;
  return result;
}

}  // namespace

OpKindInfo indices_kind() {
  return {.name = "indices",
          .source = "torch.tensor",
          .is_detached = true,
          .derive = derive_indices,
          .autocast = AutocastList::kNone};
}

OpKindInfo stored_indices_kind() {
  return {.name = "stored_indices",
          .source = "derivatives.yaml: clone",
          .is_detached = true,
          .parameters = stored_indices_parameters,
          .derive = derive_indices,
          .autocast = AutocastList::kNone};
}

OpKindInfo index_copy_kind() {
  return {.name = "index_copy",
          .source = "derivatives.yaml: index_copy",
          .min_inputs = 2,
          .max_inputs = 2,
          .integer_inputs = {1},
          .attributes = {AttributeKey::kWidth, AttributeKey::kInPlace},
          .required = {AttributeKey::kWidth},
          .derive = derive_index_copy,
          .autocast = AutocastList::kNone};
}

}  // namespace cairn
