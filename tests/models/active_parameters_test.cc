// Parameters that one token goes through: of experts, those it takes.

#include <doctest/doctest.h>

#include "graph/graph.h"
#include "models/load_model.h"

namespace cairn {
namespace {

std::int64_t active(const std::string& model) {
  return active_parameter_count(load_model({.model = model, .tokens = 8}).graph);
}

TEST_CASE("a model without experts uses every parameter for every token") {
  CHECK(active("gpt2") == 124'439'808);
}

TEST_CASE("a token takes some of the experts, with their biases, and all else") {
  // 32 layers, each 8 experts of 3 * 4096 * 14336; of 46702792704 in all, 6 of 8 are not taken:
  // 46702792704 - 32 * 6 * 176160768.
  CHECK(active("mixtral-8x7b-v0.1") == 12'879'925'248);
  // 24 layers, each 32 experts of 3 * 2880 * 2880 weights and 3 * 2880 biases; 4 are taken:
  // 20914757184 - 24 * 28 * (24883200 + 8640).
  CHECK(active("gpt-oss-20b") == 4'187'440'704);
}

TEST_CASE("what the busiest rank computes does not change what a token takes") {
  const LoadedModel model =
      load_model({.model = "mixtral-8x7b-v0.1", .tokens = 8, .expert_imbalance = 2.0});
  CHECK(active_parameter_count(model.graph) == 12'879'925'248);
}

}  // namespace
}  // namespace cairn
