#pragma once

#include <cstdint>

#include "executor/device.h"
#include "executor/parameter_step.h"
#include "models/model_request.h"

// What `cairn run` refuses before it begins.

namespace cairn {

// Throws InputError for ways to train that the executor has no kernels for, naming those it has.
void check_runnable(const ModelRequest& request);

// Of a request that is runnable.
OptimizerSettings optimizer_settings(const ModelRequest& request);

// Throws DeviceError where the device has not so many bytes left; the message ends in `advice`.
void check_available(const Device& device, const std::string& plan, std::int64_t peak_bytes,
                     const std::string& advice);

}  // namespace cairn
