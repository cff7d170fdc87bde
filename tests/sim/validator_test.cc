#include "sim/validator.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "graph/graph_builder.h"
#include "tests/sim/text_schedule.h"

// Every schedule here is written by hand from the rules, none is lowered. Broken schedules are the
// accepted ones with one thing wrong. The file is long because each is spelled out.

namespace cairn {
namespace {

// Four layers that save input and output, x0 to x3 of 10 bytes, a loss of none.
Graph chain_graph() {
  GraphBuilder builder("chain", DataType::kFloat32);
  TensorId value = builder.add_input_bytes("x0", 10, true);
  for (int i = 0; i < 4; ++i) {
    const std::string in = "x" + std::to_string(i);
    const std::string out = "x" + std::to_string(i + 1);
    value = builder.add_custom({.name = "l" + std::to_string(i),
                                .inputs = {value},
                                .outputs = {{.name = out, .bytes = i < 3 ? 10 : 0}},
                                .saved = {in, out}})[0];
  }
  return builder.build(value);
}

// A residual block; the add's input gradients are tensors of their own.
Graph residual_graph() {
  GraphBuilder builder("residual", DataType::kFloat32);
  const TensorId x = builder.add_input_bytes("x", 8, true);
  const TensorId n = builder.add_custom(
      {.name = "norm", .inputs = {x}, .outputs = {{.name = "n", .bytes = 8}}, .saved = {"x"}})[0];
  const TensorId l = builder.add_custom(
      {.name = "lin", .inputs = {n}, .outputs = {{.name = "l", .bytes = 8}}, .saved = {"n"}})[0];
  const TensorId h = builder.add_custom(
      {.name = "add", .inputs = {x, l}, .outputs = {{.name = "h", .bytes = 8}}})[0];
  const TensorId loss = builder.add_custom({.name = "loss",
                                            .inputs = {h},
                                            .outputs = {{.name = "loss", .bytes = 1}},
                                            .saved = {"h"}})[0];
  return builder.build(loss);
}

Graph attention_graph() {
  GraphBuilder builder("attention", DataType::kFloat32);
  const TensorId x = builder.add_input_bytes("x", 8, true);
  const TensorId q = builder.add_custom(
      {.name = "qkv", .inputs = {x}, .outputs = {{.name = "q", .bytes = 24}}, .saved = {"x"}})[0];
  const TensorId o = builder.add_custom({.name = "att",
                                         .inputs = {q},
                                         .outputs = {{.name = "o", .bytes = 8}},
                                         .auxiliaries = {{.name = "lse", .bytes = 2}},
                                         .saved = {"q", "o", "lse"}})[0];
  const TensorId p = builder.add_custom(
      {.name = "proj", .inputs = {o}, .outputs = {{.name = "p", .bytes = 8}}, .saved = {"o"}})[0];
  const TensorId loss = builder.add_custom({.name = "loss",
                                            .inputs = {p},
                                            .outputs = {{.name = "loss", .bytes = 1}},
                                            .saved = {"p"}})[0];
  return builder.build(loss);
}

// relu saves its own output, which the loss saves too.
Graph relu_graph() {
  GraphBuilder builder("relu", DataType::kFloat32);
  const TensorId x0 = builder.add_input_bytes("x0", 2, true);
  const TensorId x1 = builder.add_custom(
      {.name = "f0", .inputs = {x0}, .outputs = {{.name = "x1", .bytes = 3}}, .saved = {"x0"}})[0];
  const TensorId x2 = builder.add_custom({.name = "relu",
                                          .inputs = {x1},
                                          .outputs = {{.name = "x2", .bytes = 5}},
                                          .saved = {"x2"}})[0];
  const TensorId loss = builder.add_custom({.name = "loss",
                                            .inputs = {x2},
                                            .outputs = {{.name = "loss", .bytes = 1}},
                                            .saved = {"x2"}})[0];
  return builder.build(loss);
}

// neg's output is needed by nothing that is recomputed.
Graph dead_op_graph(RecomputePolicy policy_of_fa = RecomputePolicy::kYes) {
  GraphBuilder builder("dead op", DataType::kFloat32);
  const TensorId x = builder.add_input_bytes("x", 4, true);
  const TensorId a = builder.add_custom({.name = "fa",
                                         .inputs = {x},
                                         .outputs = {{.name = "a", .bytes = 4}},
                                         .saved = {"x"},
                                         .recompute = policy_of_fa})[0];
  const TensorId b =
      builder.add_custom({.name = "neg", .inputs = {a}, .outputs = {{.name = "b", .bytes = 4}}})[0];
  const TensorId c = builder.add_custom(
      {.name = "sin", .inputs = {a}, .outputs = {{.name = "c", .bytes = 4}}, .saved = {"a"}})[0];
  const TensorId y = builder.add_custom(
      {.name = "sub", .inputs = {b, c}, .outputs = {{.name = "y", .bytes = 4}}})[0];
  const TensorId loss = builder.add_custom({.name = "loss",
                                            .inputs = {y},
                                            .outputs = {{.name = "loss", .bytes = 1}},
                                            .saved = {"y"}})[0];
  return builder.build(loss);
}

// The graph's own order and these regions.
Plan plan_of(const Graph& graph, std::vector<Region> regions, Extent extent = Extent::kNeeded) {
  Plan plan = keep_all_plan(graph);
  plan.regions = std::move(regions);
  plan.extent = extent;
  return plan;
}

TensorId tensor_named(const Graph& graph, const std::string& name) {
  return schedule_from_text(graph, "F " + name).steps[0].tensor;
}

void check_accepted(const Graph& graph, const Plan& plan, std::string_view text,
                    std::int64_t peak_bytes, std::string_view peak_step) {
  const Schedule schedule = schedule_from_text(graph, text);
  const ValidationResult result = validate(graph, plan, schedule);
  CHECK_MESSAGE(result.fault == Fault::kNone, result.message);
  CHECK(result.peak_bytes == peak_bytes);
  REQUIRE(result.peak_step < schedule.steps.size());
  CHECK(step_text(graph, schedule.steps[result.peak_step]) == peak_step);
}

constexpr std::string_view kChainNoRegion =
    "C l0  C l1  C l2  C l3  B l3 F x4 FG x4  B l2 F x3 FG x3  B l1 F x2 FG x2  B l0 F x1 FG x1";

TEST_CASE("a chain that keeps everything is accepted") {
  const Graph graph = chain_graph();
  // B l2: x0 to x3 40, the gradients of x3 and x2 20.
  check_accepted(graph, plan_of(graph, {}), kChainNoRegion, 60, "B l2");
}

constexpr std::string_view kChainOneRegion =
    "C l0  C l1 F x1  C l2  C l3  B l3 F x4 FG x4  B l2 F x2 F x3 FG x3"
    "  R l0  R l1  B l1 F x2 FG x2  B l0 F x1 FG x1";

TEST_CASE("a chain with one region is accepted") {
  const Graph graph = chain_graph();
  // B l2: x0 x2 x3 30, the gradients of x3 and x2 20.
  check_accepted(graph, plan_of(graph, {{.begin = 0, .end = 2}}), kChainOneRegion, 50, "B l2");
}

TEST_CASE("a chain with two regions is accepted") {
  const Graph graph = chain_graph();
  // R l3: x0 x2 30 with x3 10, no gradient yet; B l2: x0 x2 x3 30, gradients 20.
  check_accepted(graph, plan_of(graph, {{.begin = 0, .end = 2}, {.begin = 2, .end = 4}}),
                 "C l0  C l1 F x1  C l2  C l3 F x3 F x4"
                 "  R l2  R l3  B l3 F x4 FG x4  B l2 F x2 F x3 FG x3"
                 "  R l0  R l1  B l1 F x2 FG x2  B l0 F x1 FG x1",
                 50, "B l2");
}

Plan nested_chain_plan(const Graph& graph) {
  return plan_of(graph, {{.begin = 0, .end = 3, .inner = {{.begin = 0, .end = 2}}}});
}

TEST_CASE("a chain with nested regions is accepted: the inner one is swept, then recomputed") {
  const Graph graph = chain_graph();
  // B l2: x0 x2 x3 30, gradients 20. x3 lives through forward as the root's, saved by l3; it is
  // read for the last time by B l3, and made again for B l2.
  check_accepted(graph, nested_chain_plan(graph),
                 "C l0  C l1 F x1  C l2 F x2  C l3  B l3 F x3 F x4 FG x4"
                 "  R l0  R l1 F x1  R l2  B l2 F x2 F x3 FG x3"
                 "  R l0  R l1  B l1 F x2 FG x2  B l0 F x1 FG x1",
                 50, "B l2");
}

constexpr std::string_view kResidual =
    "C norm  C lin F n  C add F l  C loss F loss  B loss F h FG loss  B add FG h"
    "  R norm  B lin F n FG l  B norm FG n";

Plan residual_plan(const Graph& graph, Extent extent = Extent::kNeeded) {
  return plan_of(graph, {{.begin = 0, .end = 3}}, extent);
}

TEST_CASE("a residual block is recomputed behind the Backward of its add") {
  const Graph graph = residual_graph();
  // B add: x h's gradient 16, l's and x's gradients 16. R norm: x 8, two gradients 16, n 8.
  // B lin: those 32 and n's gradient.
  check_accepted(graph, residual_plan(graph), kResidual, 40, "B lin");
  check_accepted(graph, residual_plan(graph, Extent::kPrefix), kResidual, 40, "B lin");
}

TEST_CASE("extent whole reruns lin and add too, before the first Backward") {
  const Graph graph = residual_graph();
  // R add: x n l h 32, the gradient of h 8; l and h are read by nothing any more.
  check_accepted(graph, residual_plan(graph, Extent::kWhole),
                 "C norm  C lin F n  C add F l  C loss F loss  B loss F h FG loss"
                 "  R norm  R lin  R add F l F h  B add FG h  B lin F n FG l  B norm FG n",
                 40, "R add");
}

Plan attention_plan(const Graph& graph, const std::vector<std::string>& keep) {
  Region region{.begin = 0, .end = 3};
  for (const std::string& name : keep) region.keep.push_back(tensor_named(graph, name));
  return plan_of(graph, {region});
}

TEST_CASE("flash attention: keeping o without lse makes o twice, the duplicate for one step") {
  const Graph graph = attention_graph();
  check_accepted(graph, attention_plan(graph, {"o"}),
                 "C qkv  C att F q F lse  C proj  C loss F loss  B loss F p FG loss  B proj FG p"
                 "  R qkv  R att  B att F q F o F lse FG o  B qkv FG q",
                 // x 8 q 24 o 8 lse 2, gradients of o and q 32.
                 74, "B att");
}

TEST_CASE("flash attention: keeping o and lse spares the second run") {
  const Graph graph = attention_graph();
  check_accepted(graph, attention_plan(graph, {"o", "lse"}),
                 "C qkv  C att F q  C proj  C loss F loss  B loss F p FG loss  B proj FG p"
                 "  R qkv  B att F q F o F lse FG o  B qkv FG q",
                 74, "B att");
}

TEST_CASE("an output saved inside and outside is freed by the loss and made again") {
  const Graph graph = relu_graph();
  // R relu: x0 x1 x2 10, the gradient of x2 5.
  check_accepted(graph, plan_of(graph, {{.begin = 0, .end = 2}}),
                 "C f0  C relu F x1  C loss F loss  B loss F x2 FG loss"
                 "  R f0  R relu F x1  B relu F x2 FG x2  B f0 FG x1",
                 15, "R relu");
  // B relu: x0 x2 7, gradients of x2 and x1 8.
  const Region keeping{.begin = 0, .end = 2, .keep = {tensor_named(graph, "x2")}};
  check_accepted(graph, plan_of(graph, {keeping}),
                 "C f0  C relu F x1  C loss F loss  B loss FG loss  B relu F x2 FG x2  B f0 FG x1",
                 15, "B relu");
}

constexpr std::string_view kDeadOpPrefix =
    "C fa  C neg  C sin F a  C sub F b F c  C loss F loss  B loss F y FG loss  B sub FG y"
    "  R fa  R neg F b  B sin F a FG c  B neg FG b  B fa FG a";

TEST_CASE("an op that nothing needs is left out by needed, not by prefix or whole") {
  const Graph graph = dead_op_graph();
  const std::vector<Region> regions = {{.begin = 0, .end = 3}};
  // B sin: x a 8, the gradients of b, c and a 12.
  check_accepted(graph, plan_of(graph, regions),
                 "C fa  C neg  C sin F a  C sub F b F c  C loss F loss  B loss F y FG loss"
                 "  B sub FG y  R fa  B sin F a FG c  B neg FG b  B fa FG a",
                 20, "B sin");
  // R neg: x a b 12, two gradients 8.
  check_accepted(graph, plan_of(graph, regions, Extent::kPrefix), kDeadOpPrefix, 20, "R neg");
  // R sin: x a b c 16, two gradients 8; b, which sub outside read, is held to the recompute's end.
  check_accepted(graph, plan_of(graph, regions, Extent::kWhole),
                 "C fa  C neg  C sin F a  C sub F b F c  C loss F loss  B loss F y FG loss"
                 "  B sub FG y  R fa  R neg  R sin F b F c  B sin F a FG c  B neg FG b  B fa FG a",
                 24, "R sin");
}

TEST_CASE("what an op that may not run twice makes is kept") {
  const Graph graph = dead_op_graph(RecomputePolicy::kNever);
  // C sub: x a b c y; B sin, also 20, is later.
  check_accepted(graph, plan_of(graph, {{.begin = 0, .end = 3}}),
                 "C fa  C neg  C sin  C sub F b F c  C loss F loss  B loss F y FG loss"
                 "  B sub FG y  B sin F a FG c  B neg FG b  B fa FG a",
                 20, "C sub");
}

// One thing wrong in each.
class Faults {
 public:
  void check(Fault expected, const Graph& graph, const Plan& plan, const Schedule& schedule) {
    check(expected, validate(graph, plan, schedule));
  }

  void check_training(Fault expected, const Graph& graph, const Plan& plan,
                      const TrainingStep& step, const Schedule& schedule) {
    check(expected, validate_training_step(graph, plan, step, schedule));
  }

  void check(Fault expected, const Graph& graph, const Plan& plan, std::string_view text) {
    check(expected, graph, plan, schedule_from_text(graph, text));
  }

  const std::set<Fault>& seen() const { return seen_; }

 private:
  void check(Fault expected, const ValidationResult& result) {
    CHECK_MESSAGE(result.fault == expected, fault_name(expected), ", found: ", result.message);
    CHECK(!result.message.empty());
    CHECK(result.peak_bytes == 0);
    seen_.insert(expected);
  }

  std::set<Fault> seen_ = {};
};

void check_plan_faults(Faults& faults) {
  const Graph chain = chain_graph();
  Plan plan = plan_of(chain, {});
  std::swap(plan.order[1], plan.order[2]);
  faults.check(Fault::kPlanOrder, chain, plan, kChainNoRegion);

  plan = plan_of(chain, {{.begin = 0, .end = 2}, {.begin = 1, .end = 3}});
  faults.check(Fault::kPlanRegions, chain, plan, kChainOneRegion);

  plan = nested_chain_plan(chain);
  plan.regions[0].inner[0].keep = {tensor_named(chain, "x1")};
  faults.check(Fault::kPlanKeep, chain, plan, kChainNoRegion);

  const Graph residual = residual_graph();
  plan = residual_plan(residual);
  plan.regions[0].keep = {tensor_named(residual, "l")};
  faults.check(Fault::kUselessKeep, residual, plan, kResidual);
}

void check_forward_and_backward_faults(Faults& faults) {
  const Graph graph = chain_graph();
  const Plan plan = plan_of(graph, {});
  Schedule unknown = schedule_from_text(graph, kChainNoRegion);
  unknown.steps[5].tensor = static_cast<TensorId>(99);
  faults.check(Fault::kUnknownStep, graph, plan, unknown);

  constexpr std::string_view kBackwards =
      "B l3 F x4 FG x4  B l2 F x3 FG x3  B l1 F x2 FG x2  B l0 F x1 FG x1";
  const auto check_forward = [&](Fault fault, const std::string& forward) {
    faults.check(fault, graph, plan, forward + std::string(kBackwards));
  };
  check_forward(Fault::kMissingCompute, "C l0  C l1  C l3  ");
  check_forward(Fault::kRepeatedCompute, "C l0  C l1  C l1  C l2  C l3  ");
  check_forward(Fault::kComputeOutOfOrder, "C l0  C l2  C l1  C l3  ");

  const auto check_backward = [&](Fault fault, const std::string& backward) {
    faults.check(fault, graph, plan, "C l0  C l1  C l2  C l3  B l3 F x4 FG x4  " + backward);
  };
  check_backward(Fault::kMissingBackward, "B l2 F x3 FG x3  B l0 F x2 FG x2 F x1 FG x1");
  check_backward(Fault::kRepeatedBackward,
                 "B l2 F x3 FG x3  B l2  B l1 F x2 FG x2  B l0 F x1 FG x1");
  check_backward(Fault::kBackwardOutOfOrder, "B l1 F x2 FG x2  B l2 F x3 FG x3  B l0 F x1 FG x1");

  GraphBuilder builder("off path", DataType::kFloat32);
  const TensorId x = builder.add_input_bytes("x", 4, true);
  builder.add_custom({.name = "off", .inputs = {x}, .outputs = {{.name = "o", .bytes = 4}}});
  const TensorId loss = builder.add_custom(
      {.name = "loss", .inputs = {x}, .outputs = {{.name = "loss", .bytes = 1}}})[0];
  const Graph off = builder.build(loss);
  faults.check(Fault::kBackwardWithoutGradient, off, plan_of(off, {}),
               "C off F o  C loss F loss  B loss FG loss  B off");
}

void check_recompute_faults(Faults& faults) {
  const Graph chain = chain_graph();
  const Plan one = plan_of(chain, {{.begin = 0, .end = 2}});
  const std::string forward =
      "C l0  C l1 F x1  C l2  C l3  B l3 F x4 FG x4  B l2 F x2 F x3 FG x3  ";
  const std::string backward = "B l1 F x2 FG x2  B l0 F x1 FG x1";
  faults.check(Fault::kRecomputeOutsideRegion, chain, one,
               forward + "R l0  R l1  R l2 " + backward);
  faults.check(Fault::kReadOfDroppedCopy, chain, one, forward + "R l1  " + backward);
  faults.check(Fault::kRepeatedRecompute, chain, one, forward + "R l0  R l1  R l1  " + backward);
  faults.check(
      Fault::kRecomputeAtWrongTrigger, chain, one,
      "C l0  C l1 F x1  C l2  C l3  B l3 F x4 FG x4  R l0  R l1  B l2 F x3 FG x3  " + backward);
  faults.check(Fault::kNeedlessRecompute, residual_graph(), residual_plan(residual_graph()),
               "C norm  C lin F n  C add F l  C loss F loss  B loss F h FG loss  B add FG h"
               "  R norm  R lin F l  B lin F n FG l  B norm FG n");

  const Graph dead_op = dead_op_graph();
  const Plan prefix = plan_of(dead_op, {{.begin = 0, .end = 3}}, Extent::kPrefix);
  const std::string dead_op_forward =
      "C fa  C neg  C sin F a  C sub F b F c  C loss F loss  B loss F y FG loss  B sub FG y  ";
  const std::string dead_op_backward = "B sin F a FG c  B neg FG b  B fa FG a";
  faults.check(Fault::kMissingRecompute, dead_op, prefix,
               dead_op_forward + "R fa  " + dead_op_backward);
  const Plan whole = plan_of(dead_op, {{.begin = 0, .end = 3}}, Extent::kWhole);
  faults.check(Fault::kRecomputeOutOfOrder, dead_op, whole,
               dead_op_forward + "R fa  R sin F c  R neg F b  " + dead_op_backward);

  const Graph never = dead_op_graph(RecomputePolicy::kNever);
  faults.check(Fault::kRecomputeOfNever, never, plan_of(never, {{.begin = 0, .end = 3}}),
               dead_op_forward + "R fa  " + dead_op_backward);
}

void check_free_faults(Faults& faults) {
  const Graph graph = chain_graph();
  const Plan plan = plan_of(graph, {});
  const auto check = [&](Fault fault, const std::string& behind_l3) {
    faults.check(fault, graph, plan,
                 "C l0  C l1  C l2  C l3  B l3 " + behind_l3 + "B l1 F x2 FG x2  B l0 F x1 FG x1");
  };
  check(Fault::kFreeOfResident, "F x4 FG x4 F x0  B l2 F x3 FG x3  ");
  check(Fault::kFreeTooEarly, "F x4 F x3 FG x4  B l2 FG x3  ");
  check(Fault::kFreeTooLate, "FG x4  B l2 F x4 F x3 FG x3  ");
  check(Fault::kFreeTwice, "F x4 FG x4  B l2 F x4 F x3 FG x3  ");
  check(Fault::kMissingFree, "FG x4  B l2 F x3 FG x3  ");
  check(Fault::kGradientFreeTooEarly, "F x4 FG x4 FG x3  B l2 F x3  ");
  check(Fault::kGradientFreeTooLate, "F x4  B l2 F x3 FG x3 FG x4  ");
  check(Fault::kGradientFreeTwice, "F x4 FG x4  B l2 F x3 FG x3 FG x3  ");
  check(Fault::kMissingGradientFree, "F x4  B l2 F x3 FG x3  ");
  check(Fault::kGradientFreeOfUnmade, "F x4 FG x4 FG x2  B l2 F x3 FG x3  ");
  faults.check(Fault::kGradientFreeOfLasting, graph, plan, std::string(kChainNoRegion) + " FG x0");
  faults.check(Fault::kFreeOfUnmade, graph, plan,
               "C l0 F x2  " + std::string(kChainNoRegion).substr(6));
}

// Two layers with a parameter each, and a training step of one micro-batch.
Graph trained_graph() {
  GraphBuilder builder("trained", DataType::kFloat32);
  const TensorId x = builder.add_input_bytes("x", 4, false);
  const TensorId w = builder.add_parameter_bytes("w", 6, true);
  const TensorId u = builder.add_parameter_bytes("u", 10, true);
  const TensorId a =
      builder.add_custom({.name = "f", .inputs = {x, w}, .outputs = {{"a", 8}}, .saved = {"x"}})[0];
  return builder.build(builder.add_custom(
      {.name = "loss", .inputs = {a, u}, .outputs = {{"l", 1}}, .saved = {"a"}})[0]);
}

void check_training_faults(Faults& faults) {
  const Graph graph = trained_graph();
  const Plan plan = plan_of(graph, {});
  const auto check = [&](Fault fault, const TrainingStep& step, auto spoil) {
    Schedule schedule = lower_training_step(graph, step, lower(graph, plan));
    spoil(schedule);
    faults.check_training(fault, graph, plan, step, schedule);
  };
  const auto is_optimizer = [](const Step& step) { return step.kind == StepKind::kOptimizerStep; };
  check(Fault::kMicroBatches, {.micro_batches = 2},
        [](Schedule& schedule) { schedule.steps.back().micro_batch = 2; });
  check(Fault::kOptimizerGroup, {}, [](Schedule& schedule) { schedule.groups[0].at_once = true; });
  check(Fault::kMissingOptimizerStep, {},
        [](Schedule& schedule) { schedule.groups[0].parameters.pop_back(); });
  check(Fault::kRepeatedOptimizerStep, {.keeps_gradients = true},
        [](Schedule& schedule) { schedule.steps.push_back(schedule.steps.back()); });
  check(
      Fault::kOptimizerStepAtWrongPlace, {.optimizer_in_backward = true}, [&](Schedule& schedule) {
        const auto first = std::find_if(schedule.steps.begin(), schedule.steps.end(), is_optimizer);
        std::rotate(schedule.steps.begin(), first, first + 1);
      });
}

// What the hooks of main gradients do, done at another time.
void check_main_gradient_faults(Faults& faults) {
  Graph graph = trained_graph();
  for (Tensor& tensor : graph.tensors) {
    if (tensor.role == TensorRole::kParameter) tensor.main_gradient_bytes = 2 * tensor.bytes;
  }
  const Plan plan = plan_of(graph, {});
  const TrainingStep step = {.main_gradient_type = DataType::kFloat32};
  const Schedule right = lower_training_step(graph, step, lower(graph, plan));
  CHECK(validate_training_step(graph, plan, step, right).fault == Fault::kNone);
  const auto is_hook = [&](const Step& at) {
    return at.kind == StepKind::kFreeGradient &&
           graph.tensor(at.tensor).role == TensorRole::kParameter;
  };
  const auto check = [&](Fault fault, auto spoil) {
    Schedule schedule = right;
    const auto hook = std::find_if(schedule.steps.begin(), schedule.steps.end(), is_hook);
    spoil(schedule, hook);
    faults.check_training(fault, graph, plan, step, schedule);
  };
  check(Fault::kMissingGradientFree,
        [](Schedule& schedule, auto hook) { schedule.steps.erase(hook); });
  check(Fault::kGradientFreeTwice,
        [](Schedule& schedule, auto hook) { schedule.steps.insert(hook, *hook); });
  check(Fault::kGradientFreeTooLate, [](Schedule& schedule, auto hook) {  // behind the optimizer
    std::rotate(hook, hook + 1, schedule.steps.end());
  });
  check(Fault::kGradientFreeTwice, [](Schedule& schedule, auto hook) {  // there, too
    schedule.steps.push_back(*hook);
  });
}

TEST_CASE("every fault is found, and called by its name") {
  Faults faults;
  check_plan_faults(faults);
  check_forward_and_backward_faults(faults);
  check_recompute_faults(faults);
  check_free_faults(faults);
  check_training_faults(faults);
  check_main_gradient_faults(faults);
  CHECK(faults.seen().size() == kFaultCount - 1);  // all but kNone
}

}  // namespace
}  // namespace cairn
