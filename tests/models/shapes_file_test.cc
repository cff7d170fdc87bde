#include "models/shapes_file.h"

#include <doctest/doctest.h>

#include <string>

#include "graph/error.h"

namespace cairn {
namespace {

std::vector<BatchShape> shapes_of(const std::string& text) {
  return read_shapes(parse_document("shapes.yaml", text));
}

// The first line of the message.
std::string refusal(const std::string& text) {
  try {
    shapes_of(text);
  } catch (const InputError& error) {
    const std::string message = error.what();
    return message.substr(0, message.find('\n'));
  }
  return "accepted";
}

TEST_CASE("a shape has a batch, tokens or both, and a weight of 1 where it states none") {
  const std::vector<BatchShape> shapes = shapes_of(
      "- {batch: 8, tokens: 2048, weight: 2.5}\n"
      "- batch: 1\n"
      "- tokens: 8192\n");
  REQUIRE(shapes.size() == 3);
  CHECK(shapes[0].batch == 8);
  CHECK(shapes[0].tokens == 2048);
  CHECK(shapes[0].weight == 2.5);
  CHECK(shapes[1].batch == 1);
  CHECK(!shapes[1].tokens);
  CHECK(shapes[1].weight == 1);
  CHECK(!shapes[2].batch);
  CHECK(shapes[2].tokens == 8192);
}

TEST_CASE("what is no list of shapes is refused at its place") {
  CHECK(refusal("batch: 8") == "shapes.yaml:1:1: shapes: expected a list, found a mapping");
  CHECK(refusal("[]") == "shapes.yaml:1:1: shapes: expected at least one, found an empty list");
  CHECK(refusal("- {weight: 2}") == "shapes.yaml:1:3: shape 1: expected batch, tokens or both");
  CHECK(refusal("- batch: 1\n- bathc: 8") ==
        "shapes.yaml:2:3: shape 2: unknown key 'bathc'; did you mean 'batch'?");
  CHECK(refusal("- {batch: 0}") ==
        "shapes.yaml:1:4: shape 1: key 'batch': expected at least 1, found 0");
  CHECK(refusal("- {batch: 1, weight: -1}") ==
        "shapes.yaml:1:14: shape 1: key 'weight': expected a number above 0 and at most 1e+09, "
        "found -1");
  CHECK(refusal("- 8") == "shapes.yaml:1:3: shape 1: expected a mapping, found '8'");
}

TEST_CASE("shapes are at most 64") {
  std::string text;
  for (int i = 0; i < 65; ++i) text += "- batch: 1\n";
  CHECK(refusal(text) == "shapes.yaml:65:3: shapes: expected at most 64, found 65");
}

}  // namespace
}  // namespace cairn
