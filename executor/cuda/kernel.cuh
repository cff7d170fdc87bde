#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "executor/cuda/launchers.h"
#include "executor/functors/list.h"

// The one kernel there is: a functor, called by a grid of threads. The functors are compiled in two
// halves, so that two cores can work at once.

namespace cairn {

constexpr int kThreads = 128;                      // of a block
constexpr std::int64_t kMostBlocks = 65536;        // more than any GPU runs at once
constexpr std::size_t kMostParameterBytes = 4096;  // of a kernel, up to CUDA 12.0 on every GPU

template <class Functor>
__global__ void __launch_bounds__(kThreads)
    call_functor(const __grid_constant__ Functor functor, std::int64_t count) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += stride) {
    functor(i);
  }
}

template <class Functor>
int launch_functor(const void* functor, std::int64_t count, void* stream) {
  static_assert(std::is_trivially_copyable_v<Functor>, "a functor is copied byte by byte");
  static_assert(sizeof(Functor) + sizeof(count) <= kMostParameterBytes, "a kernel's parameters");
  const std::int64_t blocks = std::min((count + kThreads - 1) / kThreads, kMostBlocks);
  call_functor<Functor>
      <<<static_cast<unsigned>(blocks), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
          *static_cast<const Functor*>(functor), count);
  return cudaGetLastError();
}

template <class List>
struct FunctorTypes;
template <class... Functors>
struct FunctorTypes<FunctorList<Functors...>> {
  template <std::size_t kPlace>
  using At = std::tuple_element_t<kPlace, std::tuple<Functors...>>;
};

// Of the places from kBegin on.
template <std::size_t kBegin, std::size_t... kPlaces>
constexpr std::array<Launcher, sizeof...(kPlaces)> launchers_from(
    std::index_sequence<kPlaces...> /*places*/) {
  return {launch_functor<typename FunctorTypes<AllFunctors>::template At<kBegin + kPlaces>>...};
}

constexpr std::size_t kFirstHalf = AllFunctors::kCount / 2;

Launcher launcher_of_second_half(std::size_t place);  // counted from its begin

}  // namespace cairn
