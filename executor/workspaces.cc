#include "executor/workspaces.h"

#include <chrono>
#include <cstring>

#include "executor/device.h"
#include "executor/executor.h"
#include "graph/error.h"
#include "graph/ops/op_kind.h"
#include "graph/plan.h"
#include "graph/schedule.h"

namespace cairn {
namespace {

// Has memory for everything, holds nothing and computes nothing.
class IdleDevice : public Device {
 public:
  std::string name() const override { return "idle"; }
  void* allocate(std::int64_t) override { return &byte_; }
  void release(void*) noexcept override {}
  void copy_in(void*, const void*, std::int64_t) override {}
  void copy_out(void* to, const void*, std::int64_t bytes) override {
    std::memset(to, 0, static_cast<std::size_t>(bytes));
  }
  void fill(void*, std::uint8_t, std::int64_t) override {}
  void launch(int, const void*, std::int64_t) override {}
  void multiply(const MatrixProduct&) override {}
  void synchronize() override {}
  void wait_since(std::chrono::steady_clock::time_point, std::int64_t) override {}
  std::int64_t footprint_bytes() const override { return 0; }

 private:
  std::uint8_t byte_ = 0;
};

}  // namespace

Graph with_executor_workspaces(Graph graph) {
  IdleDevice device;
  const Schedule schedule = lower(graph, keep_all_plan(graph));
  Executor executor(graph, schedule, device, {});
  executor.run_step();
  const std::vector<OpWorkspaces>& found = executor.workspaces();
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    Op& op = graph.ops[i];
    if (op.kind->name == "custom") continue;
    op.workspace_bytes = found[i].forward_bytes;
    op.backward_workspace_bytes = found[i].backward_bytes;
    op.sweep_workspace_bytes.reset();
  }
  return graph;
}

}  // namespace cairn
