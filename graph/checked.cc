#include "graph/checked.h"

#include <fmt/format.h>

#include "graph/error.h"

namespace cairn {

std::int64_t checked_add(std::int64_t a, std::int64_t b, const std::string& what) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    throw InputError(fmt::format("{}: {} + {} does not fit in 63 bits", what, a, b));
  }
  return sum;
}

std::int64_t checked_multiply(std::int64_t a, std::int64_t b, const std::string& what) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    throw InputError(fmt::format("{}: {} x {} does not fit in 63 bits", what, a, b));
  }
  return product;
}

}  // namespace cairn
