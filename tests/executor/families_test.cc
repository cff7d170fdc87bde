// A small model of every family, run: bytes are the simulator's, gradients those of keep-all.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "executor/workspaces.h"
#include "graph/error.h"
#include "models/load_model.h"
#include "planner/planner.h"
#include "sim/simulator.h"
#include "tests/executor/executed_steps.h"

namespace cairn {
namespace {

using Sizes = std::vector<std::pair<std::string, std::string>>;

struct SmallModel {
  std::string model = {};
  Sizes set = {};
  std::string library = {};
  std::int64_t tokens = 8;  // 0: of images
};

const Sizes kDecoder = {{"hidden", "16"}, {"heads", "4"}, {"ffn", "24"}, {"layers", "2"}};

Sizes decoder(const Sizes& more = {}) {
  Sizes all = kDecoder;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Sizes grouped(const Sizes& more = {}) {
  Sizes all = decoder({{"kv_heads", "2"}, {"head_dim", "4"}});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

const Sizes kLatent = {{"hidden", "16"},  {"heads", "2"},        {"ffn", "24"},
                       {"layers", "2"},   {"kv_rank", "6"},      {"nope_dim", "4"},
                       {"rope_dim", "4"}, {"value_dim", "6"},    {"experts", "4"},
                       {"groups", "2"},   {"expert_width", "8"}, {"experts_per_token", "2"},
                       {"kv_heads", "2"}, {"dense_layers", "1"}, {"shared_experts", "1"}};

std::vector<SmallModel> small_models() {
  Sizes latent3 = kLatent;
  latent3.insert(latent3.end(), {{"group_limit", "1"}, {"q_rank", "6"}});
  return {
      {"gpt2", decoder({{"max_tokens", "16"}})},
      {"gpt3-175b", decoder()},
      {"megatron-gpt-2b", decoder()},
      {"opt-125m", decoder({{"embed_width", "16"}})},
      {"pythia-70m", {{"hidden", "32"}, {"heads", "2"}, {"ffn", "24"}, {"layers", "2"}}},
      {"llama-3.1-8b", grouped()},
      {"llama-3.1-8b", grouped(), "torchtune"},
      {"llama-3.1-8b", grouped(), "litgpt"},
      {"llama-3.1-8b", grouped(), "torchtitan"},
      {"mistral-7b-v0.1", grouped({{"window", "4"}})},
      {"mixtral-8x7b-v0.1", grouped({{"experts", "4"}})},
      {"qwen-1.8b", decoder({{"head_dim", "4"}})},
      {"qwen2-0.5b", grouped()},
      {"qwen3-0.6b", grouped()},
      {"qwen3-30b-a3b",
       grouped({{"experts", "4"}, {"experts_per_token", "2"}, {"expert_width", "8"}})},
      {"phi-3-mini-4k", decoder({{"kv_heads", "4"}, {"head_dim", "4"}, {"window", "4"}})},
      {"phi-4-mini", decoder({{"kv_heads", "2"}, {"head_dim", "8"}})},
      {"gemma-2b", decoder({{"kv_heads", "1"}, {"head_dim", "4"}})},
      {"gemma-2-2b", grouped({{"window", "4"}})},
      {"gemma-3-1b", grouped({{"window", "4"}, {"window_pattern", "2"}})},
      {"gpt-oss-20b", grouped({{"experts", "4"}, {"experts_per_token", "2"}, {"window", "4"}})},
      {"deepseek-v2-lite", kLatent},
      {"deepseek-v3", latent3},
      {"bert-base-uncased", decoder()},
      {"t5-small", decoder({{"head_dim", "4"}, {"decoder_layers", "2"}})},
      {"vit-base-patch16-224", decoder({{"image", "8"}, {"patch", "4"}}), "", 0},
      {"resnet-18", {{"image", "32"}, {"stem", "8"}, {"classes", "10"}}, "", 0},
      {"resnet-50", {{"image", "32"}, {"stem", "8"}, {"classes", "10"}}, "", 0},
      {"vgg-11", {{"image", "32"}, {"hidden", "16"}, {"classes", "10"}}, "", 0},
      {"vgg-16-bn", {{"image", "32"}, {"hidden", "16"}, {"classes", "10"}}, "", 0},
      {"densenet-121",
       {{"image", "32"},
        {"growth", "4"},
        {"stem", "8"},
        {"layers2", "2"},
        {"layers3", "2"},
        {"layers4", "2"},
        {"classes", "10"}},
       "",
       0},
      {"unet", {{"image", "32"}, {"padding", "1"}, {"width", "4"}}, "", 0},
      {"unet", {{"image", "188"}, {"width", "2"}}, "", 0},
  };
}

ModelRequest request_for(const SmallModel& small, DataType type) {
  ModelRequest request{.model = small.model,
                       .batch = 2,
                       .set = small.set,
                       .precision = Precision{type},
                       .optimizer = "sgd",
                       .library = small.library};
  if (small.tokens > 0) {
    request.tokens = small.tokens;
    request.vocab = 50;
  }
  return request;
}

// What is wrong with the model's run under that strategy, or "".
std::string fault(const LoadedModel& model, std::string_view strategy, Device& device) {
  const Graph graph = with_executor_workspaces(model.graph);
  const TrainingStep& step = model.recipe.step;
  const auto scheduled = [&](const Plan& plan) {
    return lower_training_step(graph, step, lower(graph, plan));
  };
  const Plan plan = make_plan(graph, parse_strategy(strategy), Extent::kNeeded);
  const Schedule schedule = scheduled(plan);
  const ExecutedSteps planned = execute_two_steps(graph, schedule, device);
  const ExecutedStep& last = planned.steps[1];
  const std::string bytes =
      bytes_difference(graph, schedule, simulate(graph, plan, schedule), last);
  if (!bytes.empty()) return bytes;
  if (!(last.loss > 0.0) || !(last.loss < 100.0)) return fmt::format("the loss is {}", last.loss);
  const Plan keep_all{.order = plan.order, .extent = plan.extent};
  const ExecutedSteps kept = execute_two_steps(graph, scheduled(keep_all), device);
  if (last.loss != kept.steps[1].loss) return "the loss is another";
  return gradient_difference(graph, planned, kept);
}

void check_model(const ModelRequest& request, Device& device) {
  std::string name = request.model + " " + request.library;
  for (const auto& [option, choice] : request.implementations) name += " " + option + "=" + choice;
  CAPTURE(name);
  LoadedModel model;
  CHECK_NOTHROW(model = load_model(request));
  if (model.graph.ops.empty()) return;
  for (const std::string_view strategy : {"none", "every-layer"}) {
    CAPTURE(strategy);
    std::string found;
    try {
      found = fault(model, strategy, device);
    } catch (const std::exception& error) {
      found = error.what();
    }
    CHECK(found == "");
  }
}

TEST_CASE("small models of every family run, in fp32 and bf16") {
  const std::unique_ptr<Device> device = make_cpu_device();
  for (const SmallModel& small : small_models()) {
    for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
      CAPTURE(data_type_name(type));
      check_model(request_for(small, type), *device);
    }
  }
}

TEST_CASE("small models run with every implementation that their family has") {
  const std::unique_ptr<Device> device = make_cpu_device();
  const std::vector<std::pair<std::string, std::string>> choices = {
      {"attention", "eager"}, {"attention", "flash"},  {"attention", "flex"},
      {"norm", "torch"},      {"norm", "liger"},       {"norm", "megatron"},
      {"norm", "hf"},         {"rope", "liger"},       {"mlp", "liger"},
      {"mlp", "megatron"},    {"loss", "torch"},       {"loss", "liger"},
      {"loss", "megatron"},   {"loss", "chunked"},     {"loss", "chunked-compiled"},
      {"loss", "cut"},        {"loss", "fused-linear"}};
  int run_count = 0;
  for (const SmallModel& small : small_models()) {
    for (const auto& [option, choice] : choices) {
      ModelRequest request = request_for(small, DataType::kBFloat16);
      request.implementations[option] = choice;
      try {
        load_model(request);
      } catch (const InputError&) {
        continue;  // the family has no such choice
      }
      check_model(request, *device);
      ++run_count;
    }
  }
  CHECK(run_count > 100);
}

TEST_CASE("adapters of every library run") {
  const std::unique_ptr<Device> device = make_cpu_device();
  for (const SmallModel& small : small_models()) {
    if (small.model.find("llama") != 0 || small.library == "torchtitan") continue;
    for (const bool has_magnitudes : {false, true}) {
      if (has_magnitudes && !small.library.empty()) continue;
      for (const double dropout : {0.0, 0.1}) {
        ModelRequest request = request_for(small, DataType::kBFloat16);
        request.adapters = Adapters{.rank = 2,
                                    .targets = {"all-linear"},
                                    .dropout = dropout,
                                    .has_magnitudes = has_magnitudes};
        check_model(request, *device);
      }
    }
  }
}

}  // namespace
}  // namespace cairn
