#include "cli/gradient_hashes.h"

#include <algorithm>
#include <cstring>

namespace cairn {
namespace {

// The finaliser of splitmix64 (Steele, Lea and Flood 2014): a bijection of 64 bits.
std::uint64_t mixed(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBU;
  return bits ^ (bits >> 31);
}

}  // namespace

void add_to_hash(const GradientSeen& seen, GradientHashes& hashes) {
  auto& [a, b] = hashes[seen.parameter];
  for (std::size_t i = 0; i < seen.bytes.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, seen.bytes.data() + i, std::min(sizeof(word), seen.bytes.size() - i));
    a = mixed(a ^ word) + 0x9E3779B97F4A7C15U;
    b = mixed(b + word) ^ 0xD1B54A32D192ED03U;
  }
}

}  // namespace cairn
