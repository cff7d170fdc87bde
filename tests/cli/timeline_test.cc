#include "cli/timeline.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/graph_builder.h"

namespace cairn {
namespace {

// embed, then `layers` blocks of two ops, then a loss; every tensor is 100 bytes, the loss none,
// and every op saves its input.
Graph chain_of_blocks(std::int32_t layers) {
  GraphBuilder builder("chain", DataType::kFloat32);
  TensorId x = builder.add_input_bytes("ids", 100, true);
  const auto add = [&](const std::string& name, std::int64_t bytes, std::int32_t block) {
    x = builder
            .add_custom({.name = name,
                         .inputs = {x},
                         .outputs = {{.name = name, .bytes = bytes}},
                         .saved = {builder.tensor(x).name},
                         .block = block})
            .front();
  };
  add("embed", 100, -1);
  for (std::int32_t i = 0; i < layers; ++i) {
    add(fmt::format("layers.{}.up", i), 100, i);
    add(fmt::format("layers.{}.down", i), 100, i);
  }
  add("loss", 0, -1);
  return builder.build(x);
}

TEST_CASE("a row is a run of steps of one phase and block, with its largest during") {
  const Graph graph = chain_of_blocks(2);
  const Evaluation evaluation = evaluate(graph, {.algorithm = Algorithm::kNone}, {});
  const std::vector<TimelineRow> rows = condensed_rows(graph, evaluation, 100);
  REQUIRE(rows.size() == 8);
  CHECK(rows[0].what == "forward embed");
  CHECK(rows[1].what == "forward layers.0");
  CHECK(rows[1].step_count == 2);
  CHECK(rows[1].during_bytes == 400);  // ids, embed, up, down
  CHECK(rows[3].what == "forward loss");
  CHECK(rows[5].what == "backward layers.1");
  CHECK(rows[7].what == "backward embed");
  // ids, embed, two of block 0 and up of block 1, and the gradients of its down and up.
  CHECK(rows[5].during_bytes == 700);
  // Backward of the loss has down instead of the second gradient: a tie, and it comes first.
  CHECK(rows[4].during_bytes == 700);
  CHECK(rows[4].has_peak);
  CHECK_FALSE(rows[5].has_peak);
}

TEST_CASE("many rows are put together, forward apart from backward") {
  const Graph graph = chain_of_blocks(16);
  const Evaluation evaluation = evaluate(graph, {.algorithm = Algorithm::kEveryLayer}, {});
  CHECK(condensed_rows(graph, evaluation, 100).size() > 50);
  const std::vector<TimelineRow> rows = condensed_rows(graph, evaluation, 10);
  REQUIRE(rows.size() <= 10);
  std::size_t step_count = 0;
  for (const TimelineRow& row : rows) step_count += row.step_count;
  CHECK(step_count == step_rows(graph, evaluation).size());
  CHECK(rows[0].what == "forward embed .. layers.6");
  CHECK(rows.back().what.ends_with("embed"));
}

TEST_CASE("bars are scaled to the peak") {
  const std::vector<TimelineRow> rows = {
      {.what = "forward a", .during_bytes = 50, .after_bytes = 40},
      {.what = "backward a", .during_bytes = 100, .after_bytes = 10, .has_peak = true}};
  CHECK(timeline_text(rows, 100) ==
        "steps       during  after\n"
        "forward a     50 B   40 B  ##########\n"
        "backward a   100 B   10 B  #################### peak\n");
}

}  // namespace
}  // namespace cairn
