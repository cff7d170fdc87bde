#pragma once

#include <memory>
#include <string_view>

#include "executor/device.h"

// The devices by the names that a user gives them.

namespace cairn {

// "cpu", "cuda" (the first GPU) or "cuda:N". Throws InputError for another name, and DeviceError,
// in one line, where this build or this machine has no such device.
std::unique_ptr<Device> make_device(std::string_view name);

}  // namespace cairn
