#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"
#include "graph/plan.h"
#include "graph/schedule.h"

// Schedules as the documentation writes them, so that a test shows every step it is about.

namespace cairn {

// "C norm  C lin  F n  B loss  FG loss": each step and its op (C, R, B) or tensor (F, FG) by name.
Schedule schedule_from_text(const Graph& graph, std::string_view text);

std::string schedule_text(const Graph& graph, const Schedule& schedule);

// For the message of a failing random test: a line for each op, one for the plan.
std::string graph_text(const Graph& graph);
std::string plan_text(const Graph& graph, const Plan& plan);

}  // namespace cairn
