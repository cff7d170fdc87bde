// Names of a program that hold tensors beyond their last reader (docs/accounting.md, rule 1a).

#include <doctest/doctest.h>

#include <string>

#include "graph/error.h"
#include "graph/graph_builder.h"
#include "graph/schedule.h"
#include "sim/simulator.h"
#include "sim/validator.h"

namespace cairn {
namespace {

// f x -> a, g a -> b, h b -> c, k c -> d, loss d -> z; k saves its input. All have 8 bytes.
Graph chain(const std::string& held, const std::string& last_op) {
  GraphBuilder builder("chain", DataType::kFloat32);
  TensorId value = builder.add_input_bytes("x", 8, true);
  const char* const names[][2] = {{"f", "a"}, {"g", "b"}, {"h", "c"}, {"k", "d"}, {"loss", "z"}};
  for (const auto& [op, output] : names) {
    CustomOp custom{.name = op, .inputs = {value}, .outputs = {{.name = output, .bytes = 8}}};
    if (custom.name == "k") custom.saved = {"c"};
    value = builder.add_custom(custom)[0];
  }
  builder.hold_until(builder.find(held), builder.find_op(last_op));
  return builder.build(value);
}

std::string steps(const Graph& graph, std::vector<Region> regions, Extent extent) {
  Plan plan = keep_all_plan(graph);
  plan.regions = std::move(regions);
  plan.extent = extent;
  const Schedule schedule = lower(graph, plan);
  const ValidationResult result = validate(graph, plan, schedule);
  CHECK_MESSAGE(result.fault == Fault::kNone, result.message);
  CHECK(result.peak_bytes == simulate(graph, plan, schedule).peak_bytes);
  std::string text;
  for (const Step& step : schedule.steps) {
    text += (text.empty() ? "" : ", ") + step_text(graph, step);
  }
  return text;
}

std::string refusal(const std::string& held, const std::string& last_op) {
  try {
    chain(held, last_op);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a held tensor dies behind the op that ends its scope, if nothing reads it later") {
  const std::string backward = ", B loss, FG z, B k, F c, FG d, B h, FG c, B g, FG b, B f, FG a";
  CHECK(steps(chain("a", "f"), {}, Extent::kNeeded) ==
        "C f, C g, F a, C h, F b, C k, C loss, F d, F z" + backward);
  CHECK(steps(chain("a", "k"), {}, Extent::kNeeded) ==
        "C f, C g, C h, F b, C k, F a, C loss, F d, F z" + backward);
  // k saves c, which B k reads behind the scope's end.
  CHECK(steps(chain("c", "loss"), {}, Extent::kNeeded) ==
        "C f, C g, F a, C h, F b, C k, C loss, F d, F z" + backward);
}

TEST_CASE("a scope in a recompute ends with the last op of it that the recompute runs") {
  const std::vector<Region> region = {{.begin = 0, .end = 4}};
  const std::string forward = "C f, C g, C h, F b, C k, F a, F c, C loss, F d, F z, B loss, FG z";
  // Without a scope, R g would free a. `needed` stops before k; `whole` runs it.
  CHECK(steps(chain("a", "k"), region, Extent::kNeeded) ==
        forward + ", R f, R g, R h, F a, F b, B k, F c, FG d, B h, FG c, B g, FG b, B f, FG a");
  CHECK(steps(chain("a", "k"), region, Extent::kWhole) ==
        forward +
            ", R f, R g, R h, F b, R k, F a, F d, B k, F c, FG d, B h, FG c, B g, FG b, B f, FG a");
  // The scope reaches beyond the region.
  CHECK(steps(chain("a", "loss"), region, Extent::kNeeded) ==
        "C f, C g, C h, F b, C k, F c, C loss, F a, F d, F z, B loss, FG z"
        ", R f, R g, R h, F a, F b, B k, F c, FG d, B h, FG c, B g, FG b, B f, FG a");
}

TEST_CASE("what cannot be held is refused") {
  CHECK(refusal("b", "f") ==
        "tensor 'b': it cannot be held until op 'f', which comes before it is made");
  CHECK(refusal("x", "f") == "accepted");  // there for the whole step
}

}  // namespace cairn
