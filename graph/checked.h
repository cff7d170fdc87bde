#pragma once

#include <cstdint>
#include <string>

// Exact 64-bit arithmetic on bytes, elements and FLOPs: an overflow is an InputError that names
// what was being computed, never a wrapped number. Operands are not negative.

namespace cairn {

std::int64_t checked_add(std::int64_t a, std::int64_t b, const std::string& what);
std::int64_t checked_multiply(std::int64_t a, std::int64_t b, const std::string& what);

}  // namespace cairn
