#include "planner/chain_problem.h"

#include <algorithm>
#include <deque>
#include <map>

#include "graph/checked.h"
#include "graph/error.h"
#include "planner/chain_from_graph.h"
#include "planner/keep_frontier.h"
#include "planner/reduced_graph.h"
#include "planner/thin_options.h"

namespace cairn {
namespace {

constexpr std::int64_t kNotAllowed = 2 * kMostBudgetBytes;

// Keep lists offered for a block or layer: many for few blocks, few for many (thin_options.h).
constexpr std::size_t kBucketsInAll = 4096;
constexpr std::size_t kFewestBuckets = 16;
constexpr std::size_t kMostBuckets = 64;

// So few that any run of them may be a region with a keep list.
constexpr std::size_t kFewBlocks = 9;

// Of parameters, live throughout.
std::int64_t resident_parameter_bytes(const Graph& graph, const TrainingStep& step) {
  constexpr std::string_view kWhat = "bytes of parameters";
  std::int64_t bytes = checked_add(parameter_bytes(graph), master_weight_bytes(graph), kWhat);
  bytes = checked_add(bytes, optimizer_state_bytes(graph), kWhat);
  if (const std::int64_t main_bytes = main_gradient_bytes(graph); main_bytes > 0) {
    return checked_add(bytes, main_bytes, kWhat);
  }
  const bool keeps = step.keeps_gradients || step.micro_batches > 1;
  return keeps ? checked_add(bytes, gradient_bytes(graph), kWhat) : bytes;
}

// Half-open ranges of blocks.
struct BlockRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// Each layer one block; those outside of layers stay.
std::vector<Block> merged_by_layer(const std::vector<Block>& blocks) {
  std::vector<Block> merged;
  std::map<std::vector<std::int32_t>, std::int32_t> kind_of;  // by the kinds of a layer's blocks
  for (std::size_t begin = 0; begin < blocks.size();) {
    std::size_t end = begin + 1;
    while (end < blocks.size() && blocks[begin].layer >= 0 &&
           blocks[end].layer == blocks[begin].layer) {
      ++end;
    }
    std::vector<std::int32_t> kinds;
    for (std::size_t i = begin; i < end; ++i) kinds.push_back(blocks[i].kind);
    const auto next = static_cast<std::int32_t>(kind_of.size());
    Block block = blocks[begin];
    block.end = blocks[end - 1].end;
    block.output = blocks[end - 1].output;
    block.kind = kind_of.try_emplace(kinds, next).first->second;
    merged.push_back(block);
    begin = end;
  }
  return merged;
}

class ProblemBuilder {
 public:
  ProblemBuilder(const Graph& graph, const PlanRequest& request, const ChainForm& form)
      : graph_(graph), request_(request), form_(form), layers_(layer_ranges(graph)) {}

  ChainProblem build() {
    problem_.costs = op_costs(graph_, request_.setting.device);
    problem_.blocks = chain_blocks(graph_);
    if (form_.layers_only) problem_.blocks = merged_by_layer(problem_.blocks);
    reduced_ = reduced_graph(graph_, problem_.blocks);
    reduced_costs_ = op_costs(reduced_.graph, request_.setting.device);
    reduced_costs_.unit = problem_.costs.unit;
    expand_chain();
    if (form_.keep_lists) {
      for (const BlockRange& span : spans()) add_options(span);
    } else {
      add_plain_regions();
    }
    restrict_blocks();
    const auto layers = layers_with_backward(graph_);
    problem_.has_all_layers = std::all_of(layers.begin(), layers.end(), [&](const auto& layer) {
      return std::any_of(problem_.blocks.begin(), problem_.blocks.end(), [&](const Block& block) {
        return std::pair(block.begin, block.end) == layer;
      });
    });
    return std::move(problem_);
  }

 private:
  // A frontier, and what it is that of.
  struct Solved {
    std::vector<std::int32_t> kinds = {};
    BlockRange where = {};  // of the reduced graph
    KeepConstraints constraints = {};
    KeepFrontier frontier = {};
  };

  void expand_chain() {
    const Chain reduced =
        chain_from_graph(reduced_.graph, reduced_.blocks, request_.setting, reduced_costs_);
    const TrainingStep& step = request_.setting.step;
    problem_.chain.base_bytes = reduced.base_bytes -
                                resident_parameter_bytes(reduced_.graph, step) +
                                resident_parameter_bytes(graph_, step);
    for (std::size_t b = 0; b < problem_.blocks.size(); ++b) {
      ChainBlock block = reduced.blocks[static_cast<std::size_t>(reduced_.block_of[b])];
      block.kind = problem_.blocks[b].kind;
      problem_.chain.blocks.push_back(block);
    }
  }

  // What may be a region with a keep list: layers, and unless only these may, blocks. Never the
  // last block.
  std::vector<BlockRange> spans() const {
    const std::vector<Block>& blocks = problem_.blocks;
    std::vector<BlockRange> spans;
    for (std::size_t b = 0; b + 1 < blocks.size();) {
      std::size_t end = b + 1;
      while (end + 1 < blocks.size() && blocks[b].layer >= 0 &&
             blocks[end].layer == blocks[b].layer) {
        ++end;
      }
      if (form_.whole_layers ? is_layer(blocks[b]) : blocks[b].layer >= 0)
        spans.push_back({b, end});
      if (!form_.layers_only && (end - b > 1 || blocks[b].layer < 0)) {
        for (std::size_t i = b; i < end; ++i) spans.push_back({i, i + 1});
      }
      b = end;
    }
    if (!form_.layers_only && blocks.size() <= kFewBlocks) add_runs(spans);
    return spans;
  }

  // Of few blocks, all runs of several that are no layer.
  void add_runs(std::vector<BlockRange>& spans) const {
    const std::size_t count = problem_.blocks.size() - 1;
    for (std::size_t begin = 0; begin < count; ++begin) {
      for (std::size_t end = begin + 2; end <= count; ++end) {
        const auto is_same = [&](const BlockRange& span) {
          return span.begin == begin && span.end == end;
        };
        if (std::any_of(spans.begin(), spans.end(), is_same)) continue;
        spans.push_back({begin, end});
      }
    }
  }

  // Whether the block is a whole layer, and no more than that.
  bool is_layer(const Block& block) const {
    return std::find(layers_.begin(), layers_.end(), std::pair(block.begin, block.end)) !=
           layers_.end();
  }

  // The blocks of the reduced graph that stand for the span's; empty when they are not in one run.
  BlockRange reduced_range(const BlockRange& span) const {
    const auto first = static_cast<std::size_t>(reduced_.block_of[span.begin]);
    for (std::size_t i = span.begin; i < span.end; ++i) {
      if (static_cast<std::size_t>(reduced_.block_of[i]) != first + (i - span.begin)) return {};
    }
    return {first, first + (span.end - span.begin)};
  }

  // Those of the tensors that the span makes, in the reduced graph.
  std::vector<TensorId> in_reduced(const std::vector<TensorId>& tensors, const BlockRange& span,
                                   const BlockRange& reduced) const {
    std::vector<TensorId> found;
    for (const TensorId tensor : tensors) {
      for (std::size_t i = 0; i < reduced.end - reduced.begin; ++i) {
        const Block& block = problem_.blocks[span.begin + i];
        const auto made_at = static_cast<std::int32_t>(graph_.tensor(tensor).producer);
        if (made_at < block.begin || made_at >= block.end) continue;
        found.push_back(
            same_place(graph_, block, tensor, reduced_.graph, reduced_.blocks[reduced.begin + i]));
      }
    }
    return found;
  }

  // Solved once for all spans of equal blocks and constraints.
  const Solved& solved_for(const BlockRange& span, const BlockRange& reduced) {
    Solved solved{.where = reduced,
                  .constraints = {.keep = in_reduced(request_.keep, span, reduced),
                                  .recompute = in_reduced(request_.recompute, span, reduced)}};
    for (std::size_t i = reduced.begin; i < reduced.end; ++i) {
      solved.kinds.push_back(reduced_.blocks[i].kind);
    }
    for (const Solved& known : solved_) {
      if (known.kinds == solved.kinds && known.constraints.keep == solved.constraints.keep &&
          known.constraints.recompute == solved.constraints.recompute) {
        return known;
      }
    }
    const Span ops{.begin = reduced_.blocks[reduced.begin].begin,
                   .end = reduced_.blocks[reduced.end - 1].end};
    try {
      solved.frontier =
          keep_frontier(reduced_.graph, ops, request_.setting, reduced_costs_, solved.constraints);
    } catch (const InputError&) {  // no list does what is asked of the span's tensors
    }
    const std::size_t found = solved.frontier.sets.size();
    const std::size_t blocks_in_all = std::max<std::size_t>(problem_.blocks.size(), 1);
    solved.frontier.sets = thinned(solved.frontier.sets, std::clamp(kBucketsInAll / blocks_in_all,
                                                                    kFewestBuckets, kMostBuckets));
    problem_.has_all_lists =
        problem_.has_all_lists && solved.frontier.is_exact && solved.frontier.sets.size() == found;
    solved_.push_back(std::move(solved));
    return solved_.back();
  }

  void add_options(const BlockRange& span) {
    const std::vector<Block>& blocks = problem_.blocks;
    if (!has_backward(graph_, blocks[span.begin].begin, blocks[span.end - 1].end)) return;
    const BlockRange reduced = reduced_range(span);
    if (reduced.begin == reduced.end) return;
    const Solved& solved = solved_for(span, reduced);
    for (const KeepSet& set : solved.frontier.sets) {
      KeepOption option{.begin = static_cast<std::int32_t>(span.begin),
                        .end = static_cast<std::int32_t>(span.end),
                        .held_bytes = set.held_bytes - counted_twice_bytes(span, solved, set),
                        .forward_peak_bytes = set.forward_peak_bytes,
                        .backward_peak_bytes = set.backward_peak_bytes,
                        .extra_cost = set.recompute_cost};
      for (const TensorId kept : set.keep)
        option.keep.push_back(in_whole(kept, span, solved.where));
      problem_.chain.options.push_back(std::move(option));
    }
  }

  // What the span hands on, where its list keeps that for its own Backwards, and the next block
  // counts it as its input whatever becomes of it.
  std::int64_t counted_twice_bytes(const BlockRange& span, const Solved& solved,
                                   const KeepSet& set) const {
    const ChainBlock& next = problem_.chain.blocks[span.end];
    if (next.inner_held_bytes != next.held_bytes) return 0;  // it may do without
    const Graph& graph = reduced_.graph;
    const StorageId handed_on = graph.tensor(reduced_.blocks[solved.where.end - 1].output).storage;
    const auto is_handed_on = [&](TensorId tensor) {
      return graph.tensor(tensor).storage == handed_on;
    };
    if (std::none_of(set.keep.begin(), set.keep.end(), is_handed_on)) return 0;
    for (std::size_t i = solved.where.begin; i < solved.where.end; ++i) {
      for (std::int32_t k = reduced_.blocks[i].begin; k < reduced_.blocks[i].end; ++k) {
        const Op& op = graph.ops[static_cast<std::size_t>(k)];
        if (!op.has_backward) continue;
        if (std::any_of(op.saved.begin(), op.saved.end(), is_handed_on)) {
          return graph.storage(handed_on).bytes;
        }
      }
    }
    return 0;
  }

  // The tensor of the whole graph that stands where `tensor` does in the reduced one.
  TensorId in_whole(TensorId tensor, const BlockRange& span, const BlockRange& reduced) const {
    const auto made_at = static_cast<std::int32_t>(reduced_.graph.tensor(tensor).producer);
    std::size_t i = reduced.begin;
    while (made_at >= reduced_.blocks[i].end) ++i;
    return same_place(reduced_.graph, reduced_.blocks[i], tensor, graph_,
                      problem_.blocks[span.begin + (i - reduced.begin)]);
  }

  // Layers as one region each that keeps nothing, where keep lists are not for the target.
  void add_plain_regions() {
    for (std::size_t b = 0; b + 1 < problem_.blocks.size(); ++b) {
      if (!is_layer(problem_.blocks[b]) || has_any(request_.keep, problem_.blocks[b])) continue;
      const ChainBlock& block = problem_.chain.blocks[b];
      problem_.chain.options.push_back({.begin = static_cast<std::int32_t>(b),
                                        .end = static_cast<std::int32_t>(b) + 1,
                                        .held_bytes = block.input_bytes,
                                        .forward_peak_bytes = block.sweep_peak_bytes,
                                        .backward_peak_bytes = block.last_peak_bytes,
                                        .extra_cost = block.last_cost});
    }
  }

  // What is not allowed takes more bytes than there are.
  void restrict_blocks() {
    for (std::size_t b = 0; b < problem_.blocks.size(); ++b) {
      ChainBlock& block = problem_.chain.blocks[b];
      const bool has_keep = has_any(request_.keep, problem_.blocks[b]) || makes_leaf(b);
      if (has_keep || !form_.nesting) block.sweep_peak_bytes = kNotAllowed;
      if (has_any(request_.recompute, problem_.blocks[b])) block.forward_peak_bytes = kNotAllowed;
    }
  }

  bool makes_leaf(std::size_t b) const {
    return problem_.blocks[b].output != kNoTensor && is_leaf(graph_, problem_.blocks[b].output);
  }

  bool has_any(const std::vector<TensorId>& tensors, const Block& block) const {
    return std::any_of(tensors.begin(), tensors.end(), [&](TensorId tensor) {
      const auto made_at = static_cast<std::int32_t>(graph_.tensor(tensor).producer);
      return made_at >= block.begin && made_at < block.end;
    });
  }

  const Graph& graph_;
  const PlanRequest& request_;
  const ChainForm& form_;
  std::vector<std::pair<std::int32_t, std::int32_t>> layers_ = {};
  ChainProblem problem_ = {};
  ReducedGraph reduced_ = {};
  OpCosts reduced_costs_ = {};
  std::deque<Solved> solved_ = {};  // references to it last
};

}  // namespace

ChainProblem chain_problem(const Graph& graph, const PlanRequest& request, const ChainForm& form) {
  return ProblemBuilder(graph, request, form).build();
}

}  // namespace cairn
