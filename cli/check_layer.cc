#include "cli/check_layer.h"

#include <vector>

#include "graph/error.h"
#include "sim/replay.h"

namespace cairn {
namespace {

bool is_in_block(const Graph& graph, OpId op, std::int32_t block) {
  return op != kNoOp && graph.op(op).block == block;
}

// Whether anything is on the storage.
std::vector<bool> live_storages(const Graph& graph, const Replay& replay) {
  std::vector<bool> live(graph.storages.size(), false);
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const auto id = static_cast<TensorId>(i);
    if (replay.allocation_of(id) >= 0) live[index(graph.tensor(id).storage)] = true;
  }
  return live;
}

}  // namespace

std::int64_t kept_by_middle_layer(const Graph& graph, const Schedule& schedule) {
  if (graph.block_count == 0) throw InputError("saved_bytes_per_layer: the model has no layers");
  const std::int32_t block = graph.block_count / 2;
  std::size_t last = 0;  // position of the block's last Compute of the first micro-batch
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (step.kind == StepKind::kCompute && step.micro_batch == 0 &&
        is_in_block(graph, step.op, block)) {
      last = i;
    }
  }
  Replay replay(graph, schedule);
  for (std::size_t position = 0; position <= last;) {
    replay.begin_step(position);
    position = replay.end_step(position);
  }
  const std::vector<bool> live = live_storages(graph, replay);
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < graph.storages.size(); ++i) {
    const Storage& storage = graph.storages[i];
    if (live[i] && is_in_block(graph, graph.tensor(storage.owner).producer, block)) {
      bytes += storage.bytes;
    }
  }
  return bytes;
}

}  // namespace cairn
