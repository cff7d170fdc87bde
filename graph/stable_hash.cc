#include "graph/stable_hash.h"

namespace cairn {

void StableHash::put_byte(std::uint64_t byte) {
  constexpr std::uint64_t kPrime = 0x100000001b3;
  value_ = (value_ ^ byte) * kPrime;
}

void StableHash::put(std::int64_t number) {
  const auto bits = static_cast<std::uint64_t>(number);
  for (int shift = 0; shift < 64; shift += 8) put_byte((bits >> shift) & 0xff);
}

void StableHash::put(std::string_view text) {
  put(static_cast<std::int64_t>(text.size()));
  for (const char character : text) put_byte(static_cast<unsigned char>(character));
}

}  // namespace cairn
