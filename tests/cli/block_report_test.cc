#include "cli/block_report.h"

#include <doctest/doctest.h>

namespace cairn {
namespace {

TEST_CASE("a block's prefix ends in its own number, else in the first between dots") {
  CHECK(block_prefix({.name = "layers.3.attn.q", .block = 3}) == "layers.3.");
  // Of several repeats, each numbered from 0.
  CHECK(block_prefix({.name = "layer2.2.x.conv1", .block = 5}) == "layer2.2.");
  CHECK(block_prefix({.name = "decoder.0.x", .block = 12}) == "decoder.0.");
  // A plain graph may have numbers in front of the block's.
  CHECK(block_prefix({.name = "stage.0.layers.3.attn", .block = 3}) == "stage.0.layers.3.");
  CHECK(block_prefix({.name = "block7", .block = 7}).empty());
  CHECK(block_prefix({.name = "a.b.c", .block = 7}).empty());
  CHECK(block_prefix({.name = "a..7", .block = 7}).empty());
  CHECK(block_prefix({.name = "layers.3.attn", .block = -1}).empty());
}

}  // namespace
}  // namespace cairn
