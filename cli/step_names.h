#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/evaluation.h"

// What reports say of an evaluation: its phases, and the names of its steps.

namespace cairn {

// The largest step of a forward pass without gradients (graph/evaluation_graph.h), whatever the
// plan.
struct ForwardPeak {
  std::int64_t bytes = 0;
  std::string place = {};
};
ForwardPeak peak_without_gradients(const Graph& graph);

// The largest of each phase from load to checkpoint save: of the first training step, and of a
// later one, where they differ.
struct PhaseRow {
  Phase phase = Phase::kLoad;
  std::optional<std::int64_t> first_bytes = {};  // empty for what is no part of a training step
  std::int64_t later_bytes = 0;
  std::string place = {};  // "layers.31.down"; "" where it says nothing
};
std::vector<PhaseRow> phase_rows(const Graph& graph, const Evaluation& evaluation,
                                 const ForwardPeak& without_gradients);

// The op, "layers.31.down", or the one parameter; "" of the optimizer for all parameters.
std::string step_subject(const Graph& graph, const Schedule& schedule, const Step& step);

// "backward of layers.31.down", "... in a later micro-batch".
std::string step_place(const Graph& graph, const Schedule& schedule, const Step& step);
std::string peak_place(const Graph& graph, const Evaluation& evaluation);

// The step of the peak. The schedule must have one, as that of every graph has.
const Step& peak_step(const Evaluation& evaluation);

}  // namespace cairn
