#pragma once

#include <cstdint>
#include <string_view>

// Exact 64-bit arithmetic on bytes, elements and FLOPs: an overflow is an InputError that names
// what was being computed, never a wrapped number. Operands are not negative. `{}` in `what` stands
// for `name`; the text is only put together when there is an error to report.

namespace cairn {

std::int64_t checked_add(std::int64_t a, std::int64_t b, std::string_view what,
                         std::string_view name = {});
std::int64_t checked_multiply(std::int64_t a, std::int64_t b, std::string_view what,
                              std::string_view name = {});

}  // namespace cairn
