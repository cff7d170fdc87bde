#include "executor/cuda/kernel.cuh"

namespace cairn {
namespace {

constexpr auto kLaunchers =
    launchers_from<kFirstHalf>(std::make_index_sequence<AllFunctors::kCount - kFirstHalf>());

}  // namespace

Launcher launcher_of_second_half(std::size_t place) { return kLaunchers[place]; }

}  // namespace cairn
