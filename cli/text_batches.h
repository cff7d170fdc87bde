#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "executor/executor.h"
#include "models/load_model.h"

// A text as what a language model is trained on: its bytes are token ids, and the label of each is
// the byte behind it.

namespace cairn {

class TextBatches {
 public:
  // Throws InputError for a file that cannot be read or is too short for one sample, and for a
  // model that takes no tokens or has fewer than 256 of them.
  TextBatches(const std::string& path, const LoadedModel& model);

  // The samples of a training step, from 0: each begins where the one before it ends, and the
  // text begins again where it ends.
  void load(Executor& executor, std::int64_t training_step) const;

 private:
  std::string text_ = {};
  TensorId ids_ = kNoTensor;
  TensorId labels_ = kNoTensor;
  TensorId positions_ = kNoTensor;
  std::int64_t batch_ = 0;
  std::int64_t tokens_ = 0;
};

}  // namespace cairn
