#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "models/family.h"

// The head that a loss takes into itself: the linear whose output is marked `logits`, a cap of the
// logits, and what an untrue `if` leaves out between them and the loss. None of these becomes an
// op; their names stand for the head's input, which the loss reads.

namespace cairn {

class HeadInLoss {
 public:
  // `loss` is the family's last op; `choice` names its implementation in errors.
  HeadInLoss(const FamilyOp& loss, std::string choice);

  // Whether the op is part of the head. `input` is what its first input's name stands for, and
  // `is_left_out` says that its condition is false. Throws InputError for an op that reads logits
  // that are never made.
  bool takes(const FamilyOp& op, TensorId input, bool is_left_out);

  // What the head's parameters belong to. Throws InputError where no linear made the loss's logits.
  const FamilyOp& linear() const;
  TensorId input() const { return input_; }
  // The cap of the logits, or nullptr.
  const FamilyOp* cap() const { return cap_; }

 private:
  const FamilyOp& loss_;
  std::string choice_ = {};
  const FamilyOp* linear_ = nullptr;
  TensorId input_ = kNoTensor;
  const FamilyOp* cap_ = nullptr;
  std::vector<std::string> names_ = {};  // that would stand for logits
};

}  // namespace cairn
