#include "models/cost_file.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "graph/error.h"
#include "graph/graph_builder.h"
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

MeasuredTime random_time(Random& random) {
  return {.median_ns = static_cast<std::int64_t>(pick(random, 1000000)),
          .spread_ns = static_cast<std::int64_t>(pick(random, 1000))};
}

MeasuredCosts random_costs(const Graph& graph, Random& random) {
  MeasuredCosts costs{.device = "cpu",
                      .step_count = 1 + static_cast<std::int64_t>(pick(random, 100)),
                      .step = random_time(random),
                      .optimizer = random_time(random),
                      .overhead = random_time(random)};
  for (const Op& op : graph.ops) {
    costs.ops.push_back({.name = op.name, .forward = random_time(random)});
    if (op.has_backward) costs.ops.back().backward = random_time(random);
  }
  return costs;
}

const std::vector<test::BadFile> kBad = {
    {"another_graph.yaml",
     "another_graph.yaml:2:1: these costs are of another graph: ops differ, first at op 'qkv'"},
    {"control_characters.yaml",
     "control_characters.yaml:2:1: a cost file: key 'device': expected at most 60 printable "
     "characters, found 'a?[31m'"},
    {"empty_device.yaml",
     "empty_device.yaml:2:1: a cost file: key 'device': expected a name, found an empty text"},
    {"misspelt_key.yaml",
     "misspelt_key.yaml:12:5: op 2: missing key 'forward_spread_ns', found 'foward_spread_ns'"},
    {"no_backward.yaml", "no_backward.yaml:13:5: op 3: missing key 'backward_ns'"},
    {"no_device.yaml", "no_device.yaml:1:1: a cost file: missing key 'device'"},
    {"no_steps.yaml", "no_steps.yaml:3:1: a cost file: key 'steps': expected at least 1, found 0"},
    {"no_version.yaml", "no_version.yaml:1:1: a cost file: missing key 'cairn_costs'"},
    {"not_closed.yaml",
     "not_closed.yaml:14:5: expected '}' to close this bracket, found the end of the file"},
    {"op_missing.yaml",
     "op_missing.yaml:10:1: a cost file: key 'ops': expected all 4 ops of the graph, found 3: "
     "'proj' is missing"},
    {"op_twice.yaml", "op_twice.yaml:13:6: op 3: key 'name': op 'att' is there twice"},
    {"ops_as_mapping.yaml",
     "ops_as_mapping.yaml:11:3: a cost file: key 'ops': expected a list, found a mapping"},
    {"ops_missing.yaml",
     "ops_missing.yaml:10:1: a cost file: key 'ops': expected all 4 ops of the graph, found 1: "
     "'qkv', 'att', 'proj' are missing"},
    {"time_as_text.yaml",
     "time_as_text.yaml:12:29: op 2: key 'forward_ns': expected an integer, found the text '30'"},
    {"time_below_zero.yaml",
     "time_below_zero.yaml:6:1: a cost file: key 'optimizer_ns': expected 0 to 1000000000000000 "
     "nanoseconds, found -20"},
    {"time_past_eleven_days.yaml",
     "time_past_eleven_days.yaml:4:1: a cost file: key 'step_ns': expected 0 to 1000000000000000 "
     "nanoseconds, found 1000000000000001"},
    {"time_with_a_fraction.yaml",
     "time_with_a_fraction.yaml:11:29: op 1: key 'forward_ns': expected an integer, found '10.5'"},
    {"unknown_key.yaml",
     "unknown_key.yaml:4:1: a cost file: unknown key 'devices'; did you mean 'device'?"},
    {"unknown_op.yaml",
     "unknown_op.yaml:13:6: op 3: key 'name': expected an op of the graph, found 'porj'; did you "
     "mean 'proj'?"},
    {"version.yaml",
     "version.yaml:1:1: a cost file: key 'cairn_costs': expected version 1, found 2"},
};

TEST_CASE("cost files that are wrong in one way each are refused at the place") {
  const ModelRequest request = flash_attention_request();
  const LoadedModel model = load_model(request);
  test::check_bad_files("costs", kBad, [&](const fs::path& path) {
    read_costs_of(read_document(path), request, model);
  });
}

TEST_CASE("costs that are written are the same when read again") {
  const std::uint64_t seed = test_seed();
  for (std::uint64_t i = 0; i < 100; ++i) {
    Random random(seed + i);
    CAPTURE(seed + i);
    const Graph graph = random_graph(random);
    const MeasuredCosts costs = random_costs(graph, random);
    CHECK(read_costs(parse_document("costs.yaml", cost_file_text(costs)), graph) == costs);
  }
}

TEST_CASE("a cost file knows its graph again, times set or not") {
  const test::TemporaryFolder folder;
  const ModelRequest request = flash_attention_request();
  LoadedModel model = load_model(request);
  Random random(1);
  const MeasuredCosts costs = random_costs(model.graph, random);
  write_costs(folder.path() / "costs.yaml", request, model, costs);
  const Document document = read_document(folder.path() / "costs.yaml");
  CHECK(read_costs_of(document, request, model) == costs);
  set_measured_times(model.graph, costs);
  CHECK(read_costs_of(document, request, model) == costs);

  ModelRequest other = request;
  other.optimizer = "sgd";
  CHECK_THROWS_WITH_AS(read_costs_of(document, other, load_model(other)),
                       doctest::Contains("these costs are of another graph: made with --optimizer "
                                         "adamw, this is with sgd; recipe differs"),
                       InputError);
}

}  // namespace
}  // namespace cairn
