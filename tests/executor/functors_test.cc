#include <doctest/doctest.h>

#include <type_traits>

#include "executor/functors/list.h"

namespace cairn {
namespace {

// Up to CUDA 12.0 a kernel takes 4 KiB of parameters; the number of indices is one of them.
constexpr std::size_t kMostBytes = 4096 - sizeof(std::int64_t);

template <class... Functors>
bool are_launchable(FunctorList<Functors...> /*all*/) {
  return ((std::is_trivially_copyable_v<Functors> && sizeof(Functors) <= kMostBytes) && ...);
}

template <class... Functors>
bool have_their_place(FunctorList<Functors...> /*all*/) {
  int place = 0;
  return ((functor_place<Functors>() == place++) && ...);
}

TEST_CASE("every functor can be copied byte by byte into a kernel's parameters") {
  CHECK(are_launchable(AllFunctors{}));
  CHECK_FALSE(are_launchable(FunctorList<char[kMostBytes + 1]>{}));
}

TEST_CASE("a functor is in the list once") { CHECK(have_their_place(AllFunctors{})); }

}  // namespace
}  // namespace cairn
