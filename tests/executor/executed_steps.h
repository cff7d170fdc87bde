#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "executor/executor.h"
#include "graph/schedule.h"
#include "sim/simulator.h"

// Training steps of a schedule, and what a test compares of them.

namespace cairn {

struct ExecutedSteps {
  std::vector<ExecutedStep> steps = {};
  std::vector<std::map<TensorId, std::vector<std::uint8_t>>> gradients = {};  // by training step
};

// Two training steps by SGD, freed memory poisoned.
ExecutedSteps execute_two_steps(const Graph& graph, const Schedule& schedule, Device& device);

// "" where every step's bytes are those of the trace, else the first that differ.
std::string bytes_difference(const Graph& graph, const Schedule& schedule, const Trace& trace,
                             const ExecutedStep& executed);

// "" or the first gradient that differs.
std::string gradient_difference(const Graph& graph, const ExecutedSteps& a, const ExecutedSteps& b);

}  // namespace cairn
