// doctest's main, with one option of our own: --seed=N (see tests/seed.h).

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <charconv>
#include <cstdio>
#include <string_view>
#include <system_error>

#include "tests/executor/test_device.h"
#include "tests/seed.h"

namespace cairn {
namespace {

std::uint64_t seed = 1;

// Reads "--seed=N"; false when N is not a whole number of 64 bits.
bool read_seed(std::string_view argument) {
  constexpr std::string_view kOption = "--seed=";
  if (!argument.starts_with(kOption)) return true;
  const std::string_view digits = argument.substr(kOption.size());
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, seed);
  return error == std::errc() && stop == end;
}

}  // namespace

std::uint64_t test_seed() { return seed; }

}  // namespace cairn

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (!cairn::read_seed(argv[i])) {
      std::fprintf(stderr, "%s: expected --seed=N with N a whole number below 2^64\n", argv[i]);
      return 2;
    }
  }
  const int code = doctest::Context(argc, argv).run();
  std::fputs(cairn::twin_report().c_str(), stdout);
  return code;
}
