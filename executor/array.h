#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "executor/device.h"
#include "executor/functors/elements.h"
#include "graph/graph.h"

// A tensor in device memory: some elements of a block, by shape and strides. Several arrays may
// share a block, as tensors of PyTorch share a storage; the block lives as long as one of them.

namespace cairn {

// What a schedule asks for cannot be done: what a step reads is not there.
class ScheduleFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A block of device memory; made by Memory, which counts it (executor/memory.h).
struct Block {
  void* data = nullptr;
  std::int64_t bytes = 0;
  std::int64_t holders = 0;  // tensors and gradients that are arrays of it (executor/holders.h)
};

struct Array {
  std::shared_ptr<Block> block = {};
  DataType type = DataType::kFloat32;
  std::int64_t first = 0;  // the element of the block where the array begins
  Shape shape = {};
  Shape strides = {};           // in elements
  std::int64_t tail_bytes = 0;  // behind the elements, where only a number of bytes is known

  bool is_there() const { return block != nullptr; }
};

std::int64_t element_count(const Array& array);
std::int64_t row_count(const Array& array);  // of the last dim
std::int64_t last_dim(const Array& array);
bool is_dense(const Array& array);
void* first_element(const Array& array);

// The strides of a dense array of that shape.
Shape dense_strides(const Shape& shape);

// Another array of the same elements: of another shape, without two of the dims swapped, a part of
// one dim, or repeated along dims of extent 1 to fill `shape`. `reshaped` asks that the dims it
// joins lie one in another in memory.
Array reshaped(const Array& array, Shape shape);
// The same where the dims that it joins lie one in another, else nothing.
std::optional<Array> try_reshaped(const Array& array, Shape shape);
Array rows_of(const Array& array);  // [rows, last dim]
Array with_dims_swapped(Array array, std::size_t a, std::size_t b);
Array with_channels_last(Array image);  // [batch, height, width, channels]
Array part_of_dim(Array array, std::size_t dim, std::int64_t begin, std::int64_t extent);
Array broadcast(const Array& array, const Shape& shape);

// Heads. Of a part of each head, [batch, tokens, heads * width], no strides tell the elements; such
// an array keeps its heads as a dim, [batch, tokens, heads, width], with the same elements in the
// same order. What takes heads reads both.
Array by_head(const Array& array, std::int64_t heads);
// Whether the shapes differ in no more than whether heads are a dim.
bool has_same_shape(const Array& a, const Array& b);
// Without that dim, where strides allow.
Array with_heads_joined(const Array& array);

// Throws ScheduleFault for an array that is not there.
Elements elements(const Array& array);

// Its elements on the host, dense, in row-major order.
std::vector<std::uint8_t> host_bytes(Device& device, const Array& array);

}  // namespace cairn
