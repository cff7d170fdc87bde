#include "executor/kept_blocks.h"

#include <doctest/doctest.h>

namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

TEST_CASE("a large block that was freed serves the next of its size") {
  cairn::KeptBlocks blocks;
  void* const first = blocks.allocate(2 * kMebibyte);
  void* const other = blocks.allocate(4 * kMebibyte);
  blocks.release(first);
  CHECK(blocks.kept_bytes() >= 2 * kMebibyte);
  CHECK(blocks.allocate(2 * kMebibyte) == first);
  CHECK(blocks.kept_bytes() == 0);
  blocks.release(first);
  blocks.release(other);
  CHECK(blocks.kept_bytes() >= 6 * kMebibyte);
  blocks.free_kept();
  CHECK(blocks.kept_bytes() == 0);
}

TEST_CASE("what is live and what is kept are no more together than what was once live") {
  cairn::KeptBlocks blocks;
  void* const large = blocks.allocate(4 * kMebibyte);
  blocks.release(large);
  void* const middle = blocks.allocate(3 * kMebibyte);  // with what is kept, 7 MiB
  CHECK(blocks.kept_bytes() == 0);
  blocks.release(middle);
  void* const small = blocks.allocate(kMebibyte / 2);
  CHECK(blocks.kept_bytes() >= 3 * kMebibyte);
  blocks.release(small);  // below 1 MiB: not kept
  CHECK(blocks.kept_bytes() < 3 * kMebibyte + kMebibyte / 2);
}

TEST_CASE("a kept block does not serve another size, and the oldest makes room for it") {
  cairn::KeptBlocks blocks;
  void* const first = blocks.allocate(2 * kMebibyte);
  void* const second = blocks.allocate(4 * kMebibyte);
  blocks.release(first);
  blocks.release(second);
  void* const other = blocks.allocate(3 * kMebibyte / 2);
  CHECK(blocks.kept_bytes() >= 4 * kMebibyte);
  CHECK(blocks.kept_bytes() < 5 * kMebibyte);
  blocks.release(other);
}

}  // namespace
