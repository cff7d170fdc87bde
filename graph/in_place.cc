#include "graph/in_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "graph/error.h"

namespace cairn {
namespace {

bool has_in_place(const Graph& graph) {
  return std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op& op) { return op.in_place; });
}

// Which op overwrote each storage last, and what is older than that.
class Overwrites {
 public:
  explicit Overwrites(const Graph& graph) : graph_(graph) {
    made_at_.assign(graph.tensors.size(), 0);
    written_at_.assign(graph.storages.size(), 0);
    writer_.assign(graph.storages.size(), kNoOp);
  }

  // Op number `position` of the order ran; positions count from 1.
  void run(OpId id, std::size_t position) {
    const Op& op = graph_.op(id);
    for (const TensorId output : op.outputs) made_at_[index(output)] = position;
    if (!op.in_place) return;
    const std::size_t storage = index(graph_.tensor(op.inputs[0]).storage);
    written_at_[storage] = position;
    writer_[storage] = id;
  }

  // The op that overwrote the value of `tensor`, or kNoOp.
  OpId overwriter_of(TensorId tensor) const {
    const std::size_t storage = index(graph_.tensor(tensor).storage);
    return written_at_[storage] > made_at_[index(tensor)] ? writer_[storage] : kNoOp;
  }

  // "op 'w' overwrites 'a'", or "..., the storage of 'v'" where it does so through another tensor.
  std::string text(OpId writer, TensorId tensor) const {
    const Op& op = graph_.op(writer);
    std::string what =
        fmt::format("op '{}' overwrites '{}'", op.name, graph_.tensor(op.inputs[0]).name);
    if (op.inputs[0] == tensor) return what;
    return fmt::format("{}, which shares its storage with '{}'", what, graph_.tensor(tensor).name);
  }

 private:
  const Graph& graph_;
  std::vector<std::size_t> made_at_ = {};     // by tensor; 0: before the first op
  std::vector<std::size_t> written_at_ = {};  // by storage; 0: never
  std::vector<OpId> writer_ = {};             // by storage
};

void refuse_overwritten_residents(const Graph& graph) {
  for (const Op& op : graph.ops) {
    if (!op.in_place) continue;
    const TensorId owner = graph.storage(graph.tensor(op.inputs[0]).storage).owner;
    if (!is_resident(graph.tensor(owner))) continue;
    throw InputError(fmt::format("op '{}' overwrites '{}', which lives for the whole step", op.name,
                                 graph.tensor(owner).name));
  }
}

// By storage: how often ops read tensors on it.
std::vector<std::size_t> count_reads(const Graph& graph) {
  std::vector<std::size_t> reads(graph.storages.size(), 0);
  for (const Op& op : graph.ops) {
    for (const TensorId input : op.inputs) ++reads[index(graph.tensor(input).storage)];
  }
  return reads;
}

void check_gradient_place(const Graph& graph, const Op& op, std::size_t input,
                          const std::vector<std::size_t>& reads) {
  const TensorId place = op.gradient_places[input];
  const Tensor& over = graph.tensor(place);
  const Tensor& of = graph.tensor(op.inputs[input]);
  const std::string what = fmt::format(
      "op '{}': its Backward writes the gradient of '{}' over '{}'", op.name, of.name, over.name);
  if (std::find(op.saved.begin(), op.saved.end(), place) == op.saved.end()) {
    throw InputError(what + ", which it does not save");
  }
  if (over.bytes != of.bytes) {
    throw InputError(
        fmt::format("{}, but they are of {} and {} bytes", what, of.bytes, over.bytes));
  }
  const std::size_t own_reads = over.role == TensorRole::kAuxiliary ? 0 : 1;
  if (graph.storage(over.storage).owner != place || is_resident(over) ||
      reads[index(over.storage)] > own_reads ||
      std::count(op.gradient_places.begin(), op.gradient_places.end(), place) > 1) {
    throw InputError(what + ", which something else still reads");
  }
}

}  // namespace

void check_gradient_places(const Graph& graph) {
  const auto is_place = [](TensorId place) { return place != kNoTensor; };
  std::vector<std::size_t> reads;
  for (const Op& op : graph.ops) {
    const std::vector<TensorId>& places = op.gradient_places;
    if (!op.has_backward || std::none_of(places.begin(), places.end(), is_place)) continue;
    if (reads.empty()) reads = count_reads(graph);
    for (std::size_t input = 0; input < places.size(); ++input) {
      if (is_place(places[input])) check_gradient_place(graph, op, input, reads);
    }
  }
}

void check_in_place(const Graph& graph, const std::vector<OpId>& order) {
  if (!has_in_place(graph)) return;
  refuse_overwritten_residents(graph);
  Overwrites overwrites(graph);
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const TensorId input : graph.op(order[i]).inputs) {
      const OpId writer = overwrites.overwriter_of(input);
      if (writer == kNoOp) continue;
      throw InputError(fmt::format("{}, which op '{}' reads later", overwrites.text(writer, input),
                                   graph.op(order[i]).name));
    }
    overwrites.run(order[i], i + 1);
  }
  for (const Op& op : graph.ops) {
    for (const TensorId saved : op.saved) {
      const OpId writer = overwrites.overwriter_of(saved);
      if (writer == kNoOp) continue;
      throw InputError(fmt::format("{}, which op '{}' saves for its Backward",
                                   overwrites.text(writer, saved), op.name));
    }
  }
}

void check_in_place_regions(const Graph& graph, const std::vector<OpId>& order,
                            const RegionTree& tree) {
  if (!has_in_place(graph)) return;
  Overwrites overwrites(graph);
  for (std::size_t i = 0; i < order.size(); ++i) overwrites.run(order[i], i + 1);
  for (const OpId id : order) {
    const std::int32_t frame = tree.frame_of_op[index(id)];
    for (const TensorId input : graph.op(id).inputs) {
      const OpId writer = overwrites.overwriter_of(input);
      if (writer == kNoOp) continue;
      const OpId producer = graph.tensor(input).producer;  // residents are never overwritten
      const std::int32_t made_in = tree.frame_of_op[index(producer)];
      if (common_frame(tree, made_in, frame) == frame) continue;
      const Frame& region = tree.frames[static_cast<std::size_t>(frame)];
      throw InputError(fmt::format(
          "plan: the recompute of region [{}, {}) would read '{}' again, "
          "but {}",
          region.begin, region.end, graph.tensor(input).name, overwrites.text(writer, input)));
    }
  }
}

}  // namespace cairn
