#include "graph/fingerprint.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "graph/graph_difference.h"
#include "graph/ops/op_kind.h"
#include "graph/stable_hash.h"
#include "tests/seed.h"
#include "tests/sim/random_graph.h"

namespace cairn {
namespace {

using Part = FingerprintPart;

// The parts in which two fingerprints differ.
std::vector<Part> changed(const Fingerprint& a, const Fingerprint& b) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < a.parts.size(); ++i) {
    if (a.parts[i] != b.parts[i]) parts.push_back(static_cast<Part>(i));
  }
  return parts;
}

struct Change {
  std::string name = {};
  std::vector<Part> parts = {};  // empty: several, a name is in all that refers to it
  std::function<void(Graph&, Recipe&)> make = {};
};

Op& op_of(Graph& graph) { return graph.ops[2]; }
Tensor& tensor_of(Graph& graph) { return graph.tensors[index(op_of(graph).outputs[0])]; }

const std::vector<Change> kChanges = {
    {"op name", {}, [](Graph& g, Recipe&) { op_of(g).name += "x"; }},
    {"op kind", {Part::kOps}, [](Graph& g, Recipe&) { op_of(g).kind = find_op_kind("relu"); }},
    {"block", {Part::kOps}, [](Graph& g, Recipe&) { op_of(g).block += 7; }},
    {"inputs", {Part::kOps}, [](Graph& g, Recipe&) { op_of(g).inputs.push_back(TensorId{0}); }},
    {"outputs", {Part::kOps}, [](Graph& g, Recipe&) { op_of(g).outputs.push_back(TensorId{0}); }},
    {"auxiliaries",
     {Part::kOps},
     [](Graph& g, Recipe&) { op_of(g).auxiliaries.push_back(TensorId{0}); }},
    {"recompute",
     {Part::kOps},
     [](Graph& g, Recipe&) {
       RecomputePolicy& policy = op_of(g).recompute;
       policy = policy == RecomputePolicy::kNever ? RecomputePolicy::kYes : RecomputePolicy::kNever;
     }},
    {"side effect",
     {Part::kOps},
     [](Graph& g, Recipe&) {
       SideEffect& effect = op_of(g).side_effect;
       effect = effect == SideEffect::kOnce ? SideEffect::kNone : SideEffect::kOnce;
     }},
    {"in place", {Part::kOps}, [](Graph& g, Recipe&) { op_of(g).in_place ^= true; }},
    {"loss", {Part::kOps}, [](Graph& g, Recipe&) { g.loss = op_of(g).outputs[0]; }},
    {"saved", {Part::kSaved}, [](Graph& g, Recipe&) { op_of(g).saved.push_back(TensorId{0}); }},
    {"unread saved",
     {Part::kSaved},
     [](Graph& g, Recipe&) { op_of(g).unread_saved.push_back(TensorId{0}); }},
    {"gradient aliases",
     {Part::kSaved},
     [](Graph& g, Recipe&) { op_of(g).gradient_aliases.push_back(true); }},
    {"gradient places",
     {Part::kSaved},
     [](Graph& g, Recipe&) { op_of(g).gradient_places.push_back(kNoTensor); }},
    {"gradient views",
     {Part::kSaved},
     [](Graph& g, Recipe&) { op_of(g).gradient_views.push_back(false); }},
    {"saves after forward",
     {Part::kSaved},
     [](Graph& g, Recipe&) { op_of(g).saves_after_forward ^= true; }},
    {"has backward", {Part::kSaved}, [](Graph& g, Recipe&) { op_of(g).has_backward ^= true; }},
    {"held until",
     {Part::kSaved},
     [](Graph& g, Recipe&) {
       OpId& op = tensor_of(g).held_until;
       op = op == OpId{3} ? kNoOp : OpId{3};
     }},
    {"workspace", {Part::kCosts}, [](Graph& g, Recipe&) { ++op_of(g).workspace_bytes; }},
    {"backward workspace",
     {Part::kCosts},
     [](Graph& g, Recipe&) { ++op_of(g).backward_workspace_bytes; }},
    {"sweep workspace",
     {Part::kCosts},
     [](Graph& g, Recipe&) { op_of(g).sweep_workspace_bytes = 12345; }},
    {"flops", {Part::kCosts}, [](Graph& g, Recipe&) { ++op_of(g).forward.flops; }},
    {"executed flops",
     {Part::kCosts},
     [](Graph& g, Recipe&) { ++op_of(g).backward.executed_flops; }},
    {"moved bytes", {Part::kCosts}, [](Graph& g, Recipe&) { ++op_of(g).backward.moved_bytes; }},
    {"kernels", {Part::kCosts}, [](Graph& g, Recipe&) { ++op_of(g).forward.kernel_count; }},
    {"matmul", {Part::kCosts}, [](Graph& g, Recipe&) { op_of(g).forward.is_matmul ^= true; }},
    {"time", {Part::kCosts}, [](Graph& g, Recipe&) { op_of(g).forward.time_ns = 987654321; }},
    {"tensor name", {}, [](Graph& g, Recipe&) { tensor_of(g).name += "x"; }},
    {"shape", {Part::kShapes}, [](Graph& g, Recipe&) { tensor_of(g).shape.push_back(1); }},
    {"type", {Part::kTypes}, [](Graph& g, Recipe&) { tensor_of(g).data_type = DataType::kBool; }},
    {"bytes", {Part::kBytes}, [](Graph& g, Recipe&) { ++tensor_of(g).bytes; }},
    {"optimizer state",
     {Part::kBytes},
     [](Graph& g, Recipe&) { ++tensor_of(g).optimizer_state_bytes; }},
    {"optimizer temporaries",
     {Part::kBytes},
     [](Graph& g, Recipe&) { ++tensor_of(g).optimizer_temporary_bytes; }},
    {"carried temporaries",
     {Part::kBytes},
     [](Graph& g, Recipe&) { ++tensor_of(g).optimizer_carried_bytes; }},
    {"master weights",
     {Part::kBytes},
     [](Graph& g, Recipe&) { ++tensor_of(g).master_weight_bytes; }},
    {"trainable", {Part::kRecipe}, [](Graph& g, Recipe&) { tensor_of(g).requires_grad ^= true; }},
    {"gradient", {Part::kRecipe}, [](Graph& g, Recipe&) { tensor_of(g).has_gradient ^= true; }},
    {"optimizer", {Part::kRecipe}, [](Graph&, Recipe& r) { r.optimizer = "lion"; }},
    {"precision",
     {Part::kRecipe},
     [](Graph&, Recipe& r) { r.precision.master_type = DataType::kFloat32; }},
    {"loop",
     {Part::kRecipe},
     [](Graph&, Recipe& r) { r.step.optimizer_loop = OptimizerLoop::kForLoop; }},
    {"in backward",
     {Part::kRecipe},
     [](Graph&, Recipe& r) { r.step.optimizer_in_backward = true; }},
    {"micro-batches", {Part::kRecipe}, [](Graph&, Recipe& r) { r.step.micro_batches = 2; }},
    {"kept gradients", {Part::kRecipe}, [](Graph&, Recipe& r) { r.step.keeps_gradients = true; }},
};

// Computed by another program, from the definition in docs/formats.md.
TEST_CASE(
    "the hash is FNV-1a of 64 bits, over numbers of eight bytes and texts with their length") {
  const auto hash = [](auto... values) {
    StableHash result;
    (result.put(values), ...);
    return result.value();
  };
  CHECK(hash() == 0xcbf29ce484222325);
  CHECK(hash(std::int64_t{0}) == 0xa8c7f832281a39c5);
  CHECK(hash(std::int64_t{-1}) == 0x8cf51a8bfca3883d);
  CHECK(hash(std::int64_t{0x0102030405060708}) == 0x0c6d4496e17859d5);
  CHECK(hash(std::string_view("q")) == 0x529a5ddc8ff586ef);
  CHECK(hash(std::string_view("\xc3\xa9"), std::int64_t{7}) == 0x8b814d3a24bb0858);
}

TEST_CASE("every change of a graph or a recipe changes the part that it belongs to, no other") {
  INFO("--seed=", test_seed());
  Random random(test_seed());
  for (int i = 0; i < 20; ++i) {
    const Graph graph = random_graph(random);
    const Recipe recipe;
    const Fingerprint before = fingerprint_of(graph, recipe);
    CHECK(before == fingerprint_of(graph, recipe));
    CHECK(differing_parts(before, before).empty());
    for (const Change& change : kChanges) {
      CAPTURE(change.name);
      Graph other = graph;
      Recipe other_recipe = recipe;
      change.make(other, other_recipe);
      const Fingerprint after = fingerprint_of(other, other_recipe);
      if (!change.parts.empty()) CHECK(changed(before, after) == change.parts);
      CHECK_FALSE(changed(before, after).empty());
      CHECK(combined(before) != combined(after));
      CHECK_FALSE(differing_parts(before, after).empty());
    }
  }
}

TEST_CASE("marks find the first op that differs, among a twentieth of all") {
  INFO("--seed=", test_seed());
  Random random(test_seed());
  for (int i = 0; i < 200; ++i) {
    const Graph graph = random_graph(random);
    const Fingerprint fingerprint = fingerprint_of(graph, {});
    CHECK(first_difference(graph, fingerprint).begin == graph.ops.size());
    Graph other = graph;
    const std::size_t op = pick(random, graph.ops.size());
    ++other.ops[op].workspace_bytes;
    const OpSpan span = first_difference(other, fingerprint);
    CHECK(span.begin == op);  // fewer than 20 ops: each has a mark
    CHECK(span.end == op + 1);
  }
}

TEST_CASE("marks of a longer and of a shorter graph") {
  Random random(test_seed());
  const Graph graph = random_graph(random);
  const std::size_t count = graph.ops.size();
  Graph shorter = graph;
  shorter.ops.pop_back();
  const OpSpan behind = first_difference(shorter, fingerprint_of(graph, {}));
  CHECK(behind.begin == count - 1);
  CHECK(behind.end == count - 1);  // there is no such op here
  Fingerprint whole = fingerprint_of(graph, {});
  CHECK(first_difference(graph, fingerprint_of(shorter, {})).begin == count - 1);
  whole.op_count = INT64_MAX;  // as a file may say
  CHECK(first_difference(graph, whole).begin == 0);
}

TEST_CASE("two graphs differ first at the first op, in words") {
  Random random(test_seed());
  Graph then = random_graph(random);
  Graph now = then;
  CHECK(first_difference_text(then, now).empty());
  op_of(now).saved = {};
  op_of(then).saved = {then.ops[0].outputs[0]};
  const std::string kept = then.tensor(then.ops[0].outputs[0]).name;
  CHECK(first_difference_text(then, now) == "op 'op3' saved '" + kept + "', here nothing");
  tensor_of(then).shape = {1, 8};
  tensor_of(now).shape = {2, 8};
  tensor_of(then).data_type = tensor_of(now).data_type = DataType::kBFloat16;
  const std::string name = tensor_of(now).name;
  CHECK(first_difference_text(then, now) ==
        "'" + name + "' was [1, 8] bf16, here it is [2, 8] bf16");
  op_of(now).kind = find_op_kind("relu");
  CHECK(first_difference_text(then, now) == "op 3 was 'op3', here it is 'op3' (relu)");
  now = then;
  now.ops.pop_back();
  CHECK(first_difference_text(then, now) == "op '" + then.ops.back().name + "' is not here");
  CHECK(first_difference_text(now, then) == "op '" + then.ops.back().name + "' is new");
}

}  // namespace
}  // namespace cairn
