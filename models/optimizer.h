#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

// Tensors an optimizer keeps for each parameter, of the parameter's type and shape (torch.optim
// makes its states like the parameter). Throws InputError for an unknown name.
std::int64_t optimizer_state_count(std::string_view name);

std::vector<std::string> optimizer_names();

}  // namespace cairn
