#include "sim/roofline.h"

#include <doctest/doctest.h>

#include <limits>

#include "graph/error.h"
#include "graph/graph_builder.h"
#include "graph/plan.h"

namespace cairn {
namespace {

// 100 TFLOP/s in 16 bit, 10 in fp32, 1 TB/s, 4 us a launch.
DeviceSpec round_device() {
  return {.id = "round",
          .has_rates = true,
          .matmul_16bit_flops = 100e12,
          .matmul_fp32_flops = 10e12,
          .bandwidth_bytes = 1e12,
          .launch_ns = 4000};
}

// x [1, 1000, 1000] -> linear 2000 -> split in 2 -> loss; the parts are views.
Graph small_model(DataType type) {
  GraphBuilder builder("small", type);
  const TensorId x = builder.add_input("x", type, {1, 1000, 1000}, false);
  const TensorId y = builder.add_op({.name = "linear",
                                     .kind = find_op_kind("linear"),
                                     .attributes = {.width = 2000},
                                     .inputs = {x}})[0];
  const auto parts = builder.add_op(
      {.name = "split", .kind = find_op_kind("split"), .attributes = {.parts = 2}, .inputs = {y}});
  const TensorId h =
      builder.add_op({.name = "gelu", .kind = find_op_kind("gelu"), .inputs = {parts[0]}})[0];
  return builder.build(h);
}

const Op& op_named(const Graph& graph, const std::string& name) {
  for (const Op& op : graph.ops) {
    if (op.name == name) return op;
  }
  FAIL("no op " << name);
  return graph.ops[0];
}

std::int64_t forward_ns(const Graph& graph, const std::string& name) {
  const Op& op = op_named(graph, name);
  return op_time_ns(graph, op, op.forward, round_device());
}

// One custom op, of 8 bytes in and out, at the given cost.
Graph one_op(const Cost& forward, const Cost& backward = {.time_ns = 0}) {
  GraphBuilder builder("one", DataType::kFloat32);
  const TensorId x = builder.add_input_bytes("x", 8, true);
  return builder.build(builder.add_custom({.name = "op",
                                           .inputs = {x},
                                           .outputs = {{.name = "y", .bytes = 8}},
                                           .saved = {"x"},
                                           .forward = forward,
                                           .backward = backward})[0]);
}

std::int64_t ns_of(const Cost& cost) {
  const Graph graph = one_op(cost);
  return op_time_ns(graph, graph.ops[0], graph.ops[0].forward, round_device());
}

}  // namespace

TEST_CASE("the element type decides the rate of a matmul") {
  // 2 * 1000 * 1000 * 2000 = 4e9 FLOPs.
  CHECK(op_named(small_model(DataType::kBFloat16), "linear").forward.flops == 4'000'000'000);
  CHECK(forward_ns(small_model(DataType::kBFloat16), "linear") == 40'000);  // at 100 TFLOP/s
  CHECK(forward_ns(small_model(DataType::kFloat16), "linear") == 40'000);
  CHECK(forward_ns(small_model(DataType::kFloat32), "linear") == 400'000);  // at 10 TFLOP/s
}

TEST_CASE("what only makes views takes no time") {
  CHECK(forward_ns(small_model(DataType::kBFloat16), "split") == 0);
}

TEST_CASE("an op that is no matmul is bound by bandwidth, or by its launches") {
  // gelu reads and writes 1000 * 1000 elements of 2 bytes: 4e6 bytes take 4000 ns, one launch too.
  CHECK(forward_ns(small_model(DataType::kBFloat16), "gelu") == 4'000);
  CHECK(forward_ns(small_model(DataType::kFloat32), "gelu") == 8'000);
  CHECK(ns_of({.moved_bytes = 1'000}) == 4'000);                      // 1 ns of bytes, one launch
  CHECK(ns_of({.moved_bytes = 1'000, .kernel_count = 3}) == 12'000);  // three launches
  CHECK(ns_of({.moved_bytes = 20'000'000, .kernel_count = 3}) == 20'000);
  CHECK(ns_of({.flops = 1'000'000'000'000, .moved_bytes = 1'000}) == 4'000);  // FLOPs do not count
}

TEST_CASE("a matmul takes the longest of its FLOPs, its bytes and its launches") {
  // Custom tensors are fp32: 10 TFLOP/s.
  CHECK(ns_of({.flops = 1'000'000'000, .moved_bytes = 1, .is_matmul = true}) == 100'000);
  CHECK(ns_of({.flops = 1'000'000'000, .moved_bytes = 200'000'000, .is_matmul = true}) == 200'000);
  CHECK(ns_of({.flops = 1'000, .moved_bytes = 1, .kernel_count = 2, .is_matmul = true}) == 8'000);
}

TEST_CASE("what the kernel executes counts, not the field's formula") {
  CHECK(ns_of({.flops = 1'000'000'000,
               .executed_flops = 500'000'000,
               .moved_bytes = 1,
               .is_matmul = true}) == 50'000);
}

TEST_CASE("a loss computes in the type of its input") {
  GraphBuilder builder("loss", DataType::kBFloat16);
  const TensorId x = builder.add_input("x", DataType::kBFloat16, {1, 10, 10}, true);
  const TensorId loss = builder.add_custom(
      {.name = "fused_loss",
       .inputs = {x},
       .outputs = {{.name = "loss", .bytes = 4}},
       .forward = {.flops = 1'000'000'000, .moved_bytes = 1, .is_matmul = true}})[0];
  const Graph graph = builder.build(loss);
  CHECK(graph.tensor(loss).data_type == DataType::kFloat32);
  CHECK(forward_ns(graph, "fused_loss") == 10'000);  // at 100 TFLOP/s
}

TEST_CASE("a stated time overrides the roofline") {
  CHECK(ns_of({.flops = 1'000'000'000, .is_matmul = true, .time_ns = 7}) == 7);
  CHECK(ns_of({.time_ns = 0}) == 0);
}

TEST_CASE("an op in place runs a kernel though its output is a view") {
  GraphBuilder builder("in_place", DataType::kFloat32);
  const TensorId x = builder.add_input_bytes("x", 8, true);
  const TensorId y =
      builder.add_custom({.name = "f", .inputs = {x}, .outputs = {{.name = "y", .bytes = 8}}})[0];
  const TensorId z = builder.add_custom({.name = "relu_",
                                         .inputs = {y},
                                         .outputs = {{.name = "z", .bytes = 8, .view_of = y}},
                                         .in_place = true})[0];
  CHECK(forward_ns(builder.build(z), "relu_") == 4'000);
}

TEST_CASE("times that pass 64 bits are an error, not a wrapped number") {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  DeviceSpec slow = round_device();
  slow.bandwidth_bytes = 1;
  const Graph graph = one_op({.moved_bytes = kMax}, {.moved_bytes = kMax});
  CHECK(op_time_ns(graph, graph.ops[0], graph.ops[0].forward, slow) == kMax);
  const Schedule schedule = lower(graph, keep_all_plan(graph));
  CHECK_THROWS_AS(schedule_time(graph, schedule, &slow), InputError);
}

TEST_CASE("a schedule's time adds its steps, and tells the recomputes apart") {
  // Two ops in one region, then a loss; f1's input must be made again.
  GraphBuilder builder("chain", DataType::kFloat32);
  TensorId x = builder.add_input_bytes("x0", 8, true);
  x = builder.add_custom({.name = "f0",
                          .inputs = {x},
                          .outputs = {{.name = "x1", .bytes = 8}},
                          .saved = {"x0"},
                          .forward = {.time_ns = 10},
                          .backward = {.time_ns = 20}})[0];
  x = builder.add_custom({.name = "f1",
                          .inputs = {x},
                          .outputs = {{.name = "x2", .bytes = 8}},
                          .saved = {"x1"},
                          .forward = {.time_ns = 100},
                          .backward = {.time_ns = 200}})[0];
  x = builder.add_custom({.name = "loss",
                          .inputs = {x},
                          .outputs = {{.name = "loss", .bytes = 8}},
                          .saved = {"x2"},
                          .forward = {.time_ns = 1'000},
                          .backward = {.time_ns = 2'000}})[0];
  const Graph graph = builder.build(x);
  Plan plan = keep_all_plan(graph);
  const auto all = schedule_time(graph, lower(graph, plan), nullptr);
  REQUIRE(all);
  CHECK(all->total_ns == 3'330);  // 1110 forward + 2220 backward
  CHECK(all->recompute_ns == 0);
  plan.regions = {{.begin = 0, .end = 2}};
  const auto dropped = schedule_time(graph, lower(graph, plan), nullptr);
  REQUIRE(dropped);
  CHECK(dropped->total_ns == 3'340);  // and f0 once more
  CHECK(dropped->recompute_ns == 10);
}

TEST_CASE("without times and without rates there is no time") {
  const Graph graph = one_op({.moved_bytes = 1'000});
  const Schedule schedule = lower(graph, keep_all_plan(graph));
  CHECK_FALSE(schedule_time(graph, schedule, nullptr));
  const DeviceSpec bare{.id = "24GiB"};
  CHECK_FALSE(schedule_time(graph, schedule, &bare));
  const DeviceSpec device = round_device();
  CHECK(schedule_time(graph, schedule, &device)->total_ns == 4'000);
}

}  // namespace cairn
