#include "models/per_layer.h"

#include <doctest/doctest.h>

#include <string>

#include "graph/error.h"

namespace cairn {
namespace {

// The values of `kind` and `dense` in blocks 0, 1, 2, or the message.
std::string values_of(const std::string& config) {
  const Family family = parse_family(parse_document(
      "family",
      "family: f\n"
      "per_layer:\n"
      "  kind: {key: layer_types, among: [full, sliding], default: ('full' if block % 2 == 0 "
      "else 'sliding')}\n"
      "  dense: {members: dense_layers}\n"
      "inputs: {x: {dtype: fp32, shape: [4]}}\n"
      "ops:\n"
      "  - l: {op: gelu, in: x}\n"));
  try {
    const Document document = parse_document("config", config);
    const std::vector<DimSource> sources = {{.document = &document, .mapping = &document.root}};
    std::string text;
    for (const PerLayerValues& values : resolve_per_layer(family, sources)) {
      for (std::int64_t block = 0; block < 3; ++block) {
        const Scope scope{.values = {{"block", integer_value(block)}}};
        text += spell(value_in_block(values, block, scope)) + " ";
      }
    }
    return text;
  } catch (const InputError& error) {
    const std::string message = error.what();
    return message.substr(0, message.find('\n'));
  }
}

}  // namespace

TEST_CASE("a per-layer dim has a value for each block, of the config or its default") {
  CHECK(values_of("{}") == "'full' 'sliding' 'full' 0 0 0 ");
  CHECK(values_of("{layer_types: [full, full, sliding, full], dense_layers: [1, 7]}") ==
        "'full' 'full' 'sliding' 0 1 0 ");
}

TEST_CASE("a per-layer list that cannot be right is refused at its place") {
  CHECK(values_of("{layer_types: [full, full]}") ==
        "config:1:15: key 'layer_types': expected a value for each layer, found 2 for layer 2");
  CHECK(values_of("{layer_types: [full, chunked]}") ==
        "config:1:22: key 'layer_types': expected one of full, sliding, found 'chunked'");
  CHECK(values_of("{layer_types: full}") ==
        "config:1:15: key 'layer_types': expected a list, found 'full'");
  CHECK(values_of("{dense_layers: [1, [2]]}").find("expected a text, found a list") !=
        std::string::npos);
}

}  // namespace cairn
