#include "executor/array.h"

#include <utility>

#include "graph/error.h"

namespace cairn {

std::int64_t element_count(const Array& array) {
  std::int64_t count = 1;
  for (const std::int64_t extent : array.shape) count *= extent;
  return count;
}

std::int64_t last_dim(const Array& array) { return array.shape.back(); }

std::int64_t row_count(const Array& array) { return element_count(array) / last_dim(array); }

Shape dense_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t dim = shape.size(); dim-- > 1;) strides[dim - 1] = strides[dim] * shape[dim];
  return strides;
}

bool is_dense(const Array& array) {
  std::int64_t expected = 1;
  for (std::size_t dim = array.shape.size(); dim-- > 0;) {
    if (array.shape[dim] != 1 && array.strides[dim] != expected) return false;
    expected *= array.shape[dim];
  }
  return true;
}

void* first_element(const Array& array) {
  if (!array.is_there()) throw ScheduleFault("it reads a tensor that nothing keeps for it");
  const std::int64_t bytes = array.first * bits_per_element(array.type) / 8;
  return static_cast<std::uint8_t*>(array.block->data) + bytes;
}

// Each dim of the new shape takes the innermost dims that are left, whole or a factor of one.
std::optional<Array> try_reshaped(const Array& array, Shape shape) {
  Array result = array;
  result.strides.assign(shape.size(), 1);
  std::size_t old_dim = array.shape.size();
  std::int64_t left = 1;  // of the extent of old_dim
  std::int64_t stride = 1;
  for (std::size_t dim = shape.size(); dim-- > 0;) {
    std::int64_t wanted = shape[dim];
    bool is_first = true;
    while (wanted > 1) {
      if (left == 1) {
        CAIRN_CHECK(old_dim > 0, "a shape of more elements than the array");
        --old_dim;
        const std::int64_t next = array.strides[old_dim];
        if (array.shape[old_dim] == 1) continue;
        if (!is_first && next != stride) return std::nullopt;
        left = array.shape[old_dim];
        stride = next;
      }
      if (is_first) result.strides[dim] = stride;
      is_first = false;
      const std::int64_t taken = wanted >= left ? left : wanted;
      CAIRN_CHECK(left % taken == 0 && wanted % taken == 0, "the dims do not fit in each other");
      wanted /= taken;
      left /= taken;
      stride *= taken;
    }
  }
  result.shape = std::move(shape);
  CAIRN_CHECK(element_count(result) == element_count(array), "a reshape of other elements");
  return result;
}

Array reshaped(const Array& array, Shape shape) {
  std::optional<Array> result = try_reshaped(array, std::move(shape));
  CAIRN_CHECK(result.has_value(), "dims that do not lie one in another are joined");
  return *std::move(result);
}

Array by_head(const Array& array, std::int64_t heads) {
  if (array.shape.size() == 4) {
    CAIRN_CHECK(array.shape[2] == heads, "an array of other heads");
    return array;
  }
  Shape shape = array.shape;
  CAIRN_CHECK(shape.back() % heads == 0, "a width that does not divide into heads");
  shape.back() = heads;
  shape.push_back(last_dim(array) / heads);
  return reshaped(array, std::move(shape));
}

bool has_same_shape(const Array& a, const Array& b) {
  if (a.shape.size() == b.shape.size()) return a.shape == b.shape;
  const Shape& longer = a.shape.size() > b.shape.size() ? a.shape : b.shape;
  const Shape& shorter = a.shape.size() > b.shape.size() ? b.shape : a.shape;
  return longer.size() == 4 && shorter == Shape{longer[0], longer[1], longer[2] * longer[3]};
}

Array with_heads_joined(const Array& array) {
  Shape shape(array.shape.begin(), array.shape.end() - 1);
  shape.back() *= last_dim(array);
  return try_reshaped(array, std::move(shape)).value_or(array);
}

Array rows_of(const Array& array) { return reshaped(array, {row_count(array), last_dim(array)}); }

Array with_dims_swapped(Array array, std::size_t a, std::size_t b) {
  std::swap(array.shape[a], array.shape[b]);
  std::swap(array.strides[a], array.strides[b]);
  return array;
}

Array with_channels_last(Array image) {
  return with_dims_swapped(with_dims_swapped(std::move(image), 1, 2), 2, 3);
}

Array part_of_dim(Array array, std::size_t dim, std::int64_t begin, std::int64_t extent) {
  CAIRN_CHECK(begin >= 0 && begin + extent <= array.shape[dim], "a part outside of its dim");
  array.first += begin * array.strides[dim];
  array.shape[dim] = extent;
  return array;
}

Array broadcast(const Array& array, const Shape& shape) {
  CAIRN_CHECK(array.shape.size() <= shape.size(), "a broadcast to fewer dims");
  Array result = array;
  result.shape = shape;
  result.strides.assign(shape.size(), 0);
  const std::size_t missing = shape.size() - array.shape.size();
  for (std::size_t dim = 0; dim < array.shape.size(); ++dim) {
    if (array.shape[dim] == shape[missing + dim]) {
      result.strides[missing + dim] = array.strides[dim];
    } else {
      CAIRN_CHECK(array.shape[dim] == 1, "a broadcast of a dim that is not 1");
    }
  }
  return result;
}

Elements elements(const Array& array) {
  if (!array.is_there()) throw ScheduleFault("it reads a tensor that nothing keeps for it");
  CAIRN_CHECK(array.shape.size() <= static_cast<std::size_t>(kMaxRank), "too many dims");
  Elements result{.data = first_element(array),
                  .type = array.type,
                  .is_dense = is_dense(array),
                  .rank = static_cast<int>(array.shape.size())};
  for (std::size_t dim = 0; dim < array.shape.size(); ++dim) {
    result.shape[dim] = array.shape[dim];
    result.strides[dim] = array.strides[dim];
  }
  return result;
}

std::vector<std::uint8_t> host_bytes(Device& device, const Array& array) {
  std::vector<std::uint8_t> block(static_cast<std::size_t>(array.block->bytes));
  device.copy_out(block.data(), array.block->data, array.block->bytes);
  Elements seen = elements(array);
  const std::int64_t item = bytes_per_element(array.type);
  std::vector<std::uint8_t> bytes;
  for (std::int64_t i = 0; i < element_count(array); ++i) {
    const auto from = block.begin() + (array.first + seen.position(i)) * item;
    bytes.insert(bytes.end(), from, from + item);
  }
  return bytes;
}

}  // namespace cairn
