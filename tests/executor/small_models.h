#pragma once

#include <string>
#include <utility>
#include <vector>

#include "executor/workspaces.h"
#include "models/load_model.h"

// Models that a test can train.

namespace cairn {

// A GPT of about 60,000 parameters, with a vocabulary of bytes.
inline LoadedModel small_gpt(std::int64_t layers = 2, std::int64_t batch = 1) {
  LoadedModel model = load_model({.model = "gpt2",
                                  .batch = batch,
                                  .tokens = 32,
                                  .vocab = 256,
                                  .set = {{"layers", std::to_string(layers)},
                                          {"hidden", "32"},
                                          {"heads", "2"},
                                          {"max_tokens", "32"},
                                          {"attention_dropout", "0"}},
                                  .precision = find_precision("fp32")});
  model.graph = with_executor_workspaces(std::move(model.graph));
  return model;
}

}  // namespace cairn
