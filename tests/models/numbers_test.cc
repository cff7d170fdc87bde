// Numbers of papers and model cards that Cairn has to reproduce to the byte, from model files
// alone.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "graph/region_tree.h"
#include "models/gpu_catalogue.h"
#include "models/load_model.h"
#include "planner/planner.h"
#include "sim/replay.h"
#include "sim/roofline.h"
#include "sim/simulator.h"

namespace cairn {
namespace {

bool is_activation(const Tensor& tensor) { return !is_resident(tensor); }

// logsumexp, rows of norms, random states: what papers leave out of their main term.
bool is_statistic(const Tensor& tensor) {
  return tensor.role == TensorRole::kAuxiliary && tensor.data_type != DataType::kBool;
}

// What the ops of one block save, each storage once; parameters and graph inputs aside.
struct Kept {
  std::int64_t main_bytes = 0;
  std::int64_t statistic_bytes = 0;
};

Kept kept_by_block(const Graph& graph, std::int32_t block) {
  std::vector<bool> counted(graph.storages.size(), false);
  Kept kept;
  for (const Op& op : graph.ops) {
    if (op.block != block || !op.has_backward) continue;
    for (const TensorId saved : op.saved) {
      const Tensor& tensor = graph.tensor(saved);
      if (!is_activation(tensor) || counted[index(tensor.storage)]) continue;
      counted[index(tensor.storage)] = true;
      const std::int64_t bytes = graph.storage(tensor.storage).bytes;
      (is_statistic(tensor) ? kept.statistic_bytes : kept.main_bytes) += bytes;
    }
  }
  return kept;
}

Plan plan_named(const Graph& graph, const char* strategy) {
  return make_plan(graph, parse_strategy(strategy), Extent::kNeeded);
}

// A replay stopped before the step at `stop`.
Replay replayed_to(const Graph& graph, const Schedule& schedule, std::size_t stop) {
  Replay replay(graph, schedule);
  for (std::size_t position = 0; position < stop;) {
    replay.begin_step(position);
    position = replay.end_step(position);
  }
  return replay;
}

std::size_t first_backward(const Schedule& schedule) {
  const auto found =
      std::find_if(schedule.steps.begin(), schedule.steps.end(),
                   [](const Step& step) { return step.kind == StepKind::kBackward; });
  return static_cast<std::size_t>(found - schedule.steps.begin());
}

// Live bytes of the tensors that `wanted` takes, each allocation once.
template <typename Wanted>
std::int64_t live_bytes(const Graph& graph, const Replay& replay, Wanted wanted) {
  std::vector<std::int32_t> counted;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const std::int32_t allocation = replay.allocation_of(static_cast<TensorId>(i));
    if (allocation < 0 || !wanted(graph.tensors[i])) continue;
    if (std::find(counted.begin(), counted.end(), allocation) != counted.end()) continue;
    counted.push_back(allocation);
    bytes += replay.allocation(allocation).bytes;
  }
  return bytes;
}

std::int32_t block_of(const Graph& graph, const Tensor& tensor) {
  return tensor.producer == kNoOp ? -1 : graph.op(tensor.producer).block;
}

// Hidden size 2048, 28 layers, 16 heads, 2 samples of 1024 tokens, 16 bits.
LoadedModel gpt(const std::string& attention = "") {
  return load_model({.model = "megatron-gpt-2b",
                     .batch = 2,
                     .tokens = 1024,
                     .implementations = {{"attention", attention}}});
}

}  // namespace

TEST_CASE("a GPT layer with flash attention keeps 34 bytes for each element of its input") {
  const Graph graph = gpt().graph;
  REQUIRE(graph.block_count == 28);
  // b s h = 2 * 1024 * 2048 = 4194304. In 2 bytes each: input of norm1 2, its output 2, qkv 6,
  // attention's output 2, input of norm2 2, its output 2, up 8, gelu 8; two dropout masks of 1: 34.
  // 34 * 4194304 = 142606336.
  // Statistics: logsumexp 4 bytes * 2 * 16 heads * 1024 = 131072; two norms with mean and rstd
  // 2 * 2 * 4 bytes * 2048 rows = 32768; the random state 16.
  for (std::int32_t block = 0; block < 28; ++block) {
    const Kept kept = kept_by_block(graph, block);
    CHECK(kept.main_bytes == 142'606'336);
    CHECK(kept.statistic_bytes == 131'072 + 32'768 + 16);
  }
}

TEST_CASE("28 GPT layers keep 3992977408 bytes when nothing is recomputed") {
  const Graph graph = gpt().graph;
  const Plan plan = plan_named(graph, "none");
  const Schedule schedule = lower(graph, plan);
  const Replay replay = replayed_to(graph, schedule, first_backward(schedule));
  // Everything of the layers that is live when forward is over, with the first layer's input
  // (embed_drop) and without the last layer's output, which the final norm keeps.
  const auto of_layers = [&](const Tensor& tensor) {
    const bool is_last_output = tensor.name == "layers.27.x";
    return (block_of(graph, tensor) >= 0 && !is_last_output) || tensor.name == "embed_drop";
  };
  const auto in_main_term = [&](const Tensor& tensor) {
    return of_layers(tensor) && !is_statistic(tensor);
  };
  // 28 * 142606336
  CHECK(live_bytes(graph, replay, in_main_term) == 3'992'977'408);
  CHECK(live_bytes(graph, replay, of_layers) == 3'992'977'408 + 28LL * 163'856);
}

TEST_CASE("every-layer checkpointing keeps the layers' inputs, 234881024 bytes") {
  const Graph graph = gpt().graph;
  const Plan plan = plan_named(graph, "every-layer");
  const Schedule schedule = lower(graph, plan);
  const Replay replay = replayed_to(graph, schedule, first_backward(schedule));
  std::int64_t input_bytes = 0;
  for (const auto& inputs : region_inputs(graph, flatten_regions(graph, plan))) {
    for (const TensorId input : inputs) {
      CHECK(replay.allocation_of(input) >= 0);
      input_bytes += graph.tensor(input).bytes;
    }
  }
  // 28 inputs of 2 bytes * 2 * 1024 * 2048 = 8388608
  CHECK(input_bytes == 234'881'024);
  // Nothing else of the layers is live but the last one's output, which the final norm keeps.
  CHECK(live_bytes(graph, replay, [&](const Tensor& tensor) {
          return block_of(graph, tensor) >= 0 || tensor.name == "embed_drop";
        }) == 234'881'024 + 8'388'608);
}

TEST_CASE("one GPT layer rebuilt holds 142606336 bytes, its input included") {
  const Graph graph = gpt().graph;
  const Plan plan = plan_named(graph, "every-layer");
  const Schedule schedule = lower(graph, plan);
  // Just behind the recompute of layer 13, before the Backward that asked for it.
  std::size_t stop = 0;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (step.kind == StepKind::kRecompute && graph.op(step.op).block == 13) stop = i + 1;
  }
  while (schedule.steps[stop].kind != StepKind::kBackward) ++stop;
  const Replay replay = replayed_to(graph, schedule, stop);
  const auto of_layer = [&](const Tensor& tensor) {
    return (block_of(graph, tensor) == 13 || tensor.name == "layers.12.x") && !is_statistic(tensor);
  };
  CHECK(live_bytes(graph, replay, of_layer) == 142'606'336);
}

TEST_CASE("eager attention keeps 5 a s / h bytes more for each element") {
  const Graph graph = gpt("eager").graph;
  // softmax 2, dropout mask 1, dropped probabilities 2: 5 * a s s b = 5 * 16 * 1024 * 1024 * 2
  // = 167772160, and 34 + 5 * 16 * 1024 / 2048 = 74 bytes for each of the 4194304 elements.
  const Kept kept = kept_by_block(graph, 5);
  CHECK(kept.main_bytes == 142'606'336 + 167'772'160);
  CHECK(kept.main_bytes == 74LL * 4'194'304);
  CHECK(kept.statistic_bytes == 32'768);  // the norms' only
}

TEST_CASE("logits of a large vocabulary are as large under every strategy") {
  // 2 * 1024 rows * 248000 * 4 bytes, before the loss's Backward makes gradients.
  for (const char* model : {"megatron-gpt-2b", "llama-3.2-1b"}) {
    CAPTURE(model);
    const Graph graph =
        load_model({.model = model, .batch = 2, .tokens = 1024, .vocab = 248'000}).graph;
    for (const char* strategy : {"none", "every-layer", "sqrt", "uniform:4"}) {
      CAPTURE(strategy);
      const Schedule schedule = lower(graph, plan_named(graph, strategy));
      const Replay replay = replayed_to(graph, schedule, first_backward(schedule));
      CHECK(live_bytes(graph, replay, [](const Tensor& tensor) { return tensor.is_logits; }) ==
            2'031'616'000);
    }
  }
}

TEST_CASE("a Hugging Face Llama layer keeps what its formula says, 49.0 GiB at 8192 tokens") {
  const Graph graph =
      load_model(
          {.model = "llama-3.1-8b", .tokens = 8192, .implementations = {{"attention", "flash"}}})
          .graph;
  // h 4096, nh d 4096, nkv d 1024, nh 32, ff 14336:
  // 16 h 65536 + 4 nh d 16384 + 4 nkv d 4096 + 4 nh 128 + 8 ff 114688 = 200832, and two fp32 rows
  // of norms, 8: 200840 bytes a token.
  std::int64_t bytes = 0;
  for (std::int32_t block = 0; block < 32; ++block) {
    const Kept kept = kept_by_block(graph, block);
    CHECK(kept.main_bytes + kept.statistic_bytes == 8192LL * (200'832 + 8));
    bytes += kept.main_bytes + kept.statistic_bytes;
  }
  // 32 * 8192 * 200840 = 52649000960; 49 GiB are 52613349376, 49.1 GiB 52720723558.
  CHECK(bytes == 52'649'000'960);
}

TEST_CASE("the catalogue's models have as many parameters as their cards say") {
  const auto count = [](const char* model) {
    return parameter_count(load_model({.model = model, .tokens = 1}).graph);
  };
  // Embedding and head 2 * 128256 * 4096 = 1050673152; 32 layers of q and o 2 * 4096^2, k and v
  // 2 * 4096 * 1024, MLP 3 * 4096 * 14336 and norms 8192: 218112000; the last norm 4096.
  CHECK(count("llama-3.1-8b") == 1'050'673'152 + 32LL * 218'112'000 + 4096);
  CHECK(count("llama-3.1-8b") == 8'030'261'248);
  CHECK(count("mistral-7b-v0.1") == 7'241'732'096);
  CHECK(count("gpt2") == 124'439'808);
}

TEST_CASE("weights, gradients and AdamW states of Llama-3.1-8B in bf16 are 59.8 GiB") {
  const Graph graph = load_model({.model = "llama-3.1-8b"}).graph;
  std::int64_t gradient_bytes = 0;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.role == TensorRole::kParameter && tensor.has_gradient)
      gradient_bytes += tensor.bytes;
  }
  // 8030261248 parameters of 2 bytes, as much for gradients, twice that for the two states.
  CHECK(parameter_bytes(graph) == 16'060'522'496);
  CHECK(gradient_bytes == 16'060'522'496);
  CHECK(optimizer_state_bytes(graph) == 32'121'044'992);
  CHECK(parameter_bytes(graph) + gradient_bytes + optimizer_state_bytes(graph) == 64'242'089'984);
}

TEST_CASE("sqrt on 1,000 layers costs at most one more forward, 25 to 40 % by the roofline") {
  const Graph graph =
      load_model({.model = "megatron-gpt-2b", .tokens = 1024, .set = {{"layers", "1000"}}}).graph;
  const DeviceSpec device = find_gpu("h100sxm", {});
  const Plan all_plan = make_plan(graph, parse_strategy("none"), Extent::kPrefix);
  const Plan sqrt_plan = make_plan(graph, parse_strategy("sqrt"), Extent::kPrefix);
  const Schedule all = lower(graph, all_plan);
  const Schedule sqrt = lower(graph, sqrt_plan);
  const ScheduleTime all_time = *schedule_time(graph, all, &device);
  const ScheduleTime sqrt_time = *schedule_time(graph, sqrt, &device);
  const auto ops_in_layers =
      std::count_if(graph.ops.begin(), graph.ops.end(), [](const Op& op) { return op.block >= 0; });
  CHECK(sqrt_plan.regions.size() == 32);  // of ceil(sqrt(1000)) = 32 layers, the last of 8
  CHECK(simulate(graph, sqrt_plan, sqrt).recompute_count <= ops_in_layers);
  CHECK(sqrt_time.total_ns == all_time.total_ns + sqrt_time.recompute_ns);
  const double slowdown =
      static_cast<double>(sqrt_time.recompute_ns) / static_cast<double>(all_time.total_ns);
  CHECK(slowdown > 0.25);
  CHECK(slowdown < 0.40);
}

}  // namespace cairn
