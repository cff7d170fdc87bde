#pragma once

#include <type_traits>

#include "executor/device.h"
#include "executor/functors/list.h"

// Hands a functor to a device.

namespace cairn {

template <class Functor>
void launch(Device& device, std::int64_t count, const Functor& functor) {
  static_assert(std::is_trivially_copyable_v<Functor>, "a functor is copied byte by byte");
  if (count > 0) device.launch(functor_place<Functor>(), &functor, count);
}

}  // namespace cairn
