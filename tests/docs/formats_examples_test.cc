// The example files of docs/formats.md, read verbatim.

#include <doctest/doctest.h>

#include <algorithm>

#include "models/chain_file.h"
#include "models/cost_file.h"
#include "models/family.h"
#include "models/gpu_catalogue.h"
#include "models/load_model.h"
#include "models/measured_file.h"
#include "models/plain_graph.h"
#include "models/plan_file.h"
#include "models/recipe_file.h"
#include "models/shapes_file.h"
#include "tests/docs/fenced_files.h"

namespace cairn {
namespace {

TEST_CASE("the example files of docs/formats.md are read as the page says") {
  const test::TemporaryFolder folder;
  const std::vector<std::string> files = test::write_fenced_files("docs/formats.md", folder.path());
  CHECK(files ==
        std::vector<std::string>{
            "two_blocks.yaml", "chain.json", "two_blocks_plan.yaml", "two_blocks_sqrt.yaml",
            "two_blocks_costs.yaml", "shapes.yaml", "families/gated_mlp.yaml",
            "families/gated_mlp_mine.yaml", "sections/language_model.yaml",
            "layers/geglu_eager.yaml", "layers/gated.yaml", "layers/loss_without_logits.yaml",
            "layers/lora_lab.yaml", "layers/loss_in_chunks.yaml", "catalogue/gated-mlp-tiny.yaml",
            "gated/config.json", "gpus/lab.yaml", "recipes/lab-qlora.yaml", "my_runs.yaml"});

  const Layer adapted = parse_layer(read_document(folder.path() / "layers/lora_lab.yaml"));
  CHECK(adapted.adapter_type == "parameter");
  CHECK(adapted.ops[0].is_base);
  CHECK(adapted.ops[1].has_adapter_weights);

  const Graph plain = load_model({.model = (folder.path() / files[0]).string()}).graph;
  CHECK(plain.block_count == 2);
  CHECK(parameter_bytes(plain) == 8192);         // 4096 + 2 * 2048
  CHECK(optimizer_state_bytes(plain) == 16384);  // two states of adamw

  const ChainFile chain = read_chain_file(read_document(folder.path() / files[1]));
  CHECK(chain.layers.size() == 3);
  const Graph chain_graph = read_plain_graph(parse_document("chain", chain_graph_text(chain)), {});
  CHECK(chain_graph.name == "two-layers");

  const Plan plan = read_plan(read_document(folder.path() / files[2]), plain, std::nullopt);
  CHECK(plan.regions.size() == 1);
  CHECK(plan.regions[0].keep.size() == 1);
  CHECK(plan.regions[0].inner.size() == 1);

  // The page's fingerprint, and its text to the byte.
  const Document document = read_document(folder.path() / files[3]);
  const ModelRequest request = *read_plan_origin(document).model;
  const LoadedModel model = load_model(request);
  const Plan sqrt = read_plan_of(document, request, model, std::nullopt);
  write_plan_file(folder.path() / "again.yaml", request, model, sqrt);
  CHECK(read_document(folder.path() / "again.yaml").text == document.text);

  const Document measured = read_document(folder.path() / files[4]);
  const MeasuredCosts costs = read_costs(measured, plain);
  CHECK(costs.ops.size() == 5);
  const PlanOrigin origin = read_plan_origin(measured, kCostOrigin);
  CHECK(cost_file_text(costs, seen_from(origin, folder.path())) == measured.text);

  const std::vector<BatchShape> shapes = read_shapes(read_document(folder.path() / files[5]));
  CHECK(shapes.size() == 2);
  CHECK(shapes[0].weight == 3);

  // A block: the norm's 64 weights, and gate, up and down of 64 x 256, or half of that where
  // narrow.
  const std::int64_t hidden = 64;
  const std::int64_t blocks = 2 * hidden + 3 * hidden * (256 + 128);
  const LoadedModel tiny = load_model({.model = "gated-mlp-tiny", .folders = {folder.path()}});
  CHECK(tiny.recipe.precision.parameter_type == DataType::kBFloat16);
  CHECK(parameter_count(tiny.graph) == 1000 * hidden + blocks);
  const auto has_op = [&](const std::string& name) {
    return std::any_of(tiny.graph.ops.begin(), tiny.graph.ops.end(),
                       [&](const Op& op) { return op.name == name; });
  };
  CHECK(has_op("layers.0.mlp.act.activated"));
  CHECK(has_op("layers.0.mlp.act"));
  CHECK_FALSE(has_op("layers.1.drop"));  // its probability is 0

  const LoadedModel cut = load_model({.model = "gated-mlp-tiny",
                                      .implementations = {{"loss", "cut"}},
                                      .folders = {folder.path()}});
  CHECK(cut.graph.ops.back().kind->name == "cut_cross_entropy");
  CHECK(parameter_count(cut.graph) == 1000 * hidden + blocks);

  const LoadedModel chunked = load_model({.model = "gated-mlp-tiny",
                                          .tokens = 200,
                                          .implementations = {{"loss", "chunked"}},
                                          .folders = {folder.path()}});
  CHECK(parameter_count(chunked.graph) == 1000 * hidden + blocks);
  CHECK(std::count_if(chunked.graph.ops.begin(), chunked.graph.ops.end(), [](const Op& op) {
          return op.kind->name == "nll_loss";
        }) == 2);  // of 128 tokens and 72

  const LoadedModel mine =
      load_model({.model = "gated-mlp-tiny", .library = "mine", .folders = {folder.path()}});
  CHECK(mine.family == "gated_mlp_mine");
  CHECK(parameter_count(mine.graph) == 2 * 1000 * hidden + 2 * 3 * hidden * 256);

  const LoadedModel config =
      load_model({.model = (folder.path() / "gated").string(), .folders = {folder.path()}});
  CHECK(config.name == "gated");
  CHECK(config.recipe.precision.parameter_type == DataType::kFloat32);
  CHECK(parameter_count(config.graph) == hidden * 2 * 1000 + blocks);  // nothing is tied

  const RecipeFile recipe = find_recipe("lab-qlora", {folder.path()});
  CHECK(recipe.training.adapters->rank == 32);
  CHECK(recipe.training.quantization->is_double);
  ModelRequest trained{.model = "llama-3.2-1b", .tokens = 16, .set = {{"layers", "1"}}};
  apply_recipe(recipe, trained);
  CHECK(load_model(trained).implementations.at("norm") == "liger");

  const DeviceSpec gpu = find_gpu("lab-card", {folder.path()});
  CHECK(gpu.total_bytes == (std::int64_t{24576 - 640} << 20));
  CHECK(gpu.has_rates);

  const MeasuredFile runs = read_measured_file(read_document(folder.path() / files.back()));
  REQUIRE(runs.cases.size() == 3);
  CHECK(runs.cases[1].run->checkpointing == "every-layer");
  CHECK(runs.cases[1].run->request.batch == 8);
  CHECK(runs.cases[2].not_modelled == "two GPUs");
  CHECK(runs.bounds.size() == 1);
}

}  // namespace
}  // namespace cairn
