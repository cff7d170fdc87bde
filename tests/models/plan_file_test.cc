#include "models/plan_file.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "graph/error.h"
#include "models/load_model.h"
#include "tests/docs/fenced_files.h"
#include "tests/models/bad_files.h"
#include "tests/seed.h"
#include "tests/sim/random_graph.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

ModelRequest flash_attention_request() {
  const fs::path graphs = fs::path(CAIRN_SOURCE_DIR) / "tests/models/graphs";
  return {.model = (graphs / "x4_flash_attention.yaml").string()};
}

Graph flash_attention() { return load_model(flash_attention_request()).graph; }

Plan read_text(const Graph& graph, const std::string& text) {
  return read_plan(parse_document("folder/mine.yaml", text), graph, std::nullopt);
}

bool are_same(const std::vector<Region>& a, const std::vector<Region>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Region& x, const Region& y) {
    return x.begin == y.begin && x.end == y.end && x.keep == y.keep && are_same(x.inner, y.inner);
  });
}

const std::vector<test::BadFile> kBad = {
    {"control_characters.yaml",
     "control_characters.yaml:2:1: a plan: key 'name': expected at most 60 printable characters, "
     "found 'a?[31m'"},
    {"extent.yaml",
     "extent.yaml:2:1: a plan: key 'extent': expected one of needed, prefix, whole, found 'prefx'; "
     "did you mean 'prefix'?"},
    {"inner_begins_outside.yaml",
     "inner_begins_outside.yaml:5:23: region 1.1: key 'first': expected an op of region 1, which "
     "is "
     "'att' to 'proj', found 'qkv'"},
    {"inner_keep.yaml",
     "inner_keep.yaml:5:28: region 1.1: key 'keep': only outermost regions may have one"},
    {"inner_leaves_parent.yaml",
     "inner_leaves_parent.yaml:5:34: region 1.1: key 'last': expected an op of region 1, which "
     "ends "
     "with 'att', found 'proj'"},
    {"keep_an_input.yaml",
     "keep_an_input.yaml:3:36: region 1: key 'keep': expected a tensor that the region makes, "
     "found "
     "'x', which no op makes"},
    {"keep_as_mapping.yaml",
     "keep_as_mapping.yaml:3:24: region 1: key 'keep': expected a name or a list of names, found a "
     "mapping"},
    {"keep_not_made.yaml",
     "keep_not_made.yaml:3:36: region 1: key 'keep': expected a tensor that the region makes, "
     "found "
     "'q', which op 'qkv' makes"},
    {"keep_twice.yaml", "keep_twice.yaml:3:40: region 1: key 'keep': 'o' is there twice"},
    {"keep_unknown.yaml",
     "keep_unknown.yaml:3:40: region 1: key 'keep': expected a tensor of the graph, found 'les'; "
     "did you mean 'lse'?"},
    {"keep_useless.yaml",
     "keep_useless.yaml:4:45: no Backward and no recompute reads 'l': it cannot be kept"},
    {"last_before_first.yaml",
     "last_before_first.yaml:3:24: region 1: key 'last': expected 'att' or an op behind it, found "
     "'qkv'"},
    {"missing_first.yaml", "missing_first.yaml:3:5: region 1: missing key 'first'"},
    {"no_version.yaml", "no_version.yaml:1:1: a plan: missing key 'cairn_plan'"},
    {"not_in_order.yaml",
     "not_in_order.yaml:4:13: region 2: key 'first': expected an op behind the region before, "
     "which "
     "ends with 'att', found 'qkv'"},
    {"order_not_topological.yaml",
     "order_not_topological.yaml:2:14: a plan: key 'order': op 'proj' comes before 'att', which "
     "makes its input 'o'"},
    {"order_too_short.yaml",
     "order_too_short.yaml:2:1: a plan: key 'order': expected all 4 ops of the graph, found 3: "
     "'loss' is missing"},
    {"order_twice.yaml", "order_twice.yaml:2:19: a plan: key 'order': op 'att' is there twice"},
    {"order_unknown.yaml",
     "order_unknown.yaml:2:14: a plan: key 'order': expected an op of the graph, found 'attn'; did "
     "you mean 'att'?"},
    {"overlap.yaml",
     "overlap.yaml:4:13: region 2: key 'first': expected an op behind the region before, which "
     "ends "
     "with 'att', found 'att'"},
    {"region_as_text.yaml", "region_as_text.yaml:3:5: region 1: expected a mapping, found 'qkv'"},
    {"regions_as_mapping.yaml",
     "regions_as_mapping.yaml:2:10: a plan: key 'regions': expected a list, found a mapping"},
    {"unknown_key.yaml",
     "unknown_key.yaml:3:18: region 1: unknown key 'end'; expected one of: first, last, keep, "
     "regions"},
    {"unknown_last.yaml",
     "unknown_last.yaml:3:24: region 1: key 'last': expected an op of the graph, found 'prj'; did "
     "you mean 'proj'?"},
    {"unknown_op.yaml",
     "unknown_op.yaml:3:13: region 1: key 'first': expected an op of the graph, found 'qvk'; did "
     "you mean 'qkv'?"},
    {"version.yaml", "version.yaml:1:1: a plan: key 'cairn_plan': expected version 1, found 2"},
    {"fingerprint_as_number.yaml",
     "fingerprint_as_number.yaml:5:3: a plan: key 'graph': key 'fingerprint': expected 16 "
     "hexadecimal digits, found '2'"},
    {"fingerprint_in_capitals.yaml",
     "fingerprint_in_capitals.yaml:5:3: a plan: key 'graph': key 'fingerprint': expected 16 "
     "hexadecimal digits, found '2F1117D2a7af5ba1'"},
    {"fingerprint_not_of_its_parts.yaml",
     "fingerprint_not_of_its_parts.yaml:5:3: a plan: key 'graph': key 'fingerprint': expected "
     "'2f1117d2a7af5ba1', which its parts give, found '2f1217d2a7af5ba1'"},
    {"graph_as_text.yaml",
     "graph_as_text.yaml:2:8: a plan: key 'graph': expected a mapping, found the text "
     "'2f1117d2a7af5ba1'"},
    {"graph_parts_as_list.yaml",
     "graph_parts_as_list.yaml:6:10: a plan: key 'graph': key 'parts': expected a mapping, found a "
     "list"},
    {"key_of_region_twice.yaml",
     "key_of_region_twice.yaml:3:18: expected each key once, found 'first' again (the first is at "
     "3:6)"},
    {"key_twice.yaml",
     "key_twice.yaml:3:1: expected each key once, found 'regions' again (the first is at 2:1)"},
    {"marks_no_hex.yaml",
     "marks_no_hex.yaml:9:3: a plan: key 'graph': key 'marks': expected 4 hexadecimal digits, "
     "found '097x'"},
    {"marks_too_short.yaml",
     "marks_too_short.yaml:9:3: a plan: key 'graph': key 'marks': expected 80 hexadecimal digits, "
     "found 79 characters"},
    {"model_as_text.yaml",
     "model_as_text.yaml:2:8: a plan: key 'model': expected a mapping, found 'gpt2'"},
    {"model_batch_as_text.yaml",
     "model_batch_as_text.yaml:2:28: a plan: key 'model': key 'batch': expected an integer, found "
     "'8k'"},
    {"model_batch_of_zero.yaml",
     "model_batch_of_zero.yaml:2:21: a plan: key 'model': key 'batch': expected a positive "
     "integer, found 0"},
    {"model_empty_attention.yaml",
     "model_empty_attention.yaml:2:21: a plan: key 'model': key 'attention': expected a name, "
     "found an empty text"},
    {"model_empty_name.yaml",
     "model_empty_name.yaml:2:9: a plan: key 'model': key 'name': expected a name, found an empty "
     "text"},
    {"model_expert_capacity.yaml",
     "model_expert_capacity.yaml:2:21: a plan: key 'model': key 'expert_capacity': expected a "
     "number above 0, found -1"},
    {"model_expert_imbalance_past_a_double.yaml",
     "model_expert_imbalance_past_a_double.yaml:2:39: a plan: key 'model': key 'expert_imbalance': "
     "expected a number that fits a double, found '1e999'"},
    {"model_flag_as_number.yaml",
     "model_flag_as_number.yaml:2:37: a plan: key 'model': key 'keep_gradients': expected true or "
     "false, found '1'"},
    {"model_freeze_as_mapping.yaml",
     "model_freeze_as_mapping.yaml:2:29: a plan: key 'model': key 'freeze': expected a name or a "
     "list of names, found a mapping"},
    {"model_lora_as_number.yaml",
     "model_lora_as_number.yaml:2:27: a plan: key 'model': key 'lora': expected a mapping, found "
     "'16'"},
    {"model_lora_dropout.yaml",
     "model_lora_dropout.yaml:2:38: a plan: key 'model': key 'lora': key 'dropout': expected a "
     "number from 0 to below 1, found 1"},
    {"model_lora_without_rank.yaml",
     "model_lora_without_rank.yaml:2:27: a plan: key 'model': key 'lora': missing key 'rank'"},
    {"model_name_and_file.yaml",
     "model_name_and_file.yaml:2:21: a plan: key 'model': key 'file': expected it or 'name', found "
     "both"},
    {"model_name_is_a_path.yaml",
     "model_name_is_a_path.yaml:2:9: a plan: key 'model': key 'name': expected a name, found the "
     "path 'gpt2/config.json' (a path is given with 'file')"},
    {"model_optimizer.yaml",
     "model_optimizer.yaml:2:21: a plan: key 'model': key 'optimizer': expected one of adamw, "
     "adam, sgd, sgd-momentum, lion, adamw-8bit, adam-8bit, lion-8bit, adamw-32bit, lion-32bit, "
     "paged-adamw-8bit, paged-adamw-32bit, paged-lion-8bit, paged-lion-32bit, adamw-torch-8bit, "
     "adamw-torch-4bit, adamw-torch-fp8, adafactor, adafactor-torch, muon, found 'adam-w'; did you "
     "mean 'adamw'?"},
    {"model_optimizer_loop.yaml",
     "model_optimizer_loop.yaml:2:21: a plan: key 'model': key 'optimizer_loop': expected one of "
     "fused, foreach, for-loop, found 'for'"},
    {"model_part.yaml",
     "model_part.yaml:2:21: a plan: key 'model': key 'part': expected one of all, text, found "
     "'texts'; did you mean 'text'?"},
    {"model_precision.yaml",
     "model_precision.yaml:2:21: a plan: key 'model': key 'precision': expected one of fp32, bf16, "
     "fp16, autocast-bf16, autocast-fp16, bf16-autocast, bf16-master, found 'bf61'; did you mean "
     "'bf16'?"},
    {"model_quantize_int8_double.yaml",
     "model_quantize_int8_double.yaml:2:46: a plan: key 'model': key 'quantize': key 'double': "
     "format int8 has no scales of blocks to be quantised again"},
    {"model_set_as_list.yaml",
     "model_set_as_list.yaml:2:26: a plan: key 'model': key 'set': expected a mapping, found a "
     "list"},
    {"model_set_of_mapping.yaml",
     "model_set_of_mapping.yaml:2:35: a plan: key 'model': key 'set': expected a text, found a "
     "mapping"},
    {"model_tokens_past_64_bits.yaml",
     "model_tokens_past_64_bits.yaml:2:29: a plan: key 'model': key 'tokens': expected an integer "
     "within 64 bits, found '99999999999999999999'"},
    {"model_unknown_key.yaml",
     "model_unknown_key.yaml:2:21: a plan: key 'model': unknown key 'token'; did you mean "
     "'tokens'?"},
    {"model_without_name.yaml",
     "model_without_name.yaml:2:8: a plan: key 'model': missing key 'name', or 'file'"},
    {"not_closed.yaml",
     "not_closed.yaml:2:11: expected '}' to close this bracket, found the end of the file"},
    {"ops_past_64_bits.yaml",
     "ops_past_64_bits.yaml:3:8: a plan: key 'graph': key 'ops': expected an integer within 64 "
     "bits, found '9223372036854775808'"},
    {"other_graph_bytes.yaml",
     "other_graph_bytes.yaml:3:1: this plan is for another graph: the same was asked for, but the "
     "model has changed since; bytes, costs differ, first at op 'att'"},
    {"other_graph_costs.yaml",
     "other_graph_costs.yaml:3:1: this plan is for another graph: the same was asked for, but the "
     "model has changed since; costs differ, first at op 'att'"},
    {"other_graph_file.yaml",
     "other_graph_file.yaml:2:9: this plan is for another graph: made for "
     "../../graphs/x1_chain.yaml, this is ../../graphs/x4_flash_attention.yaml; ops differ: op 1 "
     "was '0', here it is 'qkv'"},
    {"other_graph_is_longer.yaml",
     "other_graph_is_longer.yaml:3:1: this plan is for another graph: the same was asked for, but "
     "the model has changed since; ops differ (5 ops then, 4 here), first at op 'loss'"},
    {"other_graph_ops.yaml",
     "other_graph_ops.yaml:3:1: this plan is for another graph: the same was asked for, but the "
     "model has changed since; ops differ, first at op 'att'; op 'attn' is not in this graph"},
    {"other_graph_saves.yaml",
     "other_graph_saves.yaml:3:1: this plan is for another graph: the same was asked for, but the "
     "model has changed since; saved sets differ, first at op 'att'"},
    {"other_graph_without_model.yaml",
     "other_graph_without_model.yaml:2:1: this plan is for another graph: ops differ, first at op "
     "'att'"},
    {"other_recipe.yaml",
     "other_recipe.yaml:2:55: this plan is for another graph: made with --optimizer sgd, this is "
     "with adamw; made with --accumulate 4, this is with 1; recipe differs"},
    {"part_missing.yaml",
     "part_missing.yaml:6:10: a plan: key 'graph': key 'parts': missing key 'types'"},
    {"part_past_64_bits.yaml",
     "part_past_64_bits.yaml:6:64: a plan: key 'graph': key 'parts': key 'types': expected 16 "
     "hexadecimal digits, found '1d7e360921844bc79'"},
    {"part_unknown.yaml",
     "part_unknown.yaml:6:10: a plan: key 'graph': key 'parts': missing key 'saved', found "
     "'saves'"},
    {"tab_for_spaces.yaml", "tab_for_spaces.yaml:3:1: expected spaces to indent, found a tab"},
    {"tensors_below_one.yaml",
     "tensors_below_one.yaml:4:3: a plan: key 'graph': key 'tensors': expected a positive integer, "
     "found 0"},
    {"version_as_text.yaml",
     "version_as_text.yaml:1:13: a plan: key 'cairn_plan': expected an integer, found the text "
     "'1'"},
    {"version_past_64_bits.yaml",
     "version_past_64_bits.yaml:1:13: a plan: key 'cairn_plan': expected an integer within 64 "
     "bits, found '18446744073709551617'"},
};

TEST_CASE("a plan file names ops and tensors of the graph") {
  const Graph graph = flash_attention();
  const Plan plan = read_text(graph,
                              "cairn_plan: 1\n"
                              "regions:\n"
                              "  - first: qkv\n"
                              "    last: proj\n"
                              "    keep: [o, lse]\n"
                              "    regions: [{first: qkv}]\n");
  CHECK(plan.algorithm == "mine");  // the file's name
  CHECK(plan.extent == Extent::kPrefix);
  CHECK(plan.order == keep_all_plan(graph).order);
  REQUIRE(plan.regions.size() == 1);
  CHECK(plan.regions[0].begin == 0);
  CHECK(plan.regions[0].end == 3);
  CHECK(plan.regions[0].keep.size() == 2);
  REQUIRE(plan.regions[0].inner.size() == 1);
  CHECK(plan.regions[0].inner[0].end == 1);
}

TEST_CASE("a plan without regions keeps everything, and an extent that is asked for wins") {
  const Graph graph = flash_attention();
  const std::string text = "{cairn_plan: 1, name: all, extent: whole}";
  CHECK(read_text(graph, text).extent == Extent::kWhole);
  CHECK(read_text(graph, text).regions.empty());
  CHECK(read_plan(parse_document("p", text), graph, Extent::kNeeded).extent == Extent::kNeeded);
}

TEST_CASE("a plan that is written and read is the same plan") {
  INFO("--seed=", test_seed());
  Random random(test_seed());
  for (int i = 0; i < 300; ++i) {
    const Graph graph = random_graph(random);
    constexpr Extent kExtents[] = {Extent::kNeeded, Extent::kPrefix, Extent::kWhole};
    Plan plan = random_plan(graph, kExtents[pick(random, 3)], random);
    plan.algorithm = "random";
    const std::string text = plan_file_text(graph, plan);
    CAPTURE(text);
    const Plan again = read_text(graph, text);
    CHECK(again.algorithm == plan.algorithm);
    CHECK(again.extent == plan.extent);
    CHECK(again.order == plan.order);
    REQUIRE(are_same(again.regions, plan.regions));
  }
}

TEST_CASE("a wrong plan is refused, with the place and what was expected") {
  const fs::path graphs = test::bad_folder() / "plans/../../graphs";
  const ModelRequest request = {.model = (graphs / "x4_flash_attention.yaml").string()};
  const LoadedModel model = load_model(request);
  test::check_bad_files("plans", kBad, [&](const fs::path& path) {
    read_plan_of(read_document(path), request, model, std::nullopt);
  });
}

TEST_CASE("a plan file is written whole, over what was there") {
  const test::TemporaryFolder folder;
  const Graph graph = flash_attention();
  const fs::path path = folder.path() / "plan.yaml";
  const Plan plan = read_text(graph, "{cairn_plan: 1, regions: [{first: qkv, last: att}]}");
  write_plan_file(path, graph, keep_all_plan(graph));
  write_plan_file(path, graph, plan);
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  CHECK(text ==
        "cairn_plan: 1\nname: mine\nextent: prefix\nregions:\n  - {first: qkv, last: att}\n");
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
  CHECK_THROWS_AS(write_plan_file(folder.path() / "none" / "p", graph, plan), InputError);
  CHECK_THROWS_AS(write_plan_file(folder.path(), graph, plan), InputError);
}

}  // namespace
}  // namespace cairn
