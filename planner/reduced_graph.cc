#include "planner/reduced_graph.h"

#include <algorithm>
#include <utility>

#include "graph/error.h"
#include "graph/in_place.h"
#include "graph/plan.h"
#include "planner/planner.h"

namespace cairn {
namespace {

constexpr std::size_t kLongestPeriod = 256;

// Chooses the blocks that stay.
class Shortening {
 public:
  Shortening(const Graph& graph, const std::vector<Block>& blocks)
      : graph_(graph), blocks_(blocks) {
    stand_in_.resize(blocks.size());
    block_of_op_.resize(graph.ops.size());
    last_reader_.assign(graph.tensors.size(), -1);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      kept_.push_back(b);
      stand_in_[b] = b;
      for (std::int32_t i = blocks[b].begin; i < blocks[b].end; ++i) {
        block_of_op_[static_cast<std::size_t>(i)] = b;
        for (const TensorId input : graph.ops[static_cast<std::size_t>(i)].inputs) {
          last_reader_[index(input)] = i;
        }
      }
    }
  }

  void run() {
    for (std::size_t period = 1; period <= kLongestPeriod && 4 * period <= kept_.size(); ++period) {
      shorten(period);
    }
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      while (stand_in_[stand_in_[b]] != stand_in_[b]) stand_in_[b] = stand_in_[stand_in_[b]];
    }
  }

  const std::vector<std::size_t>& kept() const { return kept_; }
  std::size_t stand_in(std::size_t block) const { return stand_in_[block]; }
  std::size_t block_of_op(std::int32_t op) const {
    return block_of_op_[static_cast<std::size_t>(op)];
  }

 private:
  std::int32_t kind(std::size_t place) const { return blocks_[kept_[place]].kind; }

  // Removes whole periods from every run of equal ones, one behind the other.
  void shorten(std::size_t period) {
    std::vector<std::size_t> matches(kept_.size() + 1, 0);  // places from here on that repeat
    for (std::size_t place = kept_.size() - period; place-- > 0;) {
      matches[place] = kind(place) == kind(place + period) ? matches[place + 1] + 1 : 0;
    }
    std::vector<std::size_t> left;
    for (std::size_t begin = 0; begin < kept_.size();) {
      const std::size_t end = begin + matches[begin] + period;
      if (matches[begin] < 3 * period || !remove_between(begin, end, period, left)) {
        left.push_back(kept_[begin++]);
      } else {
        begin = end;
      }
    }
    kept_ = std::move(left);
  }

  // Appends what stays of [begin, end) to `left`; false where all of it does.
  bool remove_between(std::size_t begin, std::size_t end, std::size_t period,
                      std::vector<std::size_t>& left) {
    const std::size_t first = first_of_layer(begin, period);
    const std::size_t period_count = (end - first) / period;
    const std::size_t needed_count = 2 + std::max<std::size_t>(1, reach(first, period));
    if (period_count <= needed_count) return false;
    const std::size_t gap = first + 2 * period;
    const std::size_t behind = gap + (period_count - needed_count) * period;
    for (std::size_t place = begin; place < end; ++place) {
      if (place < gap || place >= behind) {
        left.push_back(kept_[place]);
      } else {
        stand_in_[kept_[place]] = kept_[gap - period + (place - gap) % period];
      }
    }
    return true;
  }

  // Where in the first period a layer begins, so that whole layers go.
  std::size_t first_of_layer(std::size_t begin, std::size_t period) const {
    for (std::size_t place = begin; place < begin + period; ++place) {
      if (place == 0) continue;
      if (blocks_[kept_[place]].layer != blocks_[kept_[place - 1]].layer) return place;
    }
    return begin;
  }

  // Periods, rounded up, from where a tensor is made to where it is still held or read, as far as
  // that goes along with the block.
  std::size_t reach(std::size_t first, std::size_t period) const {
    std::size_t blocks = 0;
    for (std::size_t place = first; place < first + period; ++place) {
      blocks = std::max(blocks, reach_in_blocks(kept_[place], kept_[place + period]));
    }
    return (blocks + period - 1) / period;
  }

  std::size_t reach_in_blocks(std::size_t block, std::size_t next_block) const {
    std::size_t reach = 0;
    const std::int32_t shift = blocks_[next_block].begin - blocks_[block].begin;
    const auto look_at = [&](std::int32_t position, std::int32_t next) {
      if (position < 0 || next - position != shift) return;  // nowhere, or absolute
      reach = std::max(reach, block_of_op(position) - block);
    };
    for (std::int32_t i = blocks_[block].begin; i < blocks_[block].end; ++i) {
      const std::int32_t next_position = i + shift;
      const Op& op = graph_.ops[static_cast<std::size_t>(i)];
      const Op& next_op = graph_.ops[static_cast<std::size_t>(next_position)];
      for (std::size_t made = 0; made < op.outputs.size(); ++made) {
        const TensorId id = op.outputs[made];
        const TensorId next_id = next_op.outputs[made];
        look_at(static_cast<std::int32_t>(graph_.tensor(id).held_until),
                static_cast<std::int32_t>(graph_.tensor(next_id).held_until));
        look_at(last_reader_[index(id)], last_reader_[index(next_id)]);
      }
    }
    return reach;
  }

  const Graph& graph_;
  const std::vector<Block>& blocks_;
  std::vector<std::size_t> kept_ = {};
  std::vector<std::size_t> stand_in_ = {};  // by block: itself, or one of its kind before the gap
  std::vector<std::size_t> block_of_op_ = {};
  std::vector<std::int32_t> last_reader_ = {};  // by tensor: the last op, or -1
};

// Copies what stays, with new ids.
class Reduction {
 public:
  Reduction(const Graph& graph, const std::vector<Block>& blocks, const Shortening& shortening)
      : graph_(graph), blocks_(blocks), shortening_(shortening) {}

  ReducedGraph reduce() {
    place_ops();
    choose_tensors();
    copy_tensors();
    copy_ops();
    reduced_.graph.name = graph_.name;
    reduced_.graph.loss = map(graph_.loss);
    CAIRN_CHECK(reduced_.graph.loss != kNoTensor, "the loss is in the last block, which stays");
    copy_blocks();
    check_in_place(reduced_.graph, keep_all_plan(reduced_.graph).order);
    check_gradient_places(reduced_.graph);
    return std::move(reduced_);
  }

 private:
  void place_ops() {
    new_op_.assign(graph_.ops.size(), kNoOp);
    place_of_block_.assign(blocks_.size(), kGone);
    std::int32_t next = 0;
    for (std::size_t place = 0; place < shortening_.kept().size(); ++place) {
      const std::size_t block = shortening_.kept()[place];
      place_of_block_[block] = place;
      for (std::int32_t i = blocks_[block].begin; i < blocks_[block].end; ++i) {
        new_op_[static_cast<std::size_t>(i)] = static_cast<OpId>(next++);
      }
    }
  }

  bool stays(OpId op) const { return new_op_[index(op)] != kNoOp; }

  // What ops that stay make or read, and what nothing reads; what others make has a stand-in.
  void choose_tensors() {
    std::vector<bool> is_read(graph_.tensors.size(), false);
    std::vector<bool> is_read_by_kept(graph_.tensors.size(), false);
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      for (const TensorId input : graph_.ops[i].inputs) {
        is_read[index(input)] = true;
        if (stays(static_cast<OpId>(i))) is_read_by_kept[index(input)] = true;
      }
    }
    new_tensor_.assign(graph_.tensors.size(), kNoTensor);
    std::int32_t next = 0;
    for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
      const OpId producer = graph_.tensors[i].producer;
      const bool is_kept = producer == kNoOp ? is_read_by_kept[i] || !is_read[i] : stays(producer);
      if (is_kept) new_tensor_[i] = static_cast<TensorId>(next++);
    }
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      if (place_of_block_[b] == kGone)
        map_to_stand_in(blocks_[b], blocks_[shortening_.stand_in(b)]);
    }
  }

  void map_to_stand_in(const Block& gone, const Block& like) {
    for (std::int32_t i = gone.begin, j = like.begin; i < gone.end; ++i, ++j) {
      const Op& op = graph_.ops[static_cast<std::size_t>(i)];
      const Op& like_op = graph_.ops[static_cast<std::size_t>(j)];
      for (std::size_t made = 0; made < op.outputs.size(); ++made) {
        new_tensor_[index(op.outputs[made])] = new_tensor_[index(like_op.outputs[made])];
      }
      for (std::size_t made = 0; made < op.auxiliaries.size(); ++made) {
        new_tensor_[index(op.auxiliaries[made])] = new_tensor_[index(like_op.auxiliaries[made])];
      }
    }
  }

  TensorId map(TensorId id) const { return id == kNoTensor ? kNoTensor : new_tensor_[index(id)]; }

  std::vector<TensorId> map(const std::vector<TensorId>& ids) const {
    std::vector<TensorId> mapped;
    mapped.reserve(ids.size());
    for (const TensorId id : ids) mapped.push_back(map(id));
    return mapped;
  }

  void copy_tensors() {
    std::vector<StorageId> new_storage(graph_.storages.size(), StorageId{-1});
    for (std::size_t i = 0; i < graph_.storages.size(); ++i) {
      const TensorId owner = graph_.storages[i].owner;
      if (!is_own(owner)) continue;
      new_storage[i] = static_cast<StorageId>(reduced_.graph.storages.size());
      reduced_.graph.storages.push_back({.bytes = graph_.storages[i].bytes, .owner = map(owner)});
    }
    for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
      if (!is_own(static_cast<TensorId>(i))) continue;
      Tensor tensor = graph_.tensors[i];
      tensor.storage = new_storage[index(storage_of_kept(tensor.storage))];
      tensor.held_until = map_held_until(tensor);
      if (tensor.producer != kNoOp) tensor.producer = new_op_[index(tensor.producer)];
      reduced_.graph.tensors.push_back(std::move(tensor));
    }
  }

  // Whether the tensor itself stays, not a stand-in.
  bool is_own(TensorId id) const {
    const OpId producer = graph_.tensor(id).producer;
    return map(id) != kNoTensor && (producer == kNoOp || stays(producer));
  }

  // A view's storage may be of what is gone: then it is that of the stand-in.
  StorageId storage_of_kept(StorageId id) const {
    const TensorId owner = graph_.storage(id).owner;
    if (is_own(owner)) return id;
    const Tensor& tensor = graph_.tensor(owner);
    const std::size_t block = shortening_.block_of_op(static_cast<std::int32_t>(tensor.producer));
    return storage_of_kept(graph_
                               .tensor(same_place(graph_, blocks_[block], owner, graph_,
                                                  blocks_[shortening_.stand_in(block)]))
                               .storage);
  }

  // As many blocks behind as before; where another kind stands there, the place was absolute.
  OpId map_held_until(const Tensor& tensor) const {
    if (tensor.held_until == kNoOp) return kNoOp;
    if (stays(tensor.held_until)) return new_op_[index(tensor.held_until)];
    const std::size_t from = shortening_.block_of_op(static_cast<std::int32_t>(tensor.producer));
    const std::size_t to = shortening_.block_of_op(static_cast<std::int32_t>(tensor.held_until));
    const std::size_t place = place_of_block_[from] + (to - from);
    std::size_t like = shortening_.stand_in(to);
    if (place < shortening_.kept().size() &&
        blocks_[shortening_.kept()[place]].kind == blocks_[to].kind) {
      like = shortening_.kept()[place];
    }
    const std::int32_t position =
        static_cast<std::int32_t>(tensor.held_until) - blocks_[to].begin + blocks_[like].begin;
    return new_op_[static_cast<std::size_t>(position)];
  }

  void copy_ops() {
    std::vector<std::int32_t> layer_numbers;
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      if (!stays(static_cast<OpId>(i))) continue;
      Op op = graph_.ops[i];
      for (auto* const list : {&op.inputs, &op.outputs, &op.auxiliaries, &op.saved,
                               &op.unread_saved, &op.gradient_places}) {
        *list = map(*list);
      }
      if (op.block >= 0) layer_numbers.push_back(op.block);
      reduced_.graph.ops.push_back(std::move(op));
    }
    std::sort(layer_numbers.begin(), layer_numbers.end());
    layer_numbers.erase(std::unique(layer_numbers.begin(), layer_numbers.end()),
                        layer_numbers.end());
    for (Op& op : reduced_.graph.ops) {
      if (op.block < 0) continue;
      op.block = static_cast<std::int32_t>(
          std::lower_bound(layer_numbers.begin(), layer_numbers.end(), op.block) -
          layer_numbers.begin());
    }
    reduced_.graph.block_count = static_cast<std::int32_t>(layer_numbers.size());
  }

  void copy_blocks() {
    const std::vector<std::pair<std::int32_t, std::int32_t>> layers = layer_ranges(reduced_.graph);
    for (const std::size_t kept : shortening_.kept()) {
      Block block = blocks_[kept];
      const std::int32_t size = block.end - block.begin;
      block.begin = static_cast<std::int32_t>(new_op_[static_cast<std::size_t>(block.begin)]);
      block.end = block.begin + size;
      block.input = map(block.input);
      block.output = map(block.output);
      if (block.layer >= 0) block.layer = layer_around(layers, block);
      reduced_.blocks.push_back(block);
      reduced_.whole_of.push_back(static_cast<std::int32_t>(kept));
    }
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      reduced_.block_of.push_back(
          static_cast<std::int32_t>(place_of_block_[shortening_.stand_in(b)]));
    }
  }

  // The layer that has the ops with a Backward of a block that had one in the whole graph.
  std::int32_t layer_around(const std::vector<std::pair<std::int32_t, std::int32_t>>& layers,
                            const Block& block) const {
    std::int32_t first = block.begin;
    while (!reduced_.graph.ops[static_cast<std::size_t>(first)].has_backward) ++first;
    const auto around = std::find_if(layers.begin(), layers.end(), [first](const auto& layer) {
      return layer.first <= first && first < layer.second;
    });
    return around == layers.end() ? -1 : static_cast<std::int32_t>(around - layers.begin());
  }

  static constexpr std::size_t kGone = static_cast<std::size_t>(-1);

  const Graph& graph_;
  const std::vector<Block>& blocks_;
  const Shortening& shortening_;
  std::vector<OpId> new_op_ = {};                 // by op; kNoOp where it is gone
  std::vector<std::size_t> place_of_block_ = {};  // among those kept, or kGone
  std::vector<TensorId> new_tensor_ = {};         // by tensor; of the stand-in where it is gone
  ReducedGraph reduced_ = {};
};

}  // namespace

ReducedGraph reduced_graph(const Graph& graph, const std::vector<Block>& blocks) {
  Shortening shortening(graph, blocks);
  shortening.run();
  return Reduction(graph, blocks, shortening).reduce();
}

TensorId same_place(const Graph& graph_a, const Block& a, TensorId tensor, const Graph& graph_b,
                    const Block& b) {
  const auto position = static_cast<std::int32_t>(graph_a.tensor(tensor).producer);
  CAIRN_CHECK(a.begin <= position && position < a.end,
              graph_a.tensor(tensor).name + " is not made in the block");
  const Op& op = graph_a.ops[static_cast<std::size_t>(position)];
  const std::int32_t like_position = b.begin + position - a.begin;
  const Op& like = graph_b.ops[static_cast<std::size_t>(like_position)];
  const auto output = std::find(op.outputs.begin(), op.outputs.end(), tensor);
  if (output != op.outputs.end()) {
    return like.outputs[static_cast<std::size_t>(output - op.outputs.begin())];
  }
  const auto auxiliary = std::find(op.auxiliaries.begin(), op.auxiliaries.end(), tensor);
  return like.auxiliaries[static_cast<std::size_t>(auxiliary - op.auxiliaries.begin())];
}

}  // namespace cairn
