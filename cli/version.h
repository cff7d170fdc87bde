#pragma once

#include <string_view>

namespace cairn {

inline constexpr std::string_view kVersion = CAIRN_VERSION;  // the build defines it for cli/

}  // namespace cairn
