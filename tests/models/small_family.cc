#include "tests/models/small_family.h"

#include <utility>

#include "graph/error.h"
#include "models/instantiate.h"
#include "models/link_layers.h"

namespace cairn::test {

const char* const kFamilyHead =
    "family: f\n"
    "inputs:\n"
    "  x:      {dtype: activation, shape: [batch, tokens, 8]}\n"
    "  labels: {dtype: int64, shape: [batch, tokens]}\n";

Scope small_dims() {
  return {.values = {{"batch", integer_value(2)}, {"tokens", integer_value(4)}}};
}

Graph graph_of(const std::string& rest, const std::map<std::string, Layer>& layers, Recipe recipe) {
  const Family family = parse_family(parse_document("family", kFamilyHead + rest));
  const Scope dims = small_dims();
  check_layers(family, layers);
  return instantiate({.family = family,
                      .layers = layers,
                      .dims = dims,
                      .recipe = std::move(recipe),
                      .model_name = "m"});
}

std::string refusal(const std::string& rest, const std::map<std::string, Layer>& layers,
                    const Recipe& recipe) {
  try {
    graph_of(rest, layers, recipe);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::string ops_text(const Graph& graph) {
  std::string text;
  for (const Op& op : graph.ops) {
    text += (text.empty() ? "" : " ") + op.name + ":" + std::string(op.kind->name);
  }
  return text;
}

Layer layer_of(const std::string& text) { return parse_layer(parse_document("layer", text)); }

}  // namespace cairn::test
