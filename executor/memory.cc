#include "executor/memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/grouped_text.h"

namespace cairn {

namespace {
constexpr std::uint8_t kPoison = 0xFF;  // a NaN of fp32, bf16 and fp64; -1 of an integer
}  // namespace

std::shared_ptr<Block> Memory::allocate(std::int64_t bytes) {
  if (limit_bytes_ && bytes > *limit_bytes_ - live_bytes_) {
    throw MemoryLimitError(fmt::format("{} bytes do not fit: {} of the limit of {} are live",
                                       grouped_text(bytes), grouped_text(live_bytes_),
                                       grouped_text(*limit_bytes_)));
  }
  auto block = std::make_unique<Block>();
  block->data = device_.allocate(std::max<std::int64_t>(bytes, 1));
  block->bytes = bytes;
  live_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, live_bytes_);
  return {block.release(), [this](Block* freed) { release(freed); }};
}

Array Memory::make(DataType type, const Shape& shape, std::int64_t tail_bytes) {
  Array array{
      .type = type, .shape = shape, .strides = dense_strides(shape), .tail_bytes = tail_bytes};
  array.block = allocate(element_count(array) * bytes_per_element(type) + tail_bytes);
  return array;
}

Array Memory::make_zeros(DataType type, const Shape& shape) {
  Array array = make(type, shape);
  device_.fill(array.block->data, 0, array.block->bytes);
  return array;
}

void Memory::release(Block* block) noexcept {
  if (poisons_) device_.fill(block->data, kPoison, block->bytes);
  device_.release(block->data);
  live_bytes_ -= block->bytes;
  delete block;
}

}  // namespace cairn
