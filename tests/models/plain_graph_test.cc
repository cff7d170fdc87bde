#include "models/plain_graph.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "graph/error.h"
#include "graph/plan.h"
#include "graph/schedule.h"
#include "sim/simulator.h"

namespace cairn {
namespace {

Graph read(const std::string& text) {
  return read_plain_graph(parse_document("g", text), like_parameters({.state_count = 2}));
}

std::string refusal(const std::string& text) {
  try {
    const Graph graph = read(text);
    const Plan plan = keep_all_plan(graph);
    simulate(graph, plan, lower(graph, plan));
  } catch (const InputError& error) {
    const std::string message = error.what();
    return message.substr(0, message.find('\n'));
  }
  return "accepted";
}

const char* const kWhole = R"(
cairn_graph: 1
name: whole
loss: z
inputs:
  - {name: x, bytes: 8, requires_grad: true}
  - {name: mask, bytes: 4}
parameters:
  - {name: w, bytes: 16}
  - {name: frozen, bytes: 32, trainable: false}
ops:
  - name: attention
    module: layer.attention
    block: 3
    inputs: [x, w, frozen]
    outputs: [{name: y, bytes: 8}, {name: v, bytes: 4, view_of: x}]
    auxiliaries: [{name: lse, bytes: 2}]
    saves: [x, y, lse]
    gradient_aliases: x
    workspace_bytes: 5
    backward_workspace_bytes: 6
    sweep_workspace_bytes: 7
    forward: {flops: 100, moved_bytes: 30, time_ns: 9}
    recompute: replay_random
    side_effect: once
  - {name: loss, inputs: [y, v, mask], outputs: [{name: z, bytes: 4}], saves: [y],
     backward: {flops: 1}, recompute: never}
  - {name: behind, inputs: [z], outputs: [{name: log, bytes: 0}]}
)";

}  // namespace

TEST_CASE("a plain graph is read to the last key") {
  const Graph graph = read(kWhole);
  CHECK(graph.name == "whole");
  CHECK(graph.tensor(graph.loss).name == "z");
  REQUIRE(graph.ops.size() == 3);
  const Op& op = graph.ops[0];
  CHECK(op.name == "attention");
  CHECK(op.module == "layer.attention");
  CHECK(op.block == 3);
  CHECK(op.inputs.size() == 3);
  CHECK(op.outputs.size() == 2);
  CHECK(is_view(graph, op.outputs[1]));
  CHECK(op.auxiliaries.size() == 1);
  CHECK(op.saved.size() == 3);
  CHECK(op.gradient_aliases == std::vector<bool>{true, false, false});
  CHECK(op.workspace_bytes == 5);
  CHECK(op.backward_workspace_bytes == 6);
  CHECK(op.sweep_workspace_bytes == 7);
  CHECK(op.recompute == RecomputePolicy::kReplayRandom);
  CHECK(op.side_effect == SideEffect::kOnce);
  CHECK(op.forward.flops == 100);
  CHECK(op.forward.moved_bytes == 30);
  CHECK(op.forward.time_ns == 9);
  // Not stated: twice the forward.
  CHECK(op.backward.flops == 200);
  CHECK(op.backward.moved_bytes == 60);
  CHECK(op.backward.time_ns == 18);
  CHECK(graph.ops[1].backward.flops == 1);
  CHECK(graph.ops[1].recompute == RecomputePolicy::kNever);
  // Behind the loss: no Backward.
  CHECK_FALSE(graph.ops[2].has_backward);
}

TEST_CASE(
    "parameters of a plain graph have bytes and optimizer states, but no number of elements") {
  const Graph graph = read(kWhole);
  CHECK(parameter_bytes(graph) == 16 + 32);
  CHECK(optimizer_state_bytes(graph) == 2 * 16);
  CHECK(parameter_count(graph) == 0);
}

TEST_CASE("without 'loss' the last op's first output is the loss") {
  std::string text = kWhole;
  text.erase(text.find("loss: z\n"), 8);
  CHECK(read(text).tensor(read(text).loss).name == "log");
}

TEST_CASE("a tensor may have no bytes") { CHECK(refusal(kWhole) == "accepted"); }

TEST_CASE("live bytes that pass 63 bits are an error of the replay, not a wrapped number") {
  // Each op moves less than 2^63 bytes; the two inputs together do not fit.
  CHECK(refusal("cairn_graph: 1\n"
                "inputs: [{name: x, bytes: 5000000000000000000}, "
                "{name: y, bytes: 5000000000000000000}]\n"
                "ops: [{name: f, inputs: [x], outputs: [{name: z, bytes: 0}]}]\n") ==
        "live bytes: 5000000000000000000 + 5000000000000000000 does not fit in 63 bits");
  // 16 and the parameter with its two states, 9 * 10^18 + 24 with z; then the parameter's gradient.
  CHECK(refusal("cairn_graph: 1\n"
                "parameters: [{name: w, bytes: 3000000000000000000}]\n"
                "inputs: [{name: x, bytes: 8, requires_grad: true}]\n"
                "ops: [{name: f, inputs: [x, w], outputs: [{name: z, bytes: 8}]}]\n") ==
        "live bytes: 9000000000000000024 + 3000000000000000000 does not fit in 63 bits");
  CHECK(refusal("cairn_graph: 1\n"
                "inputs: [{name: x, bytes: 8}]\n"
                "ops: [{name: f, inputs: [x], outputs: [{name: z, bytes: 8}],\n"
                "       workspace_bytes: 9223372036854775807}]\n") ==
        "live bytes: 16 + 9223372036854775807 does not fit in 63 bits");
}

TEST_CASE("the extra FLOPs of a plan that pass 63 bits are an error") {
  const Graph graph = read(
      "cairn_graph: 1\n"
      "inputs: [{name: x, bytes: 8, requires_grad: true}]\n"
      "ops:\n"
      "  - {name: f, inputs: [x], outputs: [{name: a, bytes: 8}], saves: [a],\n"
      "     forward: {flops: 9223372036854775807}, backward: {flops: 1}}\n"
      "  - {name: g, inputs: [a], outputs: [{name: b, bytes: 8}], saves: [b],\n"
      "     forward: {flops: 9223372036854775807}, backward: {flops: 1}}\n"
      "  - {name: loss, inputs: [b], outputs: [{name: z, bytes: 8}]}\n");
  Plan plan = keep_all_plan(graph);
  plan.regions = {{.begin = 0, .end = 2}};
  CHECK_THROWS_WITH_AS(
      simulate(graph, plan, lower(graph, plan)),
      "extra FLOPs: 9223372036854775807 + 9223372036854775807 does not fit in 63 bits", InputError);
}

TEST_CASE("more than 250000 ops are refused before any is read") {
  std::string text = "cairn_graph: 1\nops: [1";
  for (int i = 0; i < 250'000; ++i) text += ",1";
  CHECK(refusal(text + "]\n") == "g:2:1: a plain graph: key 'ops': more than 250000 ops");
}

TEST_CASE("an op of more than 4096 inputs is refused") {
  std::string text =
      "cairn_graph: 1\ninputs: [{name: x, bytes: 8}]\nops:\n- {name: f, outputs: [{name: y, "
      "bytes: 8}], inputs: [x";
  for (int i = 0; i < 4096; ++i) text += ",x";
  CHECK(refusal(text + "]}\n") ==
        "g:4:45: op 'f': key 'inputs': expected at most 4096 tensors, found 4097");
}

TEST_CASE("a long chain is read, lowered and replayed without deep recursion or quadratic time") {
  std::string text = "cairn_graph: 1\ninputs: [{name: t0, bytes: 8, requires_grad: true}]\nops:\n";
  constexpr int kOps = 20'000;
  for (int i = 0; i < kOps; ++i) {
    const std::string from = "t" + std::to_string(i);
    const std::string to = "t" + std::to_string(i + 1);
    // Every op but the first overwrites its input.
    text += fmt::format("- {{name: f{}, inputs: [{}], outputs: [{{name: {}, bytes: 8{}\n", i, from,
                        to, i == 0 ? "}]}" : ", view_of: " + from + "}], in_place: true}");
  }
  const Graph graph = read(text);
  const Plan plan = keep_all_plan(graph);
  // All of it lies on one storage; x is the input.
  CHECK(graph.storages.size() == 2);
  CHECK(simulate(graph, plan, lower(graph, plan)).resident_bytes == 8);
}

TEST_CASE("a long cycle is found and shown in part") {
  std::string text = "cairn_graph: 1\nops:\n";
  constexpr int kOps = 20'000;
  for (int i = 0; i < kOps; ++i) {
    text += "- {name: f" + std::to_string(i) + ", inputs: [t" + std::to_string((i + 1) % kOps) +
            "], outputs: [{name: t" + std::to_string(i) + ", bytes: 8}]}\n";
  }
  CHECK(refusal(text) ==
        "g:3:23: op 'f0': it reads 't1': a cycle of ops: 'f0' -> 'f19999' -> 'f19998' -> 'f19997' "
        "-> 'f19996' -> 'f19995' -> 'f19994' -> 'f19993' -> ... -> 'f0'");
}

}  // namespace cairn
