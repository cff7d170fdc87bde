#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/chosen_plan.h"
#include "cli/command.h"
#include "cli/costs_option.h"
#include "cli/frozen_layers.h"
#include "cli/header.h"
#include "cli/json.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/peak.h"
#include "cli/phases.h"
#include "cli/step_names.h"
#include "cli/text.h"
#include "cli/timeline.h"
#include "cli/units.h"
#include "models/plan_file.h"

namespace cairn {
namespace {

// More rows than this are put together, unless --steps asks for all.
constexpr std::size_t kMostRows = 100;

struct SimulateOptions {
  ModelOptions model = {};
  std::optional<std::string> gpu = {};
  std::optional<std::string> costs = {};
  std::optional<std::string> checkpointing = {};
  std::optional<std::string> extent = {};
  std::optional<std::string> plan = {};
  std::optional<std::string> write_plan = {};
  std::string top = "10";
  bool all_steps = false;
  bool json = false;
};

struct Simulation {
  ModelRequest request = {};
  LoadedModel model = {};
  std::optional<DeviceSpec> gpu = {};
  std::optional<MeasuredCosts> costs = {};
  Evaluation evaluation = {};
  std::size_t top_count = 0;
};

Simulation simulate_model(const SimulateOptions& options) {
  Simulation simulation{
      .gpu = requested_gpu(options.gpu, options.model.folders),
      .top_count = static_cast<std::size_t>(parse_count(options.top, "--top", 1000))};
  ChosenPlan chosen =
      choose_plan({options.model, options.checkpointing, options.extent, options.plan});
  simulation.request = std::move(chosen.request);
  simulation.model = std::move(chosen.model);
  if (simulation.gpu && !options.costs) {
    std::string note = precision_note(simulation.model, *simulation.gpu);
    if (!note.empty()) simulation.model.notes.push_back(std::move(note));
  }
  simulation.costs = requested_costs(options.costs, simulation.request, simulation.model);
  const Graph& graph = simulation.model.graph;
  for (std::string& note : frozen_layer_notes(graph)) {
    simulation.model.notes.push_back(std::move(note));
  }
  simulation.evaluation =
      evaluate_plan(graph, std::move(chosen.plan),
                    {.step = simulation.model.recipe.step,
                     .device = simulation.gpu ? &*simulation.gpu : nullptr,
                     .rest_ns = simulation.costs ? rest_ns(*simulation.costs) : std::int64_t{0}});
  return simulation;
}

std::string summary_text(const Simulation& simulation) {
  const Evaluation& evaluation = simulation.evaluation;
  const Trace& trace = evaluation.trace;
  std::string text = fmt::format("Peak of {}: {} ({} bytes), in the {}", evaluation.name,
                                 bytes_text(trace.peak_bytes), grouped_text(trace.peak_bytes),
                                 peak_place(simulation.model.graph, evaluation));
  if (trace.recompute_count > 0) {
    text += fmt::format("; {} op{} recomputed", grouped_text(trace.recompute_count),
                        trace.recompute_count == 1 ? " is" : "s are");
  }
  if (evaluation.time) {
    text += fmt::format("; a step takes {}", duration_text(evaluation.time->total_ns));
    if (evaluation.time->recompute_ns > 0) {
      text += fmt::format(", {} of it recompute", duration_text(evaluation.time->recompute_ns));
    }
  }
  return labelled_text("", text + ".");
}

// Whether it fits the GPU.
std::string fits_text(const Simulation& simulation) {
  const std::int64_t capacity = capacity_bytes(*simulation.gpu);
  const std::int64_t room_bytes = capacity - simulation.evaluation.trace.peak_bytes;
  return labelled_text("", room_bytes >= 0
                               ? fmt::format("It fits in the {} for tensors, and leaves {}.",
                                             bytes_text(capacity), bytes_text(room_bytes))
                               : fmt::format("It does not fit in the {} for tensors: {} too much.",
                                             bytes_text(capacity), bytes_text(-room_bytes)));
}

std::string simulate_text(const Simulation& simulation, bool all_steps) {
  const Graph& graph = simulation.model.graph;
  const Evaluation& evaluation = simulation.evaluation;
  std::string text = model_header(simulation.model);
  if (simulation.gpu) text += gpu_header(*simulation.gpu);
  text += costs_header(simulation.costs);
  text += extent_header(simulation.evaluation.plan.extent);
  text += "\n" + summary_text(simulation);
  if (simulation.gpu) text += fits_text(simulation);
  text += "\n";
  text += timeline_text(
      all_steps ? step_rows(graph, evaluation) : condensed_rows(graph, evaluation, kMostRows),
      evaluation.trace.peak_bytes);
  text += "\nPeaks by phase\n" + phases_text(graph, evaluation, peak_without_gradients(graph));
  text += "\nThe peak by category\n" + breakdown_text(evaluation.trace);
  text +=
      "\nThe largest in it\n" + largest_groups_text(evaluation.trace, simulation.top_count, true);
  std::string notes;
  for (const std::string& note : simulation.model.notes) notes += labelled_text("Note: ", note);
  for (const std::string& note : evaluation.schedule.warnings) {
    notes += labelled_text("Note: ", note);
  }
  return notes.empty() ? text : text + "\n" + notes;
}

std::string simulate_json(const Simulation& simulation) {
  const Graph& graph = simulation.model.graph;
  const Evaluation& evaluation = simulation.evaluation;
  const Trace& trace = evaluation.trace;
  Json document = new_document();
  add_model(document, simulation.model);
  document["extent"] = std::string(extent_name(simulation.evaluation.plan.extent));
  document["gpu"] = simulation.gpu ? Json(simulation.gpu->id) : Json();
  document["costs"] = costs_json(simulation.costs);
  document["checkpointing"] = evaluation.name;
  document["resident_bytes"] = trace.resident_bytes;
  document["peak_bytes"] = trace.peak_bytes;
  document["peak_step"] = trace.peak_entry;
  document["peak_at"] = peak_place(graph, evaluation);
  document["breakdown"] = breakdown_json(trace);
  document["phases"] = phases_json(graph, evaluation, peak_without_gradients(graph));
  document["extra_flops"] = trace.recompute_flops;
  document["recompute_count"] = trace.recompute_count;
  document["step_time_ns"] = evaluation.time ? Json(evaluation.time->total_ns) : Json();
  document["live_at_peak"] = Json::array();
  for (const LiveItem& item : trace.live_at_peak) {
    if (document["live_at_peak"].size() == simulation.top_count) break;
    document["live_at_peak"].push_back(
        {{"name", item.name}, {"category", category_key(item.category)}, {"bytes", item.bytes}});
  }
  Json steps = Json::array();
  for (const StepTrace& entry : trace.steps) {
    const Step& step = evaluation.schedule.steps[entry.step];
    const bool is_optimizer = step.kind == StepKind::kOptimizerStep;
    steps.push_back({{"kind", std::string(step_kind_name(step.kind))},
                     {"op", is_optimizer ? Json() : Json(graph.op(step.op).name)},
                     {"micro_batch", step.micro_batch},
                     {"during_bytes", entry.during_bytes},
                     {"after_bytes", entry.after_bytes}});
  }
  document["steps"] = std::move(steps);
  document["notes"] = simulation.model.notes;
  for (const std::string& note : evaluation.schedule.warnings) document["notes"].push_back(note);
  return json_text(document);
}

ExitCode run_simulate(const SimulateOptions& options) {
  const Simulation simulation = simulate_model(options);
  if (options.write_plan) {
    write_plan_file(*options.write_plan, simulation.request, simulation.model,
                    simulation.evaluation.plan);
  }
  write_output(options.json ? simulate_json(simulation)
                            : explained_dims(options.model, simulation.model) +
                                  simulate_text(simulation, options.all_steps));
  return ExitCode::kDone;
}

}  // namespace

Command add_simulate_command(CLI::App& app) {
  const auto options = std::make_shared<SimulateOptions>();
  CLI::App* const command = app.add_subcommand("simulate", "What happens in memory, step by step?");
  add_model_options(*command, options->model);
  command->get_option("MODEL")->description(
      "Catalogue name; config.json or its folder; model,\ngraph or plan file; org/name in the "
      "Hugging Face\ncache");
  add_gpu_option(*command, options->gpu);
  add_costs_option(*command, options->costs);
  add_checkpointing_option(*command, options->checkpointing);
  command->add_option("--plan", options->plan, "A plan file for MODEL, instead of a strategy")
      ->type_name("FILE");
  command
      ->add_option("--write-plan", options->write_plan,
                   "Write the plan to a file, which can be a MODEL here")
      ->type_name("FILE");
  add_extent_option(*command, options->extent);
  command->add_option("--top", options->top, "How many of the largest to list; default 10")
      ->type_name("N");
  command->add_flag("--steps", options->all_steps, "One row for each step");
  add_json_option(*command, options->json);
  command->footer("Example: cairn simulate gpt2 --checkpointing every-layer --batch 8");
  return {.app = command, .run = [options] { return run_simulate(*options); }};
}

}  // namespace cairn
