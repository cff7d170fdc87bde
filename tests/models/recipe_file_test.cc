#include "models/recipe_file.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "graph/error.h"
#include "models/load_model.h"
#include "models/plan_origin.h"
#include "tests/docs/fenced_files.h"
#include "tests/models/bad_files.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

const std::vector<test::BadFile> kBad = {
    {"a_list.yaml", "a_list.yaml:1:1: a recipe: expected a mapping, found a list"},
    {"accumulate.yaml",
     "accumulate.yaml:2:1: a recipe: key 'accumulate': expected a positive integer, found 0"},
    {"checkpointing_as_text.yaml",
     "checkpointing_as_text.yaml:2:16: a recipe: key 'checkpointing': expected a mapping, found "
     "'every-layer'"},
    {"checkpointing_extent.yaml",
     "checkpointing_extent.yaml:2:33: a recipe: key 'checkpointing': key 'extent': expected one "
     "of needed, prefix, whole, found 'hole'; did you mean 'whole'?"},
    {"checkpointing_unknown_key.yaml",
     "checkpointing_unknown_key.yaml:2:33: a recipe: key 'checkpointing': unknown key 'every'; "
     "expected one of: strategy, extent"},
    {"checkpointing_without_strategy.yaml",
     "checkpointing_without_strategy.yaml:2:16: a recipe: key 'checkpointing': missing key "
     "'strategy'"},
    {"empty_attention.yaml",
     "empty_attention.yaml:2:1: a recipe: key 'attention': expected a name, found an empty text"},
    {"empty_library.yaml",
     "empty_library.yaml:2:1: a recipe: key 'library': expected a name, found an empty text"},
    {"freeze_as_mapping.yaml",
     "freeze_as_mapping.yaml:2:9: a recipe: key 'freeze': expected a name or a list of names, "
     "found a mapping"},
    {"gpus.yaml",
     "gpus.yaml:2:1: a recipe: key 'gpus': expected one of one, several, found 'many'"},
    {"in_backward_and_accumulate.yaml",
     "in_backward_and_accumulate.yaml:3:1: a recipe: key 'accumulate': it contradicts key "
     "'optimizer_in_backward': a parameter is stepped before the later micro-batches have added "
     "to its gradient"},
    {"in_backward_and_foreach.yaml",
     "in_backward_and_foreach.yaml:3:1: a recipe: key 'optimizer_loop': it contradicts key "
     "'optimizer_in_backward': one parameter at a time has nothing to loop over; expected fused "
     "or for-loop"},
    {"in_backward_and_keep_gradients.yaml",
     "in_backward_and_keep_gradients.yaml:3:1: a recipe: key 'keep_gradients': it contradicts "
     "key 'optimizer_in_backward': one drops each gradient in backward, the other keeps them all"},
    {"in_backward_and_main_gradients.yaml",
     "in_backward_and_main_gradients.yaml:3:1: a recipe: key 'main_gradients': it contradicts key "
     "'optimizer_in_backward': one steps each parameter in backward, the other gathers all "
     "gradients for a step behind it"},
    {"keep_gradients.yaml",
     "keep_gradients.yaml:2:17: a recipe: key 'keep_gradients': expected true or false, found "
     "'1'"},
    {"keep_and_main_gradients.yaml",
     "keep_and_main_gradients.yaml:3:1: a recipe: key 'keep_gradients': it contradicts key "
     "'main_gradients': one drops each gradient in backward, the other keeps them all"},
    {"main_gradients.yaml",
     "main_gradients.yaml:2:1: a recipe: key 'main_gradients': expected one of fp32, bf16, fp16, "
     "found 'int8'"},
    {"key_twice.yaml",
     "key_twice.yaml:2:1: expected each key once, found 'title' again (the first is at 1:1)"},
    {"lora_alpha.yaml",
     "lora_alpha.yaml:2:17: a recipe: key 'lora': key 'alpha': expected a number above 0, found "
     "0"},
    {"lora_as_number.yaml",
     "lora_as_number.yaml:2:7: a recipe: key 'lora': expected a mapping, found '8'"},
    {"lora_dora.yaml",
     "lora_dora.yaml:2:23: a recipe: key 'lora': key 'dora': expected true or false, found '8'"},
    {"lora_dropout.yaml",
     "lora_dropout.yaml:2:17: a recipe: key 'lora': key 'dropout': expected a number from 0 to "
     "below 1, found -0.1"},
    {"lora_dtype.yaml",
     "lora_dtype.yaml:2:17: a recipe: key 'lora': key 'dtype': expected one of fp32, bf16, "
     "fp16, found 'bf61'; did you mean 'bf16'?"},
    {"lora_rank_as_text.yaml",
     "lora_rank_as_text.yaml:2:14: a recipe: key 'lora': key 'rank': expected an integer, found "
     "the text '8'"},
    {"lora_rank_of_zero.yaml",
     "lora_rank_of_zero.yaml:2:8: a recipe: key 'lora': key 'rank': expected a positive "
     "integer, found 0"},
    {"lora_rslora.yaml",
     "lora_rslora.yaml:2:25: a recipe: key 'lora': key 'rslora': expected true or false, found "
     "'maybe'"},
    {"lora_targets_as_mapping.yaml",
     "lora_targets_as_mapping.yaml:2:26: a recipe: key 'lora': key 'targets': expected a name "
     "or a list of names, found a mapping"},
    {"lora_train_as_mapping.yaml",
     "lora_train_as_mapping.yaml:2:24: a recipe: key 'lora': key 'train': expected a name or a "
     "list of names, found a mapping"},
    {"lora_unknown_key.yaml",
     "lora_unknown_key.yaml:2:17: a recipe: key 'lora': unknown key 'target'; did you mean "
     "'targets'?"},
    {"lora_without_rank.yaml",
     "lora_without_rank.yaml:2:7: a recipe: key 'lora': missing key 'rank'"},
    {"no_title.yaml", "no_title.yaml:1:1: a recipe: missing key 'title'"},
    {"norm_as_list.yaml",
     "norm_as_list.yaml:2:7: a recipe: key 'norm': expected a text, found a list"},
    {"not_closed.yaml",
     "not_closed.yaml:2:7: expected '}' to close this bracket, found the end of the file"},
    {"notes_as_mapping.yaml",
     "notes_as_mapping.yaml:2:8: a recipe: key 'notes': expected a name or a list of names, "
     "found a mapping"},
    {"optimizer.yaml",
     "optimizer.yaml:2:1: a recipe: key 'optimizer': expected one of adamw, adam, sgd, "
     "sgd-momentum, lion, adamw-8bit, adam-8bit, lion-8bit, adamw-32bit, lion-32bit, "
     "paged-adamw-8bit, paged-adamw-32bit, paged-lion-8bit, paged-lion-32bit, adamw-torch-8bit, "
     "adamw-torch-4bit, adamw-torch-fp8, adafactor, adafactor-torch, muon, found 'adamv'; did you "
     "mean 'adamw'?"},
    {"optimizer_in_backward.yaml",
     "optimizer_in_backward.yaml:2:24: a recipe: key 'optimizer_in_backward': expected true or "
     "false, found '1'"},
    {"optimizer_loop.yaml",
     "optimizer_loop.yaml:2:1: a recipe: key 'optimizer_loop': expected one of fused, foreach, "
     "for-loop, found 'fuse'; did you mean 'fused'?"},
    {"optimizer_states.yaml",
     "optimizer_states.yaml:2:1: a recipe: key 'optimizer_states': expected one of fp32, bf16, "
     "fp16, found 'int8'"},
    {"precision.yaml",
     "precision.yaml:2:1: a recipe: key 'precision': expected one of fp32, bf16, fp16, "
     "autocast-bf16, autocast-fp16, bf16-autocast, bf16-master, found 'bf61'; did you mean "
     "'bf16'?"},
    {"quantize_as_text.yaml",
     "quantize_as_text.yaml:2:11: a recipe: key 'quantize': expected a mapping, found 'nf4'"},
    {"quantize_compute.yaml",
     "quantize_compute.yaml:2:25: a recipe: key 'quantize': key 'compute': expected one of "
     "fp32, bf16, fp16, found 'int8'"},
    {"quantize_double.yaml",
     "quantize_double.yaml:2:33: a recipe: key 'quantize': key 'double': expected true or "
     "false, found 'twice'"},
    {"quantize_format.yaml",
     "quantize_format.yaml:2:12: a recipe: key 'quantize': key 'format': expected one of nf4, "
     "fp4, int8, found 'nf5'; did you mean 'nf4'?"},
    {"quantize_int8_compute.yaml",
     "quantize_int8_compute.yaml:2:26: a recipe: key 'quantize': key 'compute': format int8 is "
     "multiplied as int8: only nf4 and fp4 have one"},
    {"quantize_int8_double.yaml",
     "quantize_int8_double.yaml:2:26: a recipe: key 'quantize': key 'double': format int8 has "
     "no scales of blocks to be quantised again"},
    {"quantize_skip_as_mapping.yaml",
     "quantize_skip_as_mapping.yaml:2:31: a recipe: key 'quantize': key 'skip': expected a name "
     "or a list of names, found a mapping"},
    {"quantize_unknown_key.yaml",
     "quantize_unknown_key.yaml:2:25: a recipe: key 'quantize': unknown key 'skipped'; expected "
     "one of: format, double, compute, skip"},
    {"quantize_without_format.yaml",
     "quantize_without_format.yaml:2:11: a recipe: key 'quantize': missing key 'format'"},
    {"sources_as_mapping.yaml",
     "sources_as_mapping.yaml:2:10: a recipe: key 'sources': expected a name or a list of "
     "names, found a mapping"},
    {"title_as_list.yaml",
     "title_as_list.yaml:1:8: a recipe: key 'title': expected a text, found a list"},
    {"train_only_as_mapping.yaml",
     "train_only_as_mapping.yaml:2:13: a recipe: key 'train_only': expected a name or a list of "
     "names, found a mapping"},
    {"unknown_key.yaml",
     "unknown_key.yaml:2:1: a recipe: unknown key 'precison'; did you mean 'precision'?"},
    {"where_available_as_list.yaml",
     "where_available_as_list.yaml:2:18: a recipe: key 'where_available': expected a mapping, "
     "found a list"},
    {"where_available_empty.yaml",
     "where_available_empty.yaml:2:19: a recipe: key 'where_available': key 'norm': expected a "
     "name, found an empty text"},
    {"where_available_twice.yaml",
     "where_available_twice.yaml:3:19: a recipe: key 'where_available': key 'norm': expected it "
     "here or in the recipe's own key 'norm', found both"},
    {"where_available_unknown_key.yaml",
     "where_available_unknown_key.yaml:2:19: a recipe: key 'where_available': unknown key "
     "'norms'; did you mean 'norm'?"},
};

RecipeFile recipe_of(const std::string& text) {
  return read_recipe(parse_document("mine.yaml", text), "mine");
}

ModelRequest small_model(const RecipeFile& recipe) {
  ModelRequest request{.model = "llama-3.2-1b", .tokens = 16, .set = {{"layers", "1"}}};
  apply_recipe(recipe, request);
  return request;
}

std::string message_of(const ModelRequest& request) {
  try {
    load_model(request);
    return "accepted";
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST_CASE("every key of a recipe is read") {
  const RecipeFile recipe = recipe_of(
      "{title: All keys, precision: bf16-autocast, optimizer: lion, optimizer_loop: for-loop,"
      " optimizer_states: bf16, accumulate: 2, keep_gradients: true, attention: eager,"
      " library: hf, freeze: a, train_only: [b, c], where_available: {norm: liger},"
      " quantize: {format: fp4, double: true, compute: fp16, skip: d},"
      " lora: {rank: 3, alpha: 6, rslora: true, targets: all-linear, dropout: 0.5, dtype: bf16,"
      "        dora: true, train: [e]},"
      " checkpointing: {strategy: sqrt, extent: whole}, gpus: several, notes: f, sources: [g, h]}");
  CHECK(recipe.title == "All keys");
  CHECK(recipe.sources == std::vector<std::string>{"g", "h"});
  CHECK(recipe.training.recipe.needs_several_gpus);
  const ModelRequest& training = recipe.training;
  CHECK(training.precision == find_precision("bf16-autocast"));
  CHECK(training.optimizer == "lion");
  CHECK(training.step.optimizer_loop == OptimizerLoop::kForLoop);
  CHECK(training.step.micro_batches == 2);
  CHECK(training.step.keeps_gradients);
  CHECK_FALSE(training.step.optimizer_in_backward);
  CHECK(training.optimizer_state_type == DataType::kBFloat16);
  CHECK(training.implementations == std::map<std::string, std::string>{{"attention", "eager"}});
  CHECK(training.library == "hf");
  CHECK(training.freeze == std::vector<std::string>{"a"});
  CHECK(training.train_only == std::vector<std::string>{"b", "c"});
  CHECK(training.quantization == Quantization{.format = QuantizedFormat::kFp4,
                                              .is_double = true,
                                              .compute_type = DataType::kFloat16,
                                              .skipped_modules = {"d"}});
  CHECK(training.adapters == Adapters{.rank = 3,
                                      .targets = {"all-linear"},
                                      .dropout = 0.5,
                                      .alpha = 6.0,
                                      .scales_by_root = true,
                                      .data_type = DataType::kBFloat16,
                                      .has_magnitudes = true,
                                      .trained_modules = {"e"}});
  CHECK(training.recipe.where_available == std::map<std::string, std::string>{{"norm", "liger"}});
  CHECK(training.recipe.checkpointing == "sqrt");
  CHECK(training.recipe.extent == Extent::kWhole);
  CHECK(training.recipe.notes ==
        std::vector<std::string>{"recipe 'mine' needs several GPUs; counted on one", "f"});
}

TEST_CASE("main gradients are of the type that the optimizer works on") {
  const RecipeFile recipe = recipe_of("{title: t, precision: bf16-master, main_gradients: fp32}");
  CHECK(recipe.training.step.main_gradient_type == DataType::kFloat32);
  CHECK(message_of(small_model(recipe)) == "accepted");
  CHECK(message_of(small_model(recipe_of("{title: t, precision: bf16, main_gradients: fp32}"))) ==
        "--main-gradients fp32: the optimizer steps 'embed.weight' in bf16, and a copy "
        "of its main gradient in that type is not counted; expected bf16");
}

TEST_CASE("what a recipe does not say is the default") {
  ModelRequest request{.model = "gpt2",
                       .batch = 3,
                       .precision = find_precision("fp32"),
                       .optimizer = "sgd",
                       .step = {.micro_batches = 4, .keeps_gradients = true},
                       .implementations = {{"norm", "torch"}},
                       .freeze = {"wte"},
                       .adapters = Adapters{},
                       .quantization = Quantization{},
                       .expert_capacity = 2.0,
                       .folders = {"mine"}};
  apply_recipe(recipe_of("title: Nothing"), request);
  const ModelRequest plain;
  CHECK(request.model == "gpt2");
  CHECK(request.batch == 3);
  CHECK(request.expert_capacity == 2.0);
  CHECK(request.folders == std::vector<fs::path>{"mine"});
  CHECK_FALSE(request.precision);
  CHECK(request.optimizer == plain.optimizer);
  CHECK(request.step.micro_batches == 1);
  CHECK_FALSE(request.step.keeps_gradients);
  CHECK(request.implementations.empty());
  CHECK(request.freeze.empty());
  CHECK_FALSE(request.adapters);
  CHECK_FALSE(request.quantization);
  CHECK(request.recipe.name == "mine");
}

TEST_CASE("a wrong recipe is refused, with the place and what was expected") {
  test::check_bad_files("recipes", kBad, [](const fs::path& path) {
    read_recipe(read_document(path), path.stem().string());
  });
}

TEST_CASE("what a family has not is an error, or a note where the recipe says so") {
  const std::string here = "title: Here\nnorm: liger\n";
  const std::string where = "title: There\nwhere_available: {norm: liger, mlp: nothing}\n";
  CHECK(load_model(small_model(recipe_of(here))).implementations.at("norm") == "liger");
  const LoadedModel model = load_model(small_model(recipe_of(where)));
  CHECK(model.implementations.at("norm") == "liger");
  CHECK(model.notes.front() ==
        "recipe 'mine': family 'llama' has no mlp 'nothing', its own is taken");

  ModelRequest images{.model = "resnet-50"};
  apply_recipe(recipe_of(here), images);
  CHECK(message_of(images) == "recipe 'mine': family 'resnet' has no choice of norm");
}

TEST_CASE("a recipe is found by its name, in a folder or by its path") {
  const test::TemporaryFolder folder;
  fs::create_directories(folder.path() / "recipes");
  const fs::path path = folder.path() / "recipes/qlora.yaml";
  std::ofstream(path) << "title: My own\n";
  CHECK(find_recipe("qlora", {}).title != "My own");
  CHECK(find_recipe("qlora", {folder.path()}).title == "My own");
  CHECK(find_recipe(path.string(), {}).title == "My own");
  CHECK_THROWS_WITH_AS(
      find_recipe("qlorra", {}),
      "--recipe: expected a recipe (see cairn recipes) or a file, found 'qlorra'; did you mean "
      "'qlora'?",
      InputError);
}

TEST_CASE("every built-in recipe trains a Llama, and its plan's origin makes the same graph") {
  const std::vector<RecipeFile> recipes = list_recipes({});
  CHECK(recipes.size() >= 8);
  for (const RecipeFile& recipe : recipes) {
    CAPTURE(recipe.name);
    CHECK_FALSE(recipe.sources.empty());
    CHECK(recipe.title.size() < 70);
    const ModelRequest request = small_model(recipe);
    const LoadedModel model = load_model(request);
    const PlanOrigin origin = plan_origin(request, model);
    const std::string text = "cairn_plan: 1\n" + plan_origin_text(origin);
    const ModelRequest again = *read_plan_origin(parse_document("plan", text)).model;
    CHECK(fingerprint_of(load_model(again).graph, load_model(again).recipe) == *origin.graph);
  }
}

}  // namespace
}  // namespace cairn
