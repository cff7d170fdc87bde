#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/optimizer_rule.h"
#include "graph/training_step.h"

namespace cairn {

// What an optimizer keeps and makes for each parameter when it loops so (torch.optim makes its
// states like the parameter). Throws InputError for an unknown name, or a loop it does not have.
OptimizerRule optimizer_rule(std::string_view name, OptimizerLoop loop);

// Throws InputError for an unknown name.
OptimizerLoop parse_optimizer_loop(std::string_view text);

std::vector<std::string> optimizer_names();
std::vector<std::string> optimizer_loop_names();

}  // namespace cairn
