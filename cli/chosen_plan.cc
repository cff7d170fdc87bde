#include "cli/chosen_plan.h"

#include <fmt/format.h>

#include <utility>

#include "cli/planned_model.h"
#include "graph/error.h"
#include "models/plan_file.h"
#include "models/plan_origin.h"

namespace cairn {

std::optional<Document> named_plan_file(const PlanChoice& choice) {
  std::optional<Document> file = find_plan_file(choice.model.model);
  if (file && choice.plan) {
    throw InputError(
        fmt::format("{} and --plan: expected one plan, found two", choice.model.model));
  }
  const std::string where = choice.plan ? "--plan" : choice.model.model;
  if ((file || choice.plan) && choice.checkpointing) {
    throw InputError(where + " and --checkpointing: expected one of them, found both");
  }
  if (!choice.plan) return file;
  return read_document(*choice.plan);
}

ChosenPlan choose_plan(const PlanChoice& choice) {
  const std::optional<Document> file = named_plan_file(choice);
  if (choice.checkpointing) parse_strategy(*choice.checkpointing);  // before the work
  std::optional<Extent> extent;
  if (choice.extent) extent = parse_extent(*choice.extent);
  ChosenPlan chosen;
  if (file && !choice.plan) {
    PlannedModel planned = load_planned_model(*file, choice.model);
    chosen.request = std::move(planned.request);
    chosen.model = std::move(planned.model);
  } else {
    chosen.request = model_request(choice.model);
    chosen.request.is_checkpointed =
        file ? has_regions(*file)
             : is_checkpointed(requested_strategy(choice.checkpointing, chosen.request));
    chosen.model = load_model(chosen.request);
  }
  chosen.plan =
      file ? read_plan_of(*file, chosen.request, chosen.model, extent)
           : make_plan(chosen.model.graph, requested_strategy(choice.checkpointing, chosen.request),
                       requested_extent(choice.extent, chosen.request));
  return chosen;
}

}  // namespace cairn
