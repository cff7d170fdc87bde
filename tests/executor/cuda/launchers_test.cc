// What nvcc made; left out with it.

#include "executor/cuda/launchers.h"

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "executor/functors/list.h"

namespace cairn {
namespace {

TEST_CASE("every functor has a launcher of its own") {
  std::set<Launcher> launchers;
  for (std::size_t place = 0; place < AllFunctors::kCount; ++place) {
    launchers.insert(launcher_of(static_cast<int>(place)));
  }
  CHECK(launchers.count(nullptr) == 0);
  CHECK(launchers.size() == AllFunctors::kCount);
}

template <class Number>
Number number_at(const std::string& bytes, std::size_t at) {
  Number number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

// The code of nvcc's container ("fat binary") at `begin`, as "sm_80" or "compute_80". Its layout is
// not documented; cuobjdump reads the same.
std::set<std::string> code_of(const std::string& bytes, std::size_t begin) {
  constexpr std::uint16_t kPtx = 1;
  constexpr std::uint16_t kMachineCode = 2;
  std::set<std::string> code;
  std::size_t at = begin + number_at<std::uint16_t>(bytes, begin + 6);
  const std::size_t end = at + number_at<std::uint64_t>(bytes, begin + 8);
  while (end <= bytes.size() && at + 64 <= end) {
    const auto kind = number_at<std::uint16_t>(bytes, at);
    if (kind != kPtx && kind != kMachineCode) return {};
    code.insert((kind == kPtx ? "compute_" : "sm_") +
                std::to_string(number_at<std::uint32_t>(bytes, at + 28)));
    at += number_at<std::uint32_t>(bytes, at + 4) + number_at<std::uint64_t>(bytes, at + 8);
  }
  return code;
}

TEST_CASE("this program holds code for sm_80 and sm_90, and PTX for what is newer, twice") {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const std::string magic = "\x50\xED\x55\xBA";
  int containers = 0;
  for (std::size_t at = bytes.find(magic); at != std::string::npos && at + 16 < bytes.size();
       at = bytes.find(magic, at + 4)) {
    if (code_of(bytes, at) == std::set<std::string>{"compute_80", "sm_80", "sm_90"}) ++containers;
  }
  CHECK(containers == 2);
}

}  // namespace
}  // namespace cairn
