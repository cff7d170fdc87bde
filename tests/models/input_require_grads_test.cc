// What frozen embeddings make requires a gradient, as Transformers has it where it checkpoints.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "graph/schedule.h"
#include "models/load_model.h"
#include "models/plan_origin.h"
#include "planner/evaluation.h"
#include "planner/planner.h"
#include "sim/simulator.h"
#include "sim/validator.h"
#include "tests/models/small_llama.h"

namespace cairn {
namespace {

ModelRequest small_llama(const std::vector<std::string>& freeze = {"model.embed_tokens"}) {
  ModelRequest request = test::small_llama();
  request.freeze = freeze;
  return request;
}

ModelRequest checkpointed(ModelRequest request) {
  request.is_checkpointed = true;
  return request;
}

const Op* leaf_op(const Graph& graph) {
  const auto found = std::find_if(graph.ops.begin(), graph.ops.end(),
                                  [](const Op& op) { return op.name.ends_with(".requires_grad"); });
  return found == graph.ops.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE(
    "what frozen words make is a leaf where layers are checkpointed, or where it is asked for") {
  const auto has_leaf = [](const ModelRequest& request) {
    return leaf_op(load_model(request).graph) != nullptr;
  };
  CHECK(has_leaf(checkpointed(small_llama())));
  CHECK_FALSE(has_leaf(small_llama()));
  CHECK_FALSE(has_leaf(checkpointed(small_llama({"model.norm"}))));  // the words are trained
  ModelRequest asked = small_llama();
  asked.input_require_grads = true;
  CHECK(has_leaf(asked));
  ModelRequest without = checkpointed(small_llama());
  without.input_require_grads = false;
  CHECK_FALSE(has_leaf(without));
  ModelRequest elsewhere = checkpointed(small_llama({"tok_embeddings"}));
  elsewhere.library = "torchtune";
  CHECK_FALSE(has_leaf(elsewhere));
}

TEST_CASE("the mark is on what Transformers' get_input_embeddings() makes, in each family of it") {
  for (const char* model : {"gpt2", "opt-125m", "gemma-2-2b", "bert-base-uncased", "t5-small",
                            "mixtral-8x7b-v0.1", "pythia-70m", "qwen3-0.6b", "phi-3-mini-4k"}) {
    CAPTURE(model);
    ModelRequest request = checkpointed({.model = model, .tokens = 8, .train_only = {"*norm*"}});
    if (std::string(model) == "gpt2") request.train_only = {"*.ln_f"};
    if (std::string(model) == "bert-base-uncased") request.train_only = {"*.LayerNorm"};
    const Graph graph = load_model(request).graph;
    REQUIRE(leaf_op(graph) != nullptr);
    const Op& table = graph.op(graph.tensor(leaf_op(graph)->inputs[0]).producer);
    CHECK((table.kind->name == "embedding" || table.kind->name == "scale"));
  }
}

TEST_CASE("the leaf and its gradient are live to the end of backward, by the validator too") {
  const Graph graph = load_model(checkpointed(small_llama())).graph;
  const TensorId leaf = leaf_op(graph)->outputs[0];
  CHECK(graph.tensor(leaf).has_gradient);
  CHECK(is_view(graph, leaf));
  for (const Extent extent : {Extent::kNeeded, Extent::kPrefix, Extent::kWhole}) {
    for (const std::int64_t micro_batches : {1, 2}) {
      const Plan plan = make_plan(graph, {.algorithm = Algorithm::kEveryLayer}, extent);
      const TrainingStep step{.micro_batches = micro_batches};
      const Schedule schedule = lower_training_step(graph, step, lower(graph, plan));
      const ValidationResult verdict = validate_training_step(graph, plan, step, schedule);
      REQUIRE_MESSAGE(verdict.fault == Fault::kNone, verdict.message);
      CHECK(verdict.peak_bytes == simulate(graph, plan, schedule).peak_bytes);
      const auto freed = std::find_if(
          schedule.steps.begin(), schedule.steps.end(),
          [&](const Step& one) { return one.kind == StepKind::kFree && one.tensor == leaf; });
      REQUIRE(freed != schedule.steps.end());
      const auto next_backward = std::find_if(freed, schedule.steps.end(), [](const Step& one) {
        return one.kind == StepKind::kBackward && one.micro_batch == 0;
      });
      CHECK(next_backward == schedule.steps.end());
    }
  }
}

TEST_CASE("a frozen layer below all that is trained keeps nothing, but for a leaf's gradient") {
  ModelRequest request = small_llama({"model.embed_tokens", "model.layers.0"});
  const auto saved_in_first_layer = [](const Graph& graph) {
    return std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op& op) {
      return op.block == 0 && (op.has_backward || !op.saved.empty());
    });
  };
  const Graph plain = load_model(request).graph;
  CHECK_FALSE(saved_in_first_layer(plain));
  CHECK(make_plan(plain, {.algorithm = Algorithm::kEveryLayer}, Extent::kPrefix).regions.size() ==
        1);
  const Graph with_leaf = load_model(checkpointed(request)).graph;
  CHECK(saved_in_first_layer(with_leaf));
  CHECK(step_flops(with_leaf, {}) > step_flops(plain, {}));
}

TEST_CASE("what has no embeddings of words, or is no model's code, is refused by name") {
  ModelRequest image{.model = "resnet-50"};
  image.input_require_grads = true;
  CHECK(test::refusal_of(image) ==
        "--input-require-grads: family 'resnet' has no input embeddings of Transformers', whose "
        "output it makes require a gradient");
  ModelRequest plain{.model = std::string(CAIRN_SOURCE_DIR) + "/tests/models/graphs/x1_chain.yaml"};
  plain.input_require_grads = true;
  CHECK(test::refusal_of(plain) ==
        "--input-require-grads has no meaning for a plain graph: its numbers are fixed");
}

TEST_CASE("a plan file says it only where its regions do not") {
  const ModelRequest request = checkpointed(small_llama());
  const LoadedModel model = load_model(request);
  const Plan every = make_plan(model.graph, {.algorithm = Algorithm::kEveryLayer}, Extent::kPrefix);
  CHECK_FALSE(plan_origin(request, model, every).model->input_require_grads.has_value());
  CHECK(plan_origin(request, model, keep_all_plan(model.graph)).model->input_require_grads == true);
}

}  // namespace cairn
