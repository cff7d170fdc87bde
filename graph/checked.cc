#include "graph/checked.h"

#include <fmt/format.h>

#include "graph/error.h"

namespace cairn {
namespace {

[[noreturn]] void fail_overflow(std::string_view what, std::string_view name, std::int64_t a,
                                char operation, std::int64_t b) {
  throw InputError(fmt::format("{}: {} {} {} does not fit in 63 bits",
                               fmt::format(fmt::runtime(what), name), a, operation, b));
}

}  // namespace

std::int64_t checked_add(std::int64_t a, std::int64_t b, std::string_view what,
                         std::string_view name) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) fail_overflow(what, name, a, '+', b);
  return sum;
}

std::int64_t checked_multiply(std::int64_t a, std::int64_t b, std::string_view what,
                              std::string_view name) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) fail_overflow(what, name, a, 'x', b);
  return product;
}

}  // namespace cairn
