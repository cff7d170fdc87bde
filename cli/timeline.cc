#include "cli/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "cli/block_report.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/units.h"

namespace cairn {
namespace {

constexpr std::size_t kWidestWhat = 34;
constexpr std::size_t kBarWidth = 20;

// A run of neighbouring steps: entries [begin, end) of Trace::steps.
struct Run {
  std::size_t begin = 0;
  std::size_t end = 0;
};

class Timeline {
 public:
  Timeline(const Graph& graph, const Evaluation& evaluation)
      : graph_(graph), evaluation_(evaluation) {}

  std::vector<Run> runs_of_steps() const {
    std::vector<Run> runs;
    for (std::size_t i = 0; i < entry_count(); ++i) runs.push_back({i, i + 1});
    return runs;
  }

  std::vector<Run> runs_of_blocks() const {
    std::vector<Run> runs;
    for (std::size_t i = 0; i < entry_count(); ++i) {
      const bool goes_on = !runs.empty() && step(i).kind == step(i - 1).kind &&
                           block(i) == block(i - 1) &&
                           step(i).micro_batch == step(i - 1).micro_batch;
      if (!goes_on) runs.push_back({i, i});
      runs.back().end = i + 1;
    }
    return runs;
  }

  // Puts `factor` neighbours together, the forward pass apart from what follows it.
  std::vector<Run> merged(const std::vector<Run>& runs, std::size_t factor) const {
    std::vector<Run> result;
    std::size_t in_last = factor;
    for (const Run& run : runs) {
      const bool same_pass = !result.empty() && is_forward(result.back()) == is_forward(run);
      if (same_pass && in_last < factor) {
        result.back().end = run.end;
        ++in_last;
      } else {
        result.push_back(run);
        in_last = 1;
      }
    }
    return result;
  }

  TimelineRow row(const Run& run) const {
    const Trace& trace = evaluation_.trace;
    TimelineRow row{.what = what(run),
                    .step_count = run.end - run.begin,
                    .after_bytes = trace.steps[run.end - 1].after_bytes,
                    .has_peak = run.begin <= trace.peak_entry && trace.peak_entry < run.end};
    for (std::size_t i = run.begin; i < run.end; ++i) {
      row.during_bytes = std::max(row.during_bytes, trace.steps[i].during_bytes);
    }
    return row;
  }

 private:
  std::size_t entry_count() const { return evaluation_.trace.steps.size(); }
  const Step& step(std::size_t entry) const {
    return evaluation_.schedule.steps[evaluation_.trace.steps[entry].step];
  }
  const Op& op(std::size_t entry) const { return graph_.op(step(entry).op); }
  bool is_optimizer(std::size_t entry) const {
    return step(entry).kind == StepKind::kOptimizerStep;
  }
  std::int32_t block(std::size_t entry) const { return is_optimizer(entry) ? -1 : op(entry).block; }
  bool is_forward(const Run& run) const { return step(run.begin).kind == StepKind::kCompute; }

  // "layers.3" of "layers.3.attn" in block 3; the op's name outside of blocks, or where the op is
  // all there is.
  std::string part_name(std::size_t entry, bool whole_name) const {
    if (is_optimizer(entry)) return step_subject(graph_, evaluation_.schedule, step(entry));
    const Op& here = op(entry);
    if (whole_name || here.block < 0) return here.name;
    const std::string prefix = block_prefix(here);
    return prefix.empty() ? fmt::format("block {}", here.block)
                          : prefix.substr(0, prefix.size() - 1);
  }

  std::string what(const Run& run) const {
    std::string kinds(step_kind_name(step(run.begin).kind));
    for (std::size_t i = run.begin; i < run.end; ++i) {
      const std::string_view kind = step_kind_name(step(i).kind);
      if (kinds.find(kind) == std::string::npos) kinds.append(" + ").append(kind);
    }
    const bool is_one = run.end - run.begin == 1;
    const std::string first = part_name(run.begin, is_one);
    const std::string last = part_name(run.end - 1, is_one);
    return first == last ? fmt::format("{} {}", kinds, first)
                         : fmt::format("{} {} .. {}", kinds, first, last);
  }

  const Graph& graph_;
  const Evaluation& evaluation_;
};

std::vector<TimelineRow> rows_of(const Timeline& timeline, const std::vector<Run>& runs) {
  std::vector<TimelineRow> rows;
  rows.reserve(runs.size());
  for (const Run& run : runs) rows.push_back(timeline.row(run));
  return rows;
}

}  // namespace

std::vector<TimelineRow> step_rows(const Graph& graph, const Evaluation& evaluation) {
  const Timeline timeline(graph, evaluation);
  return rows_of(timeline, timeline.runs_of_steps());
}

std::vector<TimelineRow> condensed_rows(const Graph& graph, const Evaluation& evaluation,
                                        std::size_t most) {
  const Timeline timeline(graph, evaluation);
  const std::vector<Run> runs = timeline.runs_of_blocks();
  std::vector<Run> shown = runs;
  for (std::size_t factor = 2; shown.size() > most && factor <= runs.size(); factor *= 2) {
    shown = timeline.merged(runs, factor);
  }
  return rows_of(timeline, shown);
}

std::string timeline_text(const std::vector<TimelineRow>& rows, std::int64_t peak_bytes) {
  Table table{.columns = {{"steps"}, {"during", Align::kRight}, {"after", Align::kRight}, {""}}};
  for (const TimelineRow& row : rows) {
    const double share =
        peak_bytes > 0 ? static_cast<double>(row.during_bytes) / static_cast<double>(peak_bytes)
                       : 0;
    std::string bar(static_cast<std::size_t>(share * static_cast<double>(kBarWidth)), '#');
    if (row.has_peak) bar += " peak";
    table.rows.push_back({elide_middle(row.what, kWidestWhat), bytes_text(row.during_bytes),
                          bytes_text(row.after_bytes), std::move(bar)});
  }
  return table_text(table);
}

}  // namespace cairn
