#include "planner/chain_problem.h"

#include <algorithm>
#include <map>

#include "graph/checked.h"
#include "graph/error.h"
#include "planner/chain_from_graph.h"
#include "planner/keep_sets_tmp.h"
#include "planner/reduced_graph.h"

namespace cairn {
namespace {

// More than any budget: what is not allowed needs it.
constexpr std::int64_t kNotAllowed = std::int64_t{1} << 60;

// Of parameters, live throughout.
std::int64_t resident_parameter_bytes(const Graph& graph, const TrainingStep& step) {
  constexpr std::string_view kWhat = "bytes of parameters";
  std::int64_t bytes = checked_add(parameter_bytes(graph), master_weight_bytes(graph), kWhat);
  bytes = checked_add(bytes, optimizer_state_bytes(graph), kWhat);
  const bool keeps = step.keeps_gradients || step.micro_batches > 1;
  return keeps ? checked_add(bytes, gradient_bytes(graph), kWhat) : bytes;
}

// Half-open ranges of blocks.
struct Span {
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
      : graph_(graph), request_(request), form_(form) {}

  ChainProblem build() {
    problem_.costs = op_costs(graph_, request_.setting.device);
    problem_.blocks = chain_blocks(graph_);
    if (form_.layers_only) problem_.blocks = merged_by_layer(problem_.blocks);
    reduced_ = reduced_graph(graph_, problem_.blocks);
    reduced_costs_ = op_costs(reduced_.graph, request_.setting.device);
    reduced_costs_.unit = problem_.costs.unit;
    expand_chain();
    for (const Span& span : spans()) add_options(span);
    restrict_blocks();
    return std::move(problem_);
  }

 private:
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
  std::vector<Span> spans() const {
    const std::vector<Block>& blocks = problem_.blocks;
    std::vector<Span> spans;
    for (std::size_t b = 0; b + 1 < blocks.size();) {
      std::size_t end = b + 1;
      while (end + 1 < blocks.size() && blocks[b].layer >= 0 &&
             blocks[end].layer == blocks[b].layer) {
        ++end;
      }
      if (blocks[b].layer >= 0) spans.push_back({b, end});
      if (!form_.layers_only && (end - b > 1 || blocks[b].layer < 0)) {
        for (std::size_t i = b; i < end; ++i) spans.push_back({i, i + 1});
      }
      b = end;
    }
    return spans;
  }

  // The blocks of the reduced graph that stand for the span's; empty when they are not in one run.
  Span reduced_span(const Span& span) const {
    const auto first = static_cast<std::size_t>(reduced_.block_of[span.begin]);
    for (std::size_t i = span.begin; i < span.end; ++i) {
      if (static_cast<std::size_t>(reduced_.block_of[i]) != first + (i - span.begin)) return {};
    }
    return {first, first + (span.end - span.begin)};
  }

  const std::vector<KeepSet>& frontier_of(const Span& reduced) {
    std::vector<std::int32_t> kinds;
    for (std::size_t i = reduced.begin; i < reduced.end; ++i) {
      kinds.push_back(reduced_.blocks[i].kind);
    }
    const auto found = frontiers_.find(kinds);
    if (found != frontiers_.end()) return found->second;
    return frontiers_.emplace(kinds, std::vector<KeepSet>{}).first->second;
  }

  void add_options(const Span& span) {
    const Span reduced = reduced_span(span);
    if (reduced.begin == reduced.end) return;
    for (const KeepSet& set : frontier_of(reduced)) {
      if (!form_.keep_lists && !set.keep.empty()) continue;
      KeepOption option{.begin = static_cast<std::int32_t>(span.begin),
                        .end = static_cast<std::int32_t>(span.end),
                        .held_bytes = set.held_bytes,
                        .forward_peak_bytes = set.forward_peak_bytes,
                        .backward_peak_bytes = set.backward_peak_bytes,
                        .extra_cost = set.recompute_cost};
      for (const TensorId tensor : set.keep) option.keep.push_back(tensor);
      problem_.chain.options.push_back(std::move(option));
    }
  }

  void restrict_blocks() {
    if (form_.nesting) return;
    for (ChainBlock& block : problem_.chain.blocks) block.sweep_peak_bytes = kNotAllowed;
  }

  const Graph& graph_;
  const PlanRequest& request_;
  const ChainForm& form_;
  ChainProblem problem_ = {};
  ReducedGraph reduced_ = {};
  OpCosts reduced_costs_ = {};
  std::map<std::vector<std::int32_t>, std::vector<KeepSet>> frontiers_ = {};
};

}  // namespace

ChainProblem chain_problem(const Graph& graph, const PlanRequest& request, const ChainForm& form) {
  return ProblemBuilder(graph, request, form).build();
}

}  // namespace cairn
