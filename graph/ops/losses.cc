#include <fmt/format.h>

#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

namespace cairn {
namespace {

TensorSketch scalar_loss() { return {.data_type = DataType::kFloat32, .shape = {1}}; }

// One label for each row of classes, or for each pixel of [batch, classes, height, width].
void check_labels(const OpContext& op) {
  const Tensor& logits = *op.inputs[0];
  const Tensor& labels = *op.inputs[1];
  const std::int64_t predictions = logits.shape.size() == 4
                                       ? element_count(logits.shape, logits.name) / logits.shape[1]
                                       : row_count(op, logits);
  if (predictions != element_count(labels.shape, labels.name)) {
    refuse(op, fmt::format("labels {} do not match logits {}", shape_text(labels.shape),
                           shape_text(logits.shape)));
  }
}

// Softmax and loss in one, as Megatron-LM's cross_entropy.py: an fp32 copy of the logits is turned
// into the softmax in place, saved, and turned into its gradient in place: 4 bytes a logit beside
// the logits themselves.
OpDerivation derive_cross_entropy(const OpContext& op) {
  check_labels(op);
  return {.outputs = {scalar_loss()},
          .auxiliaries = {{.suffix = "softmax",
                           .data_type = DataType::kFloat32,
                           .shape = op.inputs[0]->shape}},
          .saved = {.inputs = {1}, .auxiliaries = {0}},
          .forward = memory_bound_cost(),
          .backward = memory_bound_cost()};
}

// Loss and gradient in one, as liger-kernel 0.8.5 (ops/cross_entropy.py): forward already writes
// the gradient over the logits, which are saved as that. A loss a row, before their sum.
OpDerivation derive_cross_entropy_in_place(const OpContext& op) {
  check_labels(op);
  const Tensor& logits = *op.inputs[0];
  return {
      .outputs = {scalar_loss()},
      .saved = {.inputs = {0}},
      .gradient_places = {{.input = 0}},
      .workspace_bytes = product(op, {row_count(op, logits), bytes_per_element(logits.data_type)}),
      .forward = {.moved_bytes = product(op, {2, logits.bytes})},
      .backward = memory_bound_cost()};
}

// torch derivatives.yaml: nll_loss saves its input and the target.
OpDerivation derive_nll_loss(const OpContext& op) {
  check_labels(op);
  return {.outputs = {scalar_loss()},
          .saved = {.inputs = {0, 1}},
          .forward = memory_bound_cost(),
          .backward = memory_bound_cost()};
}

// The upcast, log-softmax and loss of torch.nn.functional.cross_entropy as one torch.compile
// region: of a row its fp32 maximum and the logarithm of its sum are kept beside the logits, from
// which Backward makes their gradient in one kernel.
OpDerivation derive_cross_entropy_compiled(const OpContext& op) {
  check_labels(op);
  const Tensor& logits = *op.inputs[0];
  Shape rows = logits.shape;
  rows.back() = 1;
  return {.outputs = {scalar_loss()},
          .auxiliaries = {{.suffix = "maximum", .data_type = DataType::kFloat32, .shape = rows},
                          {.suffix = "log_sum", .data_type = DataType::kFloat32, .shape = rows}},
          .saved = {.inputs = {0, 1}, .auxiliaries = {0, 1}},
          .forward = memory_bound_cost(),
          .backward = memory_bound_cost()};
}

}  // namespace

OpKindInfo cross_entropy_compiled_kind() {
  return {.name = "cross_entropy_compiled",
          .source = "torch 2.13 _functorch/partitioners.py",
          .min_inputs = 2,
          .max_inputs = 2,
          .integer_inputs = {1},
          .derive = derive_cross_entropy_compiled};
}

OpKindInfo cross_entropy_kind() {
  return {.name = "cross_entropy",
          .source = "Megatron-LM cross_entropy.py",
          .min_inputs = 2,
          .max_inputs = 2,
          .integer_inputs = {1},
          .derive = derive_cross_entropy};
}

OpKindInfo cross_entropy_in_place_kind() {
  return {.name = "cross_entropy_in_place",
          .source = "liger-kernel 0.8.5 ops/cross_entropy.py",
          .min_inputs = 2,
          .max_inputs = 2,
          .integer_inputs = {1},
          .derive = derive_cross_entropy_in_place};
}

OpKindInfo nll_loss_kind() {
  return {.name = "nll_loss",
          .source = "derivatives.yaml: nll_loss_forward, nll_loss2d_forward",
          .min_inputs = 2,
          .max_inputs = 2,
          .integer_inputs = {1},
          .derive = derive_nll_loss,
          .autocast = AutocastList::kFloat32};
}

}  // namespace cairn
