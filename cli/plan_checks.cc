#include "cli/plan_checks.h"

#include <fmt/format.h>

#include <utility>

#include "graph/error.h"

namespace cairn {
namespace {

Target parse_target(const std::string& text) {
  if (const std::optional<Target> target = find_target(text)) return *target;
  throw InputError(fmt::format("--for: expected one of {}, found '{}'{}",
                               join_names(target_names()), text,
                               did_you_mean(text, target_names())));
}

std::string_view why_this_extent(Target target) {
  switch (target) {
    case Target::kTorch:
      return "torch.utils.checkpoint without reentry stops at the last saved tensor";
    case Target::kHf:
      return "Transformers wraps layers in torch.utils.checkpoint without reentry, which stops at "
             "the last saved tensor";
    case Target::kMegatron:
    case Target::kTorchtitan:
      return "it reruns the whole of what it wraps";
    case Target::kAny:
    case Target::kJax:
      return "only what backward still needs is rerun";
  }
  CAIRN_CHECK(false, "unknown target");
}

// That of the target; where it restricts nothing, any.
Extent planned_extent(const PlanOptions& options, Target target) {
  const Extent own = target_extent(target);
  if (!options.extent) return own;
  const Extent asked = parse_extent(*options.extent);
  if (target == Target::kAny || asked == own) return asked;
  throw InputError(fmt::format("--for {} and --extent {}: {}; expected {}, or no --extent",
                               target_name(target), extent_name(asked), why_this_extent(target),
                               extent_name(own)));
}

void refuse_contradictions(const PlanOptions& options) {
  const auto refuse_both = [](bool both, const char* message) {
    if (both) throw InputError(message);
  };
  refuse_both(options.json && options.csv, "--json and --csv: expected one of them, found both");
  refuse_both(options.csv && !options.frontier,
              "--csv prints the rows of --frontier; expected --frontier too");
  refuse_both(options.svg && !options.frontier, "--svg draws --frontier; expected --frontier too");
  refuse_both(options.csv && options.compare,
              "--csv prints the rows of --frontier; --compare has --json");
  refuse_both(options.shapes && options.frontier,
              "--shapes and --frontier: a frontier is of one shape; expected --batch and --tokens");
  refuse_both(options.shapes && options.costs,
              "--shapes and --costs: costs are measured of one shape; expected one of them");
  refuse_both(
      options.output == "-" && (options.json || options.csv || options.compare || options.frontier),
      "-o -: the plan file is all that goes to stdout; expected -o FILE");
}

BudgetRequest budget_of(const DeviceSpec& gpu) {
  return {.kind = BudgetKind::kGpu, .text = gpu.id, .bytes = capacity_bytes(gpu), .gpu = gpu};
}

}  // namespace

CheckedPlanOptions check_plan_options(const PlanOptions& options) {
  refuse_contradictions(options);
  // An extent alone is that of some trainer which is not known.
  const std::string default_target(target_name(options.extent ? Target::kAny : Target::kTorch));
  CheckedPlanOptions checked{.strategy = parse_algorithm(options.algorithm),
                             .target = parse_target(options.target.value_or(default_target))};
  checked.extent = planned_extent(options, checked.target);
  checked.gpu = requested_gpu(options.gpu, options.model.folders);
  if (options.budget) {
    checked.budget = parse_budget(*options.budget, folder_paths(options.model.folders));
    if (!checked.gpu) checked.gpu = checked.budget->gpu;
  } else if (checked.gpu) {
    checked.budget = budget_of(*checked.gpu);
  }
  if (checked.budget) return checked;
  const bool needs_budget = !options.frontier || options.compare || options.output;
  if (needs_budget) {
    throw InputError(
        "expected a budget: --budget 12GiB, --budget 60% of the peak of keeping everything, "
        "--budget gpu:rtx4090, or --gpu rtx4090 for what that leaves; or --frontier for all");
  }
  return checked;
}

}  // namespace cairn
