#pragma once

#include <cstdint>
#include <string>

namespace cairn {

// "8,030,261,248".
std::string grouped_text(std::int64_t number);

}  // namespace cairn
