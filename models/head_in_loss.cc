#include "models/head_in_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/error.h"

namespace cairn {

HeadInLoss::HeadInLoss(const FamilyOp& loss, std::string choice)
    : loss_(loss), choice_(std::move(choice)) {}

bool HeadInLoss::takes(const FamilyOp& op, TensorId input, bool is_left_out) {
  const auto reads_logits = [&](const std::string& name) {
    return std::find(names_.begin(), names_.end(), name) != names_.end();
  };
  if (&op == &loss_) return false;
  if (std::none_of(op.inputs.begin(), op.inputs.end(), reads_logits)) {
    const bool is_head = linear_ == nullptr && !is_left_out && op.is_logits && op.kind != nullptr &&
                         op.kind->name == "linear";
    if (!is_head) return false;
    linear_ = &op;
    input_ = input;
  } else if (!is_left_out) {
    if (!op.is_cap) {
      fail_at(*op.document, op.position,
              fmt::format("op '{}': it reads the logits, which the loss '{}' never makes whole",
                          op.name, choice_));
    }
    cap_ = &op;
  }
  names_.push_back(op.output_names.empty() ? op.name : op.output_names[0]);
  return true;
}

const FamilyOp& HeadInLoss::linear() const {
  const bool reads_head = linear_ != nullptr &&
                          std::find(names_.begin(), names_.end(), loss_.inputs[0]) != names_.end();
  if (reads_head) return *linear_;
  fail_at(*loss_.document, loss_.position,
          fmt::format("op '{}': the loss '{}' has the head in itself, but no linear with "
                      "'logits: true' makes '{}'",
                      loss_.name, choice_, loss_.inputs[0]));
}

}  // namespace cairn
