#include "fuzz/targets.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/error.h"
#include "graph/plan.h"
#include "graph/schedule.h"
#include "models/chain_file.h"
#include "models/cost_file.h"
#include "models/dims.h"
#include "models/document.h"
#include "models/expression.h"
#include "models/family.h"
#include "models/fields.h"
#include "models/find_model.h"
#include "models/instantiate.h"
#include "models/link_layers.h"
#include "models/load_model.h"
#include "models/measured_file.h"
#include "models/plain_graph.h"
#include "models/plan_file.h"
#include "models/plan_origin.h"
#include "models/recipe_file.h"
#include "models/requirements.h"
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

// The validator is quadratic, so it sees only small graphs.
bool is_small(const Graph& graph) {
  constexpr std::size_t kMostOps = 200;
  return graph.ops.size() <= kMostOps;
}

void check_lowered(const Graph& graph, const Plan& plan) {
  const Schedule schedule = lower(graph, plan);
  const Trace trace = simulate(graph, plan, schedule);
  const ValidationResult verdict = validate(graph, plan, schedule);
  CAIRN_CHECK(verdict.fault == Fault::kNone, verdict.message);
  CAIRN_CHECK(verdict.peak_bytes == trace.peak_bytes, "two peaks");
}

// What `cairn fit` does with a graph.
void follow(const Graph& graph) {
  if (!is_small(graph)) return;
  parameter_bytes(graph);
  optimizer_state_bytes(graph);
  for (const Extent extent : {Extent::kNeeded, Extent::kPrefix, Extent::kWhole}) {
    Plan plan = keep_all_plan(graph);
    plan.extent = extent;
    // One region over the first half.
    const auto half = static_cast<std::int32_t>(graph.ops.size() / 2);
    if (half > 0) plan.regions.push_back({.begin = 0, .end = half});
    try {
      check_lowered(graph, plan);
    } catch (const InputError&) {
    }
  }
}

bool loads(const FoundModel& found, const ModelRequest& request) {
  try {
    const LoadedModel model = load_found_model(request, found);
    CAIRN_CHECK(!model.graph.ops.empty(), model.name);
    parameter_count(model.graph);
    follow(model.graph);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

// With repeats that the command line shortens; image models have neither these nor tokens.
void load_config(const FoundModel& found, bool text_part_only) {
  const ModelRequest images{.text_part_only = text_part_only};
  ModelRequest words = images;
  words.tokens = 8;
  words.set = {{"layers", "2"}};
  ModelRequest experts = words;
  experts.expert_imbalance = 1.5;
  experts.expert_capacity = 1.25;
  if (!loads(found, words)) loads(found, images);
  loads(found, experts);
}

constexpr std::string_view kBetweenFiles = "\n---\n";

// A family and the files that it mentions.
struct FamilyFiles {
  std::string family = {};
  std::vector<Document> sections = {};
  std::map<std::string, Layer> layers = {};
};

FamilyFiles read_family_files(std::string_view bytes) {
  FamilyFiles files;
  while (!bytes.empty()) {
    const std::size_t end = std::min(bytes.find(kBetweenFiles), bytes.size());
    const std::string text(bytes.substr(0, end));
    bytes.remove_prefix(std::min(end + kBetweenFiles.size(), bytes.size()));
    if (text.find("layer:") < text.find("family:")) {
      Layer layer = parse_layer(parse_document("fuzz", text));
      files.layers.emplace(layer.name, std::move(layer));
    } else if (text.find("sections:") < text.find("family:")) {
      files.sections.push_back(parse_document("fuzz", text));
    } else {
      files.family = text;
    }
  }
  return files;
}

// What is written of a plan is read as the same, and written the same again.
void check_written(const Graph& graph, const Plan& plan, const PlanOrigin& origin) {
  const std::string written = plan_file_text(graph, plan, origin);
  try {
    const Document document = parse_document("written", written);
    const Plan again = read_plan(document, graph, std::nullopt);
    const PlanOrigin again_origin = read_plan_origin(document);
    CAIRN_CHECK(again.extent == plan.extent && again_origin.graph == origin.graph, written);
    CAIRN_CHECK(plan_file_text(graph, again, again_origin) == written, written);
  } catch (const InputError& error) {
    CAIRN_CHECK(false, error.what());
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
    if (is_plain_graph(parsed))
      follow(read_plain_graph(parsed, like_parameters({.state_count = 2})));
  } catch (const InputError&) {
  }
}

void chain(std::string_view bytes) {
  try {
    const ChainFile read = read_chain_file(parse_document("fuzz", std::string(bytes)));
    follow(read_plain_graph(parse_document("written", chain_graph_text(read)), {}));
  } catch (const InputError&) {
  }
}

void plan(std::string_view bytes) {
  const std::size_t end = bytes.find(kBetweenFiles);
  if (end == std::string_view::npos) return;
  try {
    const Document document = parse_document("fuzz", std::string(bytes.substr(0, end)));
    if (!is_plain_graph(document)) return;
    const Graph graph = read_plain_graph(document, {});
    const std::string text(bytes.substr(end + kBetweenFiles.size()));
    const PlanOrigin origin = read_plan_origin(parse_document("fuzz", text));
    if (origin.graph) first_difference(graph, *origin.graph);
    for (const Extent extent : {Extent::kNeeded, Extent::kPrefix, Extent::kWhole}) {
      const Plan read = read_plan(parse_document("fuzz", text), graph, extent);
      check_written(graph, read, origin);
      if (is_small(graph)) check_lowered(graph, read);
    }
  } catch (const InputError&) {
  }
}

void costs(std::string_view bytes) {
  const std::size_t end = bytes.find(kBetweenFiles);
  if (end == std::string_view::npos) return;
  try {
    const Document document = parse_document("fuzz", std::string(bytes.substr(0, end)));
    if (!is_plain_graph(document)) return;
    Graph graph = read_plain_graph(document, {});
    const Document file =
        parse_document("fuzz", std::string(bytes.substr(end + kBetweenFiles.size())));
    const MeasuredCosts read = read_costs(file, graph);
    set_measured_times(graph, read);
    const PlanOrigin origin = read_plan_origin(file, kCostOrigin);
    const std::string written = cost_file_text(read, origin);
    CAIRN_CHECK(read_costs(parse_document("written", written), graph) == read, written);
    rest_ns(read);
  } catch (const InputError&) {
  }
}

void recipe(std::string_view bytes) {
  try {
    const RecipeFile file = read_recipe(parse_document("fuzz", std::string(bytes)), "fuzz");
    ModelRequest request{.model = "gpt2", .tokens = 8, .set = {{"layers", "1"}}};
    apply_recipe(file, request);
    CAIRN_CHECK(request.model == "gpt2" && request.recipe.name == "fuzz", "another model");
    request_words(request, false);
    follow(load_model(request).graph);
  } catch (const InputError&) {
  }
}

void hf_config(std::string_view bytes) {
  for (const bool text_part_only : {false, true}) {
    try {
      const FoundModel found = classify_model(parse_document("fuzz", std::string(bytes)), "fuzz");
      if (found.kind == ModelFileKind::kPlainGraph) return;
      load_config(found, text_part_only);
    } catch (const InputError&) {
    }
  }
}

void measured(std::string_view bytes) {
  try {
    const MeasuredFile file = read_measured_file(parse_document("fuzz", std::string(bytes)));
    for (const MeasuredCase& measured : file.cases) {
      CAIRN_CHECK(measured.value_bytes > 0, "a value of no bytes");
      CAIRN_CHECK(measured.run || !measured.not_modelled.empty(), "a case without a run");
    }
  } catch (const InputError&) {
  }
}

void family(std::string_view bytes) {
  try {
    FamilyFiles files = read_family_files(bytes);
    const Family parsed =
        parse_family(parse_document("fuzz", files.family), std::move(files.sections));
    check_layers(parsed, files.layers);
    const Document nothing = parse_document("fuzz", "{}");
    const std::vector<DimSource> sources = {{.document = &nothing, .mapping = &nothing.root}};
    Scope dims;
    for (ResolvedDim& dim : resolve_dims(parsed, sources, {})) {
      dims.values[dim.name] = std::move(dim.value);
    }
    dims.values["batch"] = integer_value(2);
    if (parsed.samples == Samples::kTokens) dims.values["tokens"] = integer_value(8);
    dims.values["expert_imbalance"] = number_value(1.5);
    dims.values["expert_capacity"] = number_value(0.0);
    family_notes(parsed, dims);
    follow(instantiate({.family = parsed,
                        .layers = files.layers,
                        .dims = dims,
                        .per_layer = resolve_per_layer(parsed, sources),
                        .model_name = "fuzz"}));
  } catch (const InputError&) {
  }
}

}  // namespace cairn::fuzz
