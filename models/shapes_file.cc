#include "models/shapes_file.h"

#include <fmt/format.h>

#include <cstddef>

#include "models/fields.h"

namespace cairn {
namespace {

constexpr std::size_t kMostShapes = 64;
constexpr double kMostWeight = 1e9;

std::optional<std::int64_t> read_count(Fields& fields, std::string_view key) {
  const std::optional<std::int64_t> count = fields.optional_integer(key);
  if (count && *count < 1) {
    fields.fail_at_key(key, fmt::format("expected at least 1, found {}", *count));
  }
  return count;
}

}  // namespace

std::vector<BatchShape> read_shapes(const Document& document) {
  const std::vector<Node>& items = to_list(document, document.root, "shapes");
  if (items.empty()) {
    fail_at(document, document.root.position, "shapes: expected at least one, found an empty list");
  }
  if (items.size() > kMostShapes) {
    fail_at(document, items[kMostShapes].position,
            fmt::format("shapes: expected at most {}, found {}", kMostShapes, items.size()));
  }
  std::vector<BatchShape> shapes;
  for (const Node& item : items) {
    Fields fields(document, item, fmt::format("shape {}", shapes.size() + 1));
    BatchShape shape{.batch = read_count(fields, "batch"),
                     .tokens = read_count(fields, "tokens"),
                     .weight = fields.optional_number("weight").value_or(1),
                     .position = item.position};
    fields.refuse_unknown();
    if (!shape.batch && !shape.tokens) fields.fail("expected batch, tokens or both");
    if (shape.weight <= 0 || shape.weight > kMostWeight) {
      fields.fail_at_key("weight",
                         fmt::format("expected a number above 0 and at most {:.0e}, found {}",
                                     kMostWeight, shape.weight));
    }
    shapes.push_back(shape);
  }
  return shapes;
}

}  // namespace cairn
