// What adapters of parts of a linear layer's columns are made of, on small shapes.

#include <doctest/doctest.h>

#include "tests/graph/op_text.h"

namespace cairn {
namespace {

// 2 samples, 4 tokens, width 8: 8 rows, 128 bytes in bf16.
const Given kX = {"x", {2, 4, 8}};
const Given kFrozenX = {"x", {2, 4, 8}, DataType::kBFloat16, false};
const Given kIndex = {"i", {8}, DataType::kInt64, false};

}  // namespace

TEST_CASE("a convolution along the tokens saves its input and its weight, even a frozen one") {
  CHECK(derived("conv1d", {.width = 12, .groups = 2}, {kX}) ==
        "bf16 [2, 4, 12] | saves: x out.weight");
  CHECK(derived("conv1d", {.width = 12}, {kX}, false) == "bf16 [2, 4, 12] | saves: x out.weight");
  CHECK(derived("conv1d", {.width = 12}, {kFrozenX}, false) == "bf16 [2, 4, 12]");
}

TEST_CASE("a group's columns see its own channels alone") {
  // 12 columns of 4 channels each: 2 * 8 rows * 48 = 768 FLOPs. x is copied, 128 bytes, and in
  // backward the gradient of the output, 192, too.
  CHECK(costs("conv1d", {.width = 12, .groups = 2}, {kX}) ==
        "flops 768 / 1536, moved 416 / 640, workspace 128 / 320");
  CHECK(costs("conv1d", {.width = 12}, {kX}).starts_with("flops 1536 / 3072"));
}

TEST_CASE("groups of different widths are convolutions of their own, and 0 is none") {
  CHECK(derived("conv1d", {.widths = {8, 0, 4}}, {kX}) == "bf16 [2, 4, 12] | saves: x out.weight");
  // The same FLOPs. All 192 bytes of the parts before they are one, and half of x, 64; backward: of
  // the widest part 128 and 64, and the parts' gradients of x, 128, and of the weight, 96.
  CHECK(costs("conv1d", {.widths = {8, 0, 4}}, {kX}) ==
        "flops 768 / 1536, moved 416 / 640, workspace 256 / 416");
  CHECK(derived("conv1d", {.widths = {0, 0, 4}}, {kX}) == "bf16 [2, 4, 4] | saves: x out.weight");
}

TEST_CASE("a convolution along the tokens refuses widths that make no sense") {
  CHECK(refusal("conv1d", {.width = 12, .groups = 3}, {kX}).find("3 groups") != std::string::npos);
  CHECK(refusal("conv1d", {.width = 9, .groups = 2}, {kX}) ==
        "op 'out': a width of 9 does not divide into 2 groups");
  CHECK(refusal("conv1d", {}, {kX}) == "op 'out': needs 'width' or 'widths'");
  CHECK(refusal("conv1d", {.width = 4, .widths = {4}}, {kX}) ==
        "op 'out': takes 'width' and 'groups', or 'widths', not both");
  CHECK(refusal("conv1d", {.widths = {0, 0}}, {kX}) ==
        "op 'out': expected a width above 0, found none");
}

TEST_CASE("columns written into zeros are saved, with where they go") {
  CHECK(derived("index_copy", {.width = 12}, {kX, kIndex}) == "bf16 [2, 4, 12] | saves: x i");
  CHECK(derived("index_copy", {.width = 12}, {kFrozenX, kIndex}) == "bf16 [2, 4, 12]");
  // Not in place, the zeros are there beside the copy that is written to: 192 bytes.
  CHECK(costs("index_copy", {.width = 12}, {kX, kIndex}).ends_with("workspace 192 / 0"));
  CHECK(costs("index_copy", {.width = 12, .in_place = true}, {kX, kIndex}).find("workspace") ==
        std::string::npos);
  CHECK(refusal("index_copy", {.width = 7}, {kX, kIndex}) ==
        "op 'out': 8 columns of 'x' do not fit in 7");
  CHECK(refusal("index_copy", {.width = 12}, {kX, {"i", {7}, DataType::kInt64, false}}) ==
        "op 'out': 'i' must be [8], found [7]");
}

TEST_CASE("indices are 8 bytes a column, and stored ones are there twice") {
  CHECK(derived("indices", {}, {kX}) == "int64 [8]");
  CHECK(derived("stored_indices", {}, {kX}) == "int64 [8]");
  const Graph graph = graph_of("stored_indices", {}, {kX}, true);
  CHECK(parameter_bytes(graph) == 64);
  CHECK(parameter_count(graph) == 0);
}

TEST_CASE("a mean of torch 2.1 keeps its input") {
  CHECK(derived("mean_saving_input", {}, {kX}) == "bf16 [2, 4, 1] | saves: x");
  CHECK(derived("mean", {}, {kX}) == "bf16 [2, 4, 1]");
}

}  // namespace cairn
