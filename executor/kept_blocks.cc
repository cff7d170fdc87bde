#include "executor/kept_blocks.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace cairn {

namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPageBytes = 4096;
// Blocks of so many bytes are pages of their own: glibc's own threshold rises to 32 MiB, and of
// what is below it nothing goes back to the system (mallopt(3), M_MMAP_THRESHOLD).
constexpr std::size_t kOwnPagesBytes = std::size_t{1} << 20;

}  // namespace

KeptBlocks::KeptBlocks() { mallopt(M_MMAP_THRESHOLD, static_cast<int>(kOwnPagesBytes)); }

void* KeptBlocks::allocate(std::size_t bytes) {
  const std::size_t rounded =
      (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  void* data = take(rounded);
  if (data == nullptr) {
    while (!kept_.empty() && live_bytes_ + kept_bytes_ + rounded > most_live_bytes_) free_oldest();
    data = std::aligned_alloc(kAlignment, rounded);
    if (data == nullptr) return nullptr;
  }
  live_bytes_ += malloc_usable_size(data);
  most_live_bytes_ = std::max(most_live_bytes_, live_bytes_);
  return data;
}

void KeptBlocks::release(void* data) noexcept {
  const std::size_t bytes = malloc_usable_size(data);
  live_bytes_ -= bytes;
  if (bytes < kOwnPagesBytes) {
    std::free(data);
    return;
  }
  kept_.push_back({data, bytes});
  places_.emplace(bytes, std::prev(kept_.end()));
  kept_bytes_ += bytes;
}

void KeptBlocks::free_kept() noexcept {
  while (!kept_.empty()) free_oldest();
  most_live_bytes_ = live_bytes_;
}

void* KeptBlocks::take(std::size_t bytes) noexcept {
  const auto found = places_.lower_bound(bytes);
  if (found == places_.end() || found->first > bytes + 2 * kPageBytes) return nullptr;
  void* const data = found->second->data;
  kept_bytes_ -= found->first;
  kept_.erase(found->second);
  places_.erase(found);
  return data;
}

void KeptBlocks::free_oldest() noexcept {
  const Place oldest = kept_.begin();
  auto place = places_.lower_bound(oldest->bytes);
  while (place->second != oldest) ++place;
  places_.erase(place);
  kept_bytes_ -= oldest->bytes;
  std::free(oldest->data);
  kept_.erase(oldest);
}

}  // namespace cairn
