#include "export/traps.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/ops/op_kind.h"

namespace cairn {
namespace {

// Ops in the regions of the plan that a Backward needs.
std::vector<const Op*> recomputed_ops(const ExportAnswer& answer) {
  const Evaluation& evaluation = answer.exported.evaluation;
  std::vector<bool> is_there(answer.graph->ops.size(), false);
  for (const Step& step : evaluation.schedule.steps) {
    if (step.kind == StepKind::kRecompute) is_there[index(step.op)] = true;
  }
  std::vector<const Op*> ops;
  for (std::size_t i = 0; i < is_there.size(); ++i) {
    if (is_there[i]) ops.push_back(&answer.graph->ops[i]);
  }
  return ops;
}

// Layers, by number of order, that a reentrant checkpoint would leave without gradients: nothing
// that the region reads requires one.
std::vector<std::int64_t> layers_without_gradient(const ExportAnswer& answer) {
  std::vector<std::int64_t> layers;
  for (const LayerRegion& region : answer.exported.layers.regions) {
    bool is_reached = false;
    for (std::int32_t i = region.begin; i < region.end; ++i) {
      const Op& op = answer.graph->ops[static_cast<std::size_t>(i)];
      for (const TensorId input : op.inputs) {
        const Tensor& tensor = answer.graph->tensor(input);
        const bool is_inside = tensor.producer != kNoOp &&
                               static_cast<std::int32_t>(index(tensor.producer)) >= region.begin;
        const bool is_passed = tensor.role != TensorRole::kParameter && !is_inside;
        if (is_passed && tensor.requires_grad) is_reached = true;
      }
    }
    if (is_reached || region.first_layer < 0) continue;
    for (std::int32_t i = region.first_layer; i < region.end_layer; ++i) layers.push_back(i);
  }
  return layers;
}

bool has_kind(const Op& op, std::string_view name) {
  return op.kind != nullptr && op.kind->name == name;
}

void add_reentrant_trap(const ExportAnswer& answer, std::vector<std::string>& traps) {
  const std::vector<std::int64_t> layers = layers_without_gradient(answer);
  if (layers.empty() || !answer.target->behaviour.is_torch) return;
  traps.push_back(fmt::format(
      "nothing that layer{} {} is called with requires a gradient: {} would silently train no "
      "parameter there{}",
      layers.size() == 1 ? "" : "s", ranges_text(layers),
      answer.target->behaviour.is_reentrant ? "this trainer's reentrant checkpoints"
                                            : "use_reentrant=True",
      answer.target->behaviour.is_reentrant ? "; make the embedding's output require a gradient"
                                            : ""));
}

// What the peak is of, where it is not the trainer's code.
void add_code_trap(const ExportAnswer& answer, std::vector<std::string>& traps) {
  const ExportTarget& target = *answer.target;
  const std::string& library = answer.request.library;
  if (!target.has_own_code || library.empty() || library == target.own_library) return;
  traps.push_back(fmt::format(
      "peak and slowdown are of the model as library '{}' runs it; {} has code of its own{}",
      library, target.name,
      target.own_library.empty() ? "" : fmt::format(": see --library {}", target.own_library)));
}

}  // namespace

bool recomputes_random(const ExportAnswer& answer) {
  const std::vector<const Op*> ops = recomputed_ops(answer);
  return std::any_of(ops.begin(), ops.end(),
                     [](const Op* op) { return op->recompute == RecomputePolicy::kReplayRandom; });
}

std::vector<std::string> export_traps(const ExportAnswer& answer) {
  std::vector<std::string> traps;
  const std::vector<const Op*> ops = recomputed_ops(answer);
  const auto any = [&](const auto& test) {
    return std::any_of(ops.begin(), ops.end(), [&](const Op* op) { return test(*op); });
  };
  add_code_trap(answer, traps);
  add_reentrant_trap(answer, traps);
  const CheckpointBehaviour& behaviour = answer.target->behaviour;
  if (recomputes_random(answer)) {
    if (!behaviour.replays_random) {
      traps.emplace_back(
          "the layers have dropout, and this trainer's recompute draws other masks than forward: "
          "gradients are silently wrong; set dropout to 0");
    } else if (behaviour.is_torch && !behaviour.is_reentrant) {
      traps.emplace_back(
          "the layers have dropout: with preserve_rng_state=False gradients would be silently "
          "wrong");
    }
  }
  if (any([](const Op& op) { return has_kind(op, "topk") || has_kind(op, "dispatch"); })) {
    traps.emplace_back(
        "the layers route tokens to experts: where a recompute is not bit-equal to forward, a "
        "router may choose others, and the step fails or is wrong; train with deterministic "
        "kernels, or keep these layers");
  }
  if (behaviour.is_torch && any([](const Op& op) { return op.side_effect == SideEffect::kOnce; })) {
    traps.emplace_back(
        "the layers have batch norm: a recompute updates its running statistics a second time; "
        "gradients stay right, evaluation changes");
  }
  if (answer.request.is_autocast && behaviour.is_torch && !ops.empty()) {
    traps.emplace_back(
        "under autocast a recompute casts the weights of these layers again; enter autocast "
        "around the whole forward, so that it is restored for the recompute");
  }
  if (answer.target->traps != nullptr) {
    for (std::string& trap : answer.target->traps(answer)) traps.push_back(std::move(trap));
  }
  return traps;
}

}  // namespace cairn
