// "A new architecture is one YAML file": the files that CONTRIBUTING.md shows, read verbatim.

#include <doctest/doctest.h>

#include "models/load_model.h"
#include "tests/docs/fenced_files.h"

namespace cairn {
namespace {

TEST_CASE("the example architecture of CONTRIBUTING.md loads, with the parameters it should have") {
  const test::TemporaryFolder folder;
  const std::vector<std::string> files = test::write_fenced_files("CONTRIBUTING.md", folder.path());
  CHECK(files == std::vector<std::string>{"families/nanogpt.yaml", "catalogue/nanogpt-124m.yaml"});
  const LoadedModel model = load_model({.model = "nanogpt-124m", .folders = {folder.path()}});
  CHECK(model.family == "nanogpt");
  const std::int64_t hidden = 768;
  // Token and position tables; the head shares the token table.
  const std::int64_t tables = 50304 * hidden + 1024 * hidden;
  // Two norms' weights, q k v, projection, and the MLP of 4 times the width; no biases.
  const std::int64_t layer =
      2 * hidden + hidden * 3 * hidden + hidden * hidden + 2 * (hidden * 4 * hidden);
  CHECK(parameter_count(model.graph) == tables + 12 * layer + hidden);
  CHECK(parameter_count(model.graph) == 124'373'760);
  CHECK(model.graph.block_count == 12);
}

}  // namespace
}  // namespace cairn
