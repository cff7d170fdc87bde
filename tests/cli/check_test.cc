#include "cli/check.h"

#include <doctest/doctest.h>

#include <vector>

#include "cli/check_layer.h"
#include "graph/plan.h"
#include "models/document.h"
#include "models/plain_graph.h"

namespace cairn {
namespace {

// Of a published number of 1,000 bytes.
std::vector<CheckedCase> cases_of(const std::vector<std::int64_t>& computed) {
  std::vector<CheckedCase> cases;
  for (const std::int64_t bytes : computed) {
    CheckedCase checked{.computed_bytes = bytes};
    checked.measured.id = "of " + std::to_string(bytes);
    checked.measured.value_bytes = 1000;
    cases.push_back(checked);
  }
  return cases;
}

ErrorStatistics statistics_of(const std::vector<std::int64_t>& computed) {
  const std::vector<CheckedCase> cases = cases_of(computed);
  std::vector<const CheckedCase*> among;
  for (const CheckedCase& checked : cases) among.push_back(&checked);
  return error_statistics(among);
}

TEST_CASE("an error is computed over published, less 1, and statistics forget its sign") {
  CHECK(error_of(cases_of({1020})[0]) == doctest::Approx(0.02));
  CHECK(error_of(cases_of({950})[0]) == doctest::Approx(-0.05));
  const ErrorStatistics statistics = statistics_of({1020, 950, 1010});
  CHECK(statistics.median == doctest::Approx(0.02));
  CHECK(statistics.worst == doctest::Approx(0.05));
  CHECK(statistics.worst_id == "of 950");
}

TEST_CASE("the 90th percentile is the smallest error that 90 % of the cases do not pass") {
  // Of ten the ninth, of eleven the tenth: nine of eleven are fewer than 90 %.
  CHECK(statistics_of({1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009, 1010}).percentile_90 ==
        doctest::Approx(0.009));
  CHECK(statistics_of({1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009, 1010, 1011})
            .percentile_90 == doctest::Approx(0.010));
  CHECK(statistics_of({1001, 1002}).percentile_90 == doctest::Approx(0.002));
  CHECK(statistics_of({1003}).percentile_90 == doctest::Approx(0.003));
}

TEST_CASE("the median of an even number is the mean of the two in the middle") {
  CHECK(statistics_of({1001, 1002, 1004, 1100}).median == doctest::Approx(0.003));
  CHECK(statistics_of({}).count == 0);
}

TEST_CASE("errors are printed with two digits, and zero has one sign") {
  CHECK(error_text(0.0213) == "+2.13 %");
  CHECK(error_text(-0.0213) == "-2.13 %");
  CHECK(error_text(-0.00001) == "+0.00 %");
  CHECK(magnitude_text(0.5) == "50.00 %");
}

// Two layers: f(x) = a 5 saves x, with a mask 3; g(a) = y 2 saves nothing. The input is held by
// who calls: x's bytes are those of the layer before.
constexpr const char* kTwoLayers = R"(
cairn_graph: 1
inputs: [{name: x, bytes: 7, requires_grad: true}]
ops:
  - {name: f0, block: 0, inputs: [x], outputs: [{name: a0, bytes: 5}], saves: x}
  - {name: g0, block: 0, inputs: [a0], outputs: [{name: y0, bytes: 2}]}
  - name: f1
    block: 1
    inputs: [y0]
    outputs: [{name: a1, bytes: 5}]
    auxiliaries: [{name: mask, bytes: 3}]
    saves: [y0, mask]
  - {name: g1, block: 1, inputs: [a1], outputs: [{name: y1, bytes: 2}]}
  - {name: loss, inputs: [y1], outputs: [{name: l, bytes: 1}], saves: y1}
)";

TEST_CASE("a middle layer keeps what it made and holds at its end, its output included") {
  const Graph graph = read_plain_graph(parse_document("two", kTwoLayers), {});
  const Schedule schedule = lower(graph, keep_all_plan(graph));
  CHECK(kept_by_middle_layer(graph, schedule) == 5);  // the mask 3 and y1 2; a1 is gone
}

}  // namespace
}  // namespace cairn
