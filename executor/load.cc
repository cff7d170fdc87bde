#include "executor/load.h"

#include <algorithm>

#include "executor/kernel.h"
#include "graph/ops/op_kind.h"
#include "graph/stable_hash.h"

namespace cairn {
namespace {

constexpr double kDeviation = 0.02;  // of GPT-2's weights

std::int64_t integer_bound(const Graph& graph, TensorId id);

// Ids are below the rows of a table, labels below the classes: those of a head, of images the
// channels, else the last dim. Parts of labels are read by others.
std::int64_t bound_of_reader(const Graph& graph, const Op& op) {
  if (op.kind->name == "split_ids") {
    std::int64_t bound = integer_bound(graph, op.outputs[0]);
    for (const TensorId part : op.outputs) bound = std::min(bound, integer_bound(graph, part));
    return bound;
  }
  if (op.attributes.rows > 0) return op.attributes.rows;
  if (op.attributes.width > 0) return op.attributes.width;
  const Shape& shape = graph.tensor(op.inputs[0]).shape;
  return shape.size() == 4 ? shape[1] : shape.back();
}

std::int64_t integer_bound(const Graph& graph, TensorId id) {
  std::int64_t bound = 0;
  for (const Op& op : graph.ops) {
    for (const TensorId input : op.inputs) {
      if (input != id) continue;
      const std::int64_t found = bound_of_reader(graph, op);
      bound = bound == 0 ? found : std::min(bound, found);
    }
  }
  return std::max<std::int64_t>(bound, 1);
}

// A token of its own, such as that of ViT's classes: no scale, though it has one dim.
bool is_token(const Graph& graph, TensorId id) {
  return std::any_of(graph.ops.begin(), graph.ops.end(), [&](const Op& op) {
    return op.kind != nullptr && op.kind->name == "prepend_token" &&
           std::find(op.inputs.begin(), op.inputs.end(), id) != op.inputs.end();
  });
}

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

Array make(const Tensor& tensor, Memory& memory) {
  if (!tensor.shape.empty()) return memory.make(tensor.data_type, tensor.shape);
  return memory.make_bytes(tensor.bytes);
}

}  // namespace

Array load_tensor(const Graph& graph, TensorId id, Memory& memory, std::uint64_t seed) {
  const Tensor& tensor = graph.tensor(id);
  const Array array = make(tensor, memory);
  StableHash hash;
  hash.put(tensor.name);
  const std::uint64_t own_seed = seed ^ hash.value();
  Device& device = memory.device();
  if (!is_floating(array.type)) {
    launch(device, element_count(array),
           FillIntegers{elements(array), own_seed, integer_bound(graph, id)});
  } else if (tensor.shape.empty()) {
    launch(device, element_count(array), FillUniform{elements(array), own_seed});
  } else if (tensor.role == TensorRole::kParameter && tensor.shape.size() == 1 &&
             !is_token(graph, id)) {
    apply(memory, array, array, Constant{ends_with(tensor.name, "bias") ? 0.0 : 1.0});
  } else {
    with_real(array.type, [&](auto real) {
      launch(device, element_count(array),
             FillNormal<decltype(real)>{elements(array), own_seed, kDeviation});
    });
  }
  return array;
}

}  // namespace cairn
