#include <fmt/format.h>

#include "export/export_plan.h"
#include "export/targets.h"

// Megatron-LM's arguments; Megatron Bridge and NeMo 2 take the same as fields of the model
// (Megatron core 0.16: transformer_config.py and transformer_block.py).

namespace cairn {
namespace {

struct Arguments {
  std::string granularity = {};
  std::string method = {};
  std::int64_t layer_count = 0;
};

Arguments arguments_of(const LayerPlan& plan) {
  if (const auto count = first_layers(plan)) {
    if (*count == 0) return {};
    const auto all = static_cast<std::int64_t>(plan.layers.size());
    if (*count == all) return {.granularity = "full", .method = "uniform", .layer_count = 1};
    return {.granularity = "full", .method = "block", .layer_count = *count};
  }
  if (const auto step = equal_runs(plan)) {
    return {.granularity = "full", .method = "uniform", .layer_count = *step};
  }
  return {.granularity = "selective"};
}

std::string write(const ExportAnswer& answer) {
  const Arguments arguments = arguments_of(answer.exported.layers);
  if (arguments.granularity.empty()) {
    return "# Nothing is recomputed: leave out --recompute-granularity.\nRECOMPUTE_ARGS=()\n";
  }
  std::string text =
      fmt::format("RECOMPUTE_ARGS=(\n    --recompute-granularity {}\n", arguments.granularity);
  std::string fields = fmt::format("recompute_granularity=\"{}\"", arguments.granularity);
  if (arguments.method.empty()) {
    text += "    --recompute-modules core_attn\n";
    fields += ", recompute_modules=[\"core_attn\"]";
  } else {
    text += fmt::format("    --recompute-method {}\n    --recompute-num-layers {}\n",
                        arguments.method, arguments.layer_count);
    fields += fmt::format(",\n#   recompute_method=\"{}\", recompute_num_layers={}",
                          arguments.method, arguments.layer_count);
  }
  return text + ")\n# Megatron Bridge and NeMo 2, as fields of the model's configuration:\n#   " +
         fields + "\n";
}

std::vector<std::string> traps(const ExportAnswer& answer) {
  std::vector<std::string> traps;
  const Arguments arguments = arguments_of(answer.exported.layers);
  if (arguments.granularity.empty()) return traps;
  if (arguments.method == "block") {
    traps.emplace_back(
        "--recompute-num-layers counts in each pipeline stage (each virtual one): this is for one "
        "stage");
  }
  if (arguments.method == "uniform" && arguments.layer_count > 1) {
    traps.emplace_back(
        "each pipeline stage is cut by itself: its number of layers has to be a multiple of "
        "--recompute-num-layers");
  }
  return traps;
}

}  // namespace

ExportTarget megatron_target() {
  return {.name = "megatron",
          .title = "Megatron-LM, Megatron Bridge, NeMo 2",
          .versions = "megatron-core 0.16",
          .has_own_code = true,
          .own_library = "megatron",
          .vocabulary = {.first_layers = true,
                         .equal_runs = true,
                         .equal_runs_divide = true,
                         .core_attention = true},
          .extent = Extent::kWhole,
          .behaviour = {.is_reentrant = true},
          .write = write,
          .traps = traps};
}

}  // namespace cairn
