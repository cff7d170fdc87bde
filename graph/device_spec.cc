#include "graph/device_spec.h"

namespace cairn {

std::int64_t capacity_bytes(const DeviceSpec& device) {
  std::int64_t bytes = device.total_bytes;
  for (const MemoryReserve& reserve : device.reserves) bytes -= reserve.bytes;
  return bytes < 0 ? 0 : bytes;
}

}  // namespace cairn
