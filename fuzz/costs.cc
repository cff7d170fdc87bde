#include <cstddef>
#include <cstdint>

#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t byte_count) {
  cairn::fuzz::costs({reinterpret_cast<const char*>(data), byte_count});
  return 0;
}
