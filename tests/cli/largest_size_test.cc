#include "cli/largest_size.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace cairn {
namespace {

// A peak that states hold up to some size, and two kinds of activations beyond.
std::int64_t peak_of(std::int64_t size) {
  return std::max({1000 + size, 7 * size, 9 * size - 500});
}

LargestSize ask(std::int64_t fits, std::int64_t capacity_bytes, int evaluations) {
  int left = evaluations;
  return largest_size_that_fits({.fits = {.size = fits, .peak_bytes = peak_of(fits)},
                                 .most_size = 1 << 20,
                                 .capacity_bytes = capacity_bytes},
                                left, peak_of);
}

TEST_CASE("the largest size is found in twelve evaluations, also from a flat start") {
  for (const std::int64_t capacity : {1010, 1175, 1200, 2000, 9999, 123456, 5000000}) {
    for (const std::int64_t fits : {1, 3, 8}) {
      CAPTURE(capacity);
      CAPTURE(fits);
      const LargestSize found = ask(fits, capacity, 12);
      CHECK(found.is_largest);
      CHECK(peak_of(found.size) <= capacity);
      CHECK(peak_of(found.size + 1) > capacity);
      CHECK(found.peak_bytes == peak_of(found.size));
    }
  }
}

TEST_CASE("when evaluations end, what was found fits and is not called the largest") {
  const LargestSize found = ask(1, 123456, 2);
  CHECK(!found.is_largest);
  CHECK(peak_of(found.size) <= 123456);
}

TEST_CASE("a smaller size between nothing and what does not fit") {
  int left = 12;
  const SizeQuestion question{.fits = {.size = 0, .peak_bytes = 1000},
                              .too_large = SizePeak{.size = 512, .peak_bytes = peak_of(512)},
                              .most_size = 512,
                              .capacity_bytes = 1300};
  CHECK(largest_size_that_fits(question, left, peak_of).size == 185);
  left = 12;
  SizeQuestion impossible = question;
  impossible.capacity_bytes = 900;
  CHECK(largest_size_that_fits(impossible, left, peak_of).size == 0);
}

TEST_CASE("a peak that is unknown does not fit") {
  int left = 12;
  const auto up_to_100 = [](std::int64_t size) {
    return size <= 100 ? std::optional<std::int64_t>(10) : std::nullopt;
  };
  const LargestSize found = largest_size_that_fits(
      {.fits = {.size = 1, .peak_bytes = 10}, .most_size = 1 << 20, .capacity_bytes = 20}, left,
      up_to_100);
  CHECK(found.size == 100);
  CHECK(found.is_largest);
}

}  // namespace
}  // namespace cairn
