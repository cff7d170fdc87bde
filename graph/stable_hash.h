#pragma once

#include <cstdint>
#include <string_view>

namespace cairn {

// FNV-1a of 64 bits over what is put in, the same on every machine: docs/formats.md,
// "Fingerprints". It tells what was changed by accident, not what was forged.
class StableHash {
 public:
  void put(std::int64_t number);    // eight bytes, the lowest first
  void put(std::string_view text);  // its length as a number, then its bytes

  std::uint64_t value() const { return value_; }

 private:
  void put_byte(std::uint64_t byte);

  std::uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace cairn
