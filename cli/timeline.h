#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/step_names.h"
#include "graph/graph.h"

// The steps of a schedule condensed to rows that a person can read: one for each block and phase,
// or fewer where those are many.

namespace cairn {

struct TimelineRow {
  std::string what = {};  // "forward layers.0", "backward loss ... norm"
  std::size_t step_count = 0;
  std::int64_t during_bytes = 0;  // the largest of its steps
  std::int64_t after_bytes = 0;   // after its last step
  bool has_peak = false;
};

// One row for each step.
std::vector<TimelineRow> step_rows(const Graph& graph, const Evaluation& evaluation);

// One row for each run of steps of one kind and block; when there are more than `most` of these,
// neighbours of the same pass are put together.
std::vector<TimelineRow> condensed_rows(const Graph& graph, const Evaluation& evaluation,
                                        std::size_t most);

// A table with a bar for each row's largest bytes, scaled to the peak.
std::string timeline_text(const std::vector<TimelineRow>& rows, std::int64_t peak_bytes);

}  // namespace cairn
