#include "tests/planner/keep_oracle.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "graph/error.h"
#include "graph/plan.h"
#include "graph/schedule.h"

namespace cairn::test {
namespace {

bool is_made_in(const Graph& graph, const Span& span, TensorId id) {
  const auto position = static_cast<std::int32_t>(graph.tensor(id).producer);
  return span.begin <= position && position < span.end;
}

// Handed to the span, and held for it: with a gradient, or by no Backward before the span.
bool is_handed(const Graph& graph, const Span& span, TensorId id) {
  const Tensor& tensor = graph.tensor(id);
  if (tensor.producer == kNoOp || static_cast<std::int32_t>(tensor.producer) >= span.begin) {
    return false;
  }
  bool is_read = false;
  for (std::int32_t i = span.begin; i < span.end; ++i) {
    const std::vector<TensorId>& inputs = graph.ops[static_cast<std::size_t>(i)].inputs;
    is_read = is_read || std::find(inputs.begin(), inputs.end(), id) != inputs.end();
  }
  if (!is_read || tensor.has_gradient) return is_read;
  for (std::int32_t i = 0; i < span.begin; ++i) {
    const Op& op = graph.ops[static_cast<std::size_t>(i)];
    for (const TensorId saved : op.saved) {
      if (op.has_backward && graph.tensor(saved).storage == tensor.storage) return false;
    }
  }
  return true;
}

// Bytes whose copy from forward is still there where the backward pass of the span begins.
std::int64_t held_bytes_of(const Graph& graph, const Span& span, const Schedule& schedule) {
  std::set<StorageId> held;
  std::set<TensorId> live;
  std::set<TensorId> read_again;  // by the recompute or a Backward of the span
  for (std::int32_t i = span.begin; i < span.end; ++i) {
    const Op& op = graph.ops[static_cast<std::size_t>(i)];
    if (op.has_backward) read_again.insert(op.saved.begin(), op.saved.end());
  }
  for (const Step& step : schedule.steps) {
    if (step.kind != StepKind::kRecompute) continue;
    read_again.insert(graph.op(step.op).inputs.begin(), graph.op(step.op).inputs.end());
  }
  std::set<StorageId> handed;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const auto id = static_cast<TensorId>(i);
    if (is_handed(graph, span, id)) handed.insert(graph.tensor(id).storage);
  }
  bool is_in_backward = false;
  for (const Step& step : schedule.steps) {
    if (step.kind == StepKind::kCompute) {
      const Op& op = graph.op(step.op);
      for (const auto* const made : {&op.outputs, &op.auxiliaries}) {
        live.insert(made->begin(), made->end());
      }
    }
    const bool is_of_span = step.op != kNoOp && span.begin <= static_cast<std::int32_t>(step.op) &&
                            static_cast<std::int32_t>(step.op) < span.end;
    if (is_of_span && step.kind != StepKind::kCompute && !is_in_backward) {
      is_in_backward = true;
      for (const TensorId id : live) {
        const Storage& storage = graph.storage(graph.tensor(id).storage);
        if (is_resident(graph.tensor(storage.owner))) continue;
        const bool is_read = is_made_in(graph, span, id) && read_again.contains(id);
        if (is_read || handed.contains(graph.tensor(id).storage)) {
          held.insert(graph.tensor(id).storage);
        }
      }
    }
    if (step.kind == StepKind::kFree) live.erase(step.tensor);
  }
  std::int64_t bytes = 0;
  for (const StorageId id : held) bytes += graph.storage(id).bytes;
  return bytes;
}

}  // namespace

std::optional<Outcome> outcome_of(const Graph& graph, const Span& span, const Setting& setting,
                                  const OpCosts& costs, const std::vector<TensorId>& keep) {
  Plan plan = keep_all_plan(graph);
  plan.extent = setting.extent;
  plan.regions = {{.begin = span.begin, .end = span.end, .keep = keep}};
  Outcome outcome{.set = {.keep = keep}};
  try {
    outcome.set.held_bytes = held_bytes_of(graph, span, lower(graph, plan));
  } catch (const InputError&) {
    return std::nullopt;
  }
  const SpanProfile profile = span_profile(graph, span, keep, setting);
  outcome.recomputed = profile.recomputed;
  for (const OpId op : profile.recomputed) outcome.set.recompute_cost += costs.forward[index(op)];
  outcome.set.forward_peak_bytes = profile.forward_peak_bytes;
  outcome.set.backward_peak_bytes = profile.backward_peak_bytes;
  return outcome;
}

bool is_claimed(const Graph& graph, const Outcome& outcome) {
  for (const TensorId id : outcome.set.keep) {
    const Tensor& tensor = graph.tensor(id);
    const OpId owner = graph.tensor(graph.storage(tensor.storage).owner).producer;
    for (const OpId op : outcome.recomputed) {
      if (op == tensor.producer || op == owner) return false;
    }
    for (const Op& op : graph.ops) {
      if (op.in_place && graph.tensor(op.inputs[0]).storage == tensor.storage &&
          graph.tensor(op.outputs[0]).producer > tensor.producer) {
        return false;
      }
    }
  }
  return true;
}

bool is_as_good(const KeepSet& a, const KeepSet& b) {
  return a.held_bytes <= b.held_bytes && a.recompute_cost <= b.recompute_cost &&
         a.backward_peak_bytes <= b.backward_peak_bytes;
}

std::string set_text(const Graph& graph, const KeepSet& set) {
  std::string text =
      fmt::format("held {} cost {} forward {} backward {} keep", set.held_bytes, set.recompute_cost,
                  set.forward_peak_bytes, set.backward_peak_bytes);
  for (const TensorId id : set.keep) text += " " + graph.tensor(id).name;
  return text;
}

std::string graph_text(const Graph& graph) {
  std::string text;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const auto list = [&](const char* title, const std::vector<TensorId>& ids) {
      if (!ids.empty()) text += fmt::format("  {}", title);
      for (const TensorId id : ids) {
        const Tensor& tensor = graph.tensor(id);
        text += fmt::format(" {}:{}", tensor.name, tensor.bytes);
        if (is_view(graph, id)) {
          text += fmt::format("@{}", graph.tensor(graph.storage(tensor.storage).owner).name);
        }
        if (tensor.held_until != kNoOp) text += fmt::format("^{}", index(tensor.held_until));
      }
    };
    text += fmt::format("\n{} {}{}{}{} workspace {}", i, op.name,
                        op.recompute == RecomputePolicy::kNever ? " never" : "",
                        op.has_backward ? "" : " no-backward",
                        op.saves_after_forward ? " saves-after" : "", op.workspace_bytes);
    if (op.sweep_workspace_bytes) text += fmt::format("/{}", *op.sweep_workspace_bytes);
    list("reads", op.inputs);
    list("makes", op.outputs);
    list("and", op.auxiliaries);
    list("saves", op.saved);
  }
  return text;
}

void check_numbers(const Graph& graph, const Span& span, const Setting& setting,
                   const OpCosts& costs, const KeepSet& set) {
  const std::optional<Outcome> outcome = outcome_of(graph, span, setting, costs, set.keep);
  REQUIRE_MESSAGE(outcome, set_text(graph, set));
  CHECK_MESSAGE(set_text(graph, outcome->set) == set_text(graph, set), graph_text(graph));
}

}  // namespace cairn::test
