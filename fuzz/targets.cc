#include "fuzz/targets.h"

#include <cstdint>
#include <string>

#include "graph/error.h"
#include "graph/plan.h"
#include "graph/schedule.h"
#include "models/dims.h"
#include "models/document.h"
#include "models/expression.h"
#include "models/family.h"
#include "models/fields.h"
#include "models/find_model.h"
#include "models/instantiate.h"
#include "models/link_layers.h"
#include "models/load_model.h"
#include "models/plain_graph.h"
#include "sim/simulator.h"
#include "sim/validator.h"

namespace cairn::fuzz {
namespace {

// Reads every value as every type.
void read_all(const Document& document, const Node& node) {
  const auto attempt = [&](auto read) {
    try {
      read(document, node, "value");
    } catch (const InputError&) {
    }
  };
  attempt(to_integer);
  attempt(to_number);
  attempt(to_boolean);
  attempt(to_names);
  CAIRN_CHECK(message_at(document, position_within(document, node, 0), "here").size() > 4, "");
  for (const Node& item : node.items) read_all(document, item);
  for (const Entry& entry : node.entries) read_all(document, entry.value);
}

// What `cairn fit` does with a graph. The validator is quadratic, so only small ones.
void follow(const Graph& graph) {
  constexpr std::size_t kMostOps = 200;
  if (graph.ops.size() > kMostOps) return;
  parameter_bytes(graph);
  optimizer_state_bytes(graph);
  for (const Extent extent : {Extent::kNeeded, Extent::kPrefix, Extent::kWhole}) {
    Plan plan = keep_all_plan(graph);
    plan.extent = extent;
    // One region over the first half.
    const auto half = static_cast<std::int32_t>(graph.ops.size() / 2);
    if (half > 0) plan.regions.push_back({.begin = 0, .end = half});
    try {
      const Schedule schedule = lower(graph, plan);
      const Trace trace = simulate(graph, plan, schedule);
      const ValidationResult verdict = validate(graph, plan, schedule);
      CAIRN_CHECK(verdict.fault == Fault::kNone, verdict.message);
      CAIRN_CHECK(verdict.peak_bytes == trace.peak_bytes, "two peaks");
    } catch (const InputError&) {
    }
  }
}

}  // namespace

void document(std::string_view bytes) {
  try {
    const Document parsed = parse_document("fuzz", std::string(bytes));
    read_all(parsed, parsed.root);
    if (parsed.root.kind == NodeKind::kMapping) {
      Fields fields(parsed, parsed.root, "the root");
      fields.find("name");
      fields.refuse_unknown();
    }
  } catch (const InputError&) {
  }
}

void expression(std::string_view bytes) {
  const Scope outer = {.values = {{"zero", integer_value(0)},
                                  {"one", integer_value(1)},
                                  {"least", integer_value(INT64_MIN)},
                                  {"most", integer_value(INT64_MAX)}}};
  const Scope scope = {
      .parent = &outer,
      .values = {{"half", number_value(0.5)}, {"a.b", integer_value(-7)}, {"t", text_value("x")}}};
  try {
    const Expression parsed = parse_expression(bytes);
    spell(evaluate(parsed, scope));
    evaluate_condition(parsed, scope);
    evaluate_integer(parsed, scope);
  } catch (const ExpressionError& error) {
    CAIRN_CHECK(error.offset() <= bytes.size(), error.what());
  }
}

void plain_graph(std::string_view bytes) {
  try {
    const Document parsed = parse_document("fuzz", std::string(bytes));
    if (is_plain_graph(parsed)) follow(read_plain_graph(parsed, 2));
  } catch (const InputError&) {
  }
}

void hf_config(std::string_view bytes) {
  try {
    const FoundModel found = classify_model(parse_document("fuzz", std::string(bytes)), "fuzz");
    if (found.kind == ModelFileKind::kPlainGraph) return;
    const LoadedModel model = load_found_model({.tokens = 8, .set = {{"layers", "2"}}}, found);
    CAIRN_CHECK(!model.graph.ops.empty(), model.name);
    parameter_count(model.graph);
    follow(model.graph);
  } catch (const InputError&) {
  }
}

void family(std::string_view bytes) {
  try {
    parse_layer(parse_document("fuzz", std::string(bytes)));
  } catch (const InputError&) {
  }
  try {
    const Family parsed = parse_family(parse_document("fuzz", std::string(bytes)));
    check_layers(parsed, {});
    const Document nothing = parse_document("fuzz", "{}");
    const std::vector<DimSource> sources = {{.document = &nothing, .mapping = &nothing.root}};
    Scope dims;
    for (ResolvedDim& dim : resolve_dims(parsed, sources, {})) {
      dims.values[dim.name] = std::move(dim.value);
    }
    dims.values["batch"] = integer_value(2);
    dims.values["tokens"] = integer_value(8);
    family_notes(parsed, dims);
    follow(instantiate({.family = parsed,
                        .layers = {},
                        .dims = dims,
                        .per_layer = resolve_per_layer(parsed, sources),
                        .model_name = "fuzz"}));
  } catch (const InputError&) {
  }
}

}  // namespace cairn::fuzz
