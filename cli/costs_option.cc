#include "cli/costs_option.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/text.h"
#include "cli/units.h"
#include "models/cost_file.h"

namespace cairn {

void add_costs_option(CLI::App& command, std::optional<std::string>& path) {
  command
      .add_option("--costs", path,
                  "Measured times of the ops, by cairn run --profile,\nin place of a GPU's")
      ->type_name("FILE");
}

std::optional<MeasuredCosts> requested_costs(const std::optional<std::string>& path,
                                             const ModelRequest& request, LoadedModel& model) {
  if (!path) return std::nullopt;
  MeasuredCosts costs = read_costs_of(read_document(*path), request, model);
  set_measured_times(model.graph, costs);
  return costs;
}

std::string costs_header(const std::optional<MeasuredCosts>& costs) {
  if (!costs) return {};
  return labelled_text(
      "costs      ",
      fmt::format("times measured on {}, medians of {} step{}: {} a step, {} between its quartiles",
                  costs->device, grouped_text(costs->step_count), costs->step_count == 1 ? "" : "s",
                  duration_text(costs->step.median_ns), duration_text(costs->step.spread_ns)));
}

Json costs_json(const std::optional<MeasuredCosts>& costs) {
  if (!costs) return {};
  return {{"device", costs->device},
          {"step_count", costs->step_count},
          {"step_ns", costs->step.median_ns},
          {"step_spread_ns", costs->step.spread_ns},
          {"optimizer_ns", costs->optimizer.median_ns},
          {"overhead_ns", costs->overhead.median_ns}};
}

}  // namespace cairn
