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

const std::vector<test::BadFile> kBad = {};

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
                                         "adamw, this is with --optimizer sgd"),
                       InputError);
}

}  // namespace
}  // namespace cairn
