#include "planner/block_kinds.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "planner/planner.h"

namespace cairn {
namespace {

using Signature = std::vector<std::int64_t>;

// How a signature says which tensor it means, before what tells tensors of that sort apart.
enum class Reference : std::int64_t {
  kNothing,
  kMade,            // in the block: place of the op, place among what it makes
  kInput,           // of the block
  kStorageOfInput,  // what the block's input is a view of
  kParameter,       // number, by first use in the block; the first use tells what it is
  kShared,          // with a gradient that another block contributes to as well
  kOther,           // the very tensor
};

class KindNumbering {
 public:
  KindNumbering(const Graph& graph, const std::vector<Block>& blocks)
      : graph_(graph), blocks_(blocks) {
    block_of_op_.resize(graph.ops.size());
    last_reader_.assign(graph.tensors.size(), -1);
    reader_block_.assign(graph.tensors.size(), kNone);
    parameter_number_.assign(graph.tensors.size(), -1);
    numbered_in_.assign(graph.tensors.size(), kNone);
    for (std::size_t b = 0; b < blocks.size(); ++b) find_readers(static_cast<std::int32_t>(b));
    for (const auto& [begin, end] : layer_ranges(graph)) {
      begins_layer_.push_back(begin);
      ends_layer_.push_back(end);
    }
  }

  std::int32_t kind_of(std::size_t block) {
    block_ = static_cast<std::int32_t>(block);
    parameter_count_ = 0;
    signature_.clear();
    add_block();
    const auto next = static_cast<std::int32_t>(kinds_.size());
    return kinds_.try_emplace(signature_, next).first->second;
  }

 private:
  const Block& block() const { return blocks_[static_cast<std::size_t>(block_)]; }

  void find_readers(std::int32_t block) {
    const Block& of = blocks_[static_cast<std::size_t>(block)];
    for (std::int32_t i = of.begin; i < of.end; ++i) {
      block_of_op_[static_cast<std::size_t>(i)] = block;
      for (const TensorId input : graph_.ops[static_cast<std::size_t>(i)].inputs) {
        last_reader_[index(input)] = i;
        std::int32_t& reader = reader_block_[index(input)];
        reader = reader == kNone || reader == block ? block : kSeveral;
      }
    }
  }

  void add(std::int64_t value) { signature_.push_back(value); }
  void add_flags(std::initializer_list<bool> flags) {
    std::int64_t bits = 0;
    for (const bool flag : flags) bits = bits * 2 + (flag ? 1 : 0);
    add(bits);
  }

  void add_block() {
    const auto is_in = [](const std::vector<std::int32_t>& sorted, std::int32_t value) {
      return std::binary_search(sorted.begin(), sorted.end(), value);
    };
    add(block().end - block().begin);
    add_flags(
        {block().layer >= 0, is_in(begins_layer_, block().begin), is_in(ends_layer_, block().end)});
    if (block().input != kNoTensor) {
      const Tensor& input = graph_.tensor(block().input);
      add(graph_.storage(input.storage).bytes);
      add_flags({is_view(graph_, block().input)});
      add_properties(input);
    }
    for (std::int32_t i = block().begin; i < block().end; ++i) {
      add_op(graph_.ops[static_cast<std::size_t>(i)]);
    }
    add_reference(block().output);
  }

  void add_op(const Op& op) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): kinds are one object each.
    add(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(op.kind)));
    add_flags(
        {op.has_backward, op.in_place, op.saves_after_forward, op.sweep_workspace_bytes.has_value(),
         op.forward.is_matmul, known_time_ns(op.forward).has_value(), op.backward.is_matmul,
         known_time_ns(op.backward).has_value(), op.recompute == RecomputePolicy::kNever,
         op.recompute == RecomputePolicy::kReplayRandom, op.side_effect == SideEffect::kOnce});
    add(op.workspace_bytes);
    add(op.backward_workspace_bytes);
    add(op.sweep_workspace_bytes.value_or(0));
    add_cost(op.forward);
    add_cost(op.backward);
    add_references(op.inputs);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      add_flags({op.gradient_aliases[i], op.gradient_views[i]});
      add_reference(op.gradient_places[i]);
    }
    add_references(op.saved);
    add_references(op.unread_saved);
    add_made(op.outputs);
    add_made(op.auxiliaries);
  }

  void add_cost(const Cost& cost) {
    add(cost.flops);
    add(cost.executed_flops);
    add(cost.moved_bytes);
    add(cost.kernel_count);
    add(known_time_ns(cost).value_or(0));
  }

  void add_made(const std::vector<TensorId>& made) {
    add(static_cast<std::int64_t>(made.size()));
    for (const TensorId id : made) {
      const Tensor& tensor = graph_.tensor(id);
      add_properties(tensor);
      add_flags({id == graph_.loss});
      add_position(tensor.held_until == kNoOp ? -1 : static_cast<std::int32_t>(tensor.held_until));
      // What the next block does with the output is the next block's.
      add_position(id == block().output ? -1 : last_reader_[index(id)]);
      const Storage& storage = graph_.storage(tensor.storage);
      if (storage.owner == id) {
        add(storage.bytes);
      } else {
        add_reference(storage.owner);
      }
    }
  }

  void add_properties(const Tensor& tensor) {
    add(tensor.bytes);
    add(static_cast<std::int64_t>(tensor.data_type));
    add(static_cast<std::int64_t>(tensor.role));
    add_flags({tensor.requires_grad, tensor.has_gradient, tensor.is_logits});
  }

  // An op's place: as far as it is from here where it is near, in the block, the next two, this
  // layer or the next; else absolute. Both are right; near, only the first is ever equal.
  void add_position(std::int32_t position) {
    if (position < 0) {
      add(-1);
      return;
    }
    const std::int32_t at = block_of_op_[static_cast<std::size_t>(position)];
    const std::int32_t layer = blocks_[static_cast<std::size_t>(at)].layer;
    const bool is_near =
        at <= block_ + 2 || (block().layer >= 0 && layer >= 0 && layer <= block().layer + 1);
    add(is_near ? 1 : 2);
    add(is_near ? position - block().begin : position);
  }

  void add_references(const std::vector<TensorId>& ids) {
    add(static_cast<std::int64_t>(ids.size()));
    for (const TensorId id : ids) add_reference(id);
  }

  void add_reference(Reference reference, std::int64_t value) {
    add(static_cast<std::int64_t>(reference));
    add(value);
  }

  void add_reference(TensorId id) {
    if (id == kNoTensor) return add(static_cast<std::int64_t>(Reference::kNothing));
    if (id == block().input) return add(static_cast<std::int64_t>(Reference::kInput));
    const Tensor& tensor = graph_.tensor(id);
    if (tensor.producer != kNoOp) return add_reference_to_made(id, tensor);
    if (tensor.has_gradient && reader_block_[index(id)] == kSeveral) {
      return add_reference(Reference::kShared, block_);
    }
    if (tensor.role == TensorRole::kParameter || tensor.has_gradient) {
      return add_reference_to_parameter(id, tensor);
    }
    add_reference(Reference::kOther, static_cast<std::int64_t>(id));
  }

  void add_reference_to_made(TensorId id, const Tensor& tensor) {
    const auto at = static_cast<std::int32_t>(tensor.producer);
    if (at < block().begin) {
      const bool is_below_input = block().input != kNoTensor &&
                                  graph_.tensor(block().input).storage == tensor.storage &&
                                  graph_.storage(tensor.storage).owner == id;
      if (is_below_input) return add(static_cast<std::int64_t>(Reference::kStorageOfInput));
      return add_reference(Reference::kOther, static_cast<std::int64_t>(id));
    }
    const Op& op = graph_.op(tensor.producer);
    add_reference(Reference::kMade, at - block().begin);
    const auto output = std::find(op.outputs.begin(), op.outputs.end(), id);
    const bool is_output = output != op.outputs.end();
    add(is_output ? output - op.outputs.begin()
                  : -1 - (std::find(op.auxiliaries.begin(), op.auxiliaries.end(), id) -
                          op.auxiliaries.begin()));
  }

  void add_reference_to_parameter(TensorId id, const Tensor& tensor) {
    if (numbered_in_[index(id)] == block_) {
      return add_reference(Reference::kParameter, parameter_number_[index(id)]);
    }
    numbered_in_[index(id)] = block_;
    parameter_number_[index(id)] = parameter_count_;
    add_reference(Reference::kParameter, parameter_count_++);
    add_properties(tensor);
    add(graph_.storage(tensor.storage).bytes);
    add(tensor.master_weight_bytes);
    add(tensor.main_gradient_bytes);
    add(tensor.optimizer_state_bytes);
    add(tensor.optimizer_early_temporary_bytes);
    add(tensor.optimizer_early_carried_bytes);
    add(tensor.optimizer_temporary_bytes);
    add(tensor.optimizer_carried_bytes);
  }

  static constexpr std::int32_t kNone = -1;
  static constexpr std::int32_t kSeveral = -2;

  const Graph& graph_;
  const std::vector<Block>& blocks_;
  std::vector<std::int32_t> block_of_op_ = {};
  std::vector<std::int32_t> last_reader_ = {};   // by tensor: the last op, or -1
  std::vector<std::int32_t> reader_block_ = {};  // by tensor: the block, kNone or kSeveral
  std::vector<std::int32_t> begins_layer_ = {};  // sorted
  std::vector<std::int32_t> ends_layer_ = {};
  std::vector<std::int32_t> parameter_number_ = {};  // by tensor, where numbered_in_ is this block
  std::vector<std::int32_t> numbered_in_ = {};
  std::map<Signature, std::int32_t> kinds_ = {};
  // Of the block at hand.
  std::int32_t block_ = 0;
  std::int32_t parameter_count_ = 0;
  Signature signature_ = {};
};

}  // namespace

void number_kinds(const Graph& graph, std::vector<Block>& blocks) {
  KindNumbering numbering(graph, blocks);
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i].kind = numbering.kind_of(i);
}

}  // namespace cairn
