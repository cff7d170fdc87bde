#include "cli/phases.h"

#include "cli/table.h"
#include "cli/text.h"
#include "cli/units.h"

namespace cairn {
namespace {

constexpr std::size_t kWidestPlace = 28;

}  // namespace

std::string phases_text(const Graph& graph, const Evaluation& evaluation,
                        const ForwardPeak& without_gradients) {
  Table table{
      .columns = {{""}, {"first\nstep", Align::kRight}, {"later\nsteps", Align::kRight}, {"at"}}};
  for (const PhaseRow& row : phase_rows(graph, evaluation, without_gradients)) {
    const std::string later = bytes_text(row.later_bytes);
    table.rows.push_back({"  " + std::string(phase_name(row.phase)),
                          row.first_bytes ? bytes_text(*row.first_bytes) : "", later,
                          elide_middle(row.place, kWidestPlace)});
  }
  return table_text(table);
}

Json phases_json(const Graph& graph, const Evaluation& evaluation,
                 const ForwardPeak& without_gradients) {
  Json phases = Json::array();
  for (const PhaseRow& row : phase_rows(graph, evaluation, without_gradients)) {
    Json phase;
    phase["phase"] = std::string(phase_name(row.phase));
    phase["first_step_bytes"] = row.first_bytes ? Json(*row.first_bytes) : Json();
    phase["bytes"] = row.later_bytes;
    phase["at"] = row.place.empty() ? Json() : Json(row.place);
    phases.push_back(std::move(phase));
  }
  return phases;
}

}  // namespace cairn
