#include "cli/runnable.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "cli/units.h"
#include "graph/error.h"

namespace cairn {
namespace {

constexpr double kNoDecay = 0.0;

constexpr std::array<std::pair<std::string_view, OptimizerSettings>, 4> kOptimizers = {
    {{"adamw", {.rule = SteppedBy::kAdamW}},
     {"adam", {.rule = SteppedBy::kAdamW, .weight_decay = kNoDecay}},
     {"sgd", {.rule = SteppedBy::kSgd}},
     {"sgd-momentum", {.rule = SteppedBy::kSgdMomentum}}}};

const OptimizerSettings* find_settings(std::string_view optimizer) {
  for (const auto& [name, settings] : kOptimizers) {
    if (name == optimizer) return &settings;
  }
  return nullptr;
}

void check_optimizer(const ModelRequest& request) {
  std::vector<std::string> names;
  for (const auto& [name, settings] : kOptimizers) names.emplace_back(name);
  if (find_settings(request.optimizer) == nullptr) {
    throw InputError(fmt::format("--optimizer {}: the executor has no kernel for it; expected {}{}",
                                 request.optimizer, join_names(names),
                                 did_you_mean(request.optimizer, names)));
  }
  if (request.step.optimizer_loop != OptimizerLoop::kFused) {
    throw InputError(fmt::format(
        "--optimizer-loop {}: the executor steps a parameter in one kernel; expected fused",
        optimizer_loop_name(request.step.optimizer_loop)));
  }
  if (request.optimizer_state_type) {
    throw InputError(fmt::format(
        "--optimizer-states {}: the executor makes states in the type that it steps; expected none",
        data_type_name(*request.optimizer_state_type)));
  }
}

}  // namespace

void check_runnable(const ModelRequest& request) {
  if (request.recipe.needs_several_gpus) {
    throw InputError(fmt::format("--recipe {}: it needs several GPUs; a run has one device",
                                 request.recipe.name));
  }
  check_optimizer(request);
  if (request.quantization) {
    throw InputError("--quantize: the executor has no kernels for quantised weights");
  }
  if (request.step.main_gradient_type) {
    throw InputError("--main-gradients: the executor adds gradients where they are; expected none");
  }
}

OptimizerSettings optimizer_settings(const ModelRequest& request) {
  const OptimizerSettings* const settings = find_settings(request.optimizer);
  CAIRN_CHECK(settings != nullptr, "the optimizer is one that can be run");
  return *settings;
}

void check_available(const Device& device, const std::string& plan, std::int64_t peak_bytes,
                     const std::string& advice) {
  const std::int64_t available_bytes = device.available_bytes();
  if (peak_bytes <= available_bytes) return;
  throw DeviceError(
      fmt::format("{} peaks at {} ({} bytes), and {} has {} ({} bytes) left: it is not run{}", plan,
                  bytes_text(peak_bytes), grouped_text(peak_bytes), device.name(),
                  bytes_text(available_bytes), grouped_text(available_bytes), advice));
}

}  // namespace cairn
