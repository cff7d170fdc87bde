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

Graph flash_attention() {
  const fs::path graphs = fs::path(CAIRN_SOURCE_DIR) / "tests/models/graphs";
  return load_model({.model = (graphs / "x4_flash_attention.yaml").string()}).graph;
}

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
  const Graph graph = flash_attention();
  test::check_bad_files("plans", kBad, [&](const fs::path& path) {
    read_plan(read_document(path), graph, std::nullopt);
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
