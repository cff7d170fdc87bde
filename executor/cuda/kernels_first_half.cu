#include "executor/cuda/kernel.cuh"

namespace cairn {
namespace {

constexpr auto kLaunchers = launchers_from<0>(std::make_index_sequence<kFirstHalf>());

}  // namespace

Launcher launcher_of(int place) {
  const auto at = static_cast<std::size_t>(place);
  return at < kFirstHalf ? kLaunchers[at] : launcher_of_second_half(at - kFirstHalf);
}

}  // namespace cairn
