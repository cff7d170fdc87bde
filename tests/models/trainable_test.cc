// Which parameters --freeze and --train-only name.

#include "models/trainable.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "graph/error.h"
#include "graph/graph_builder.h"

namespace cairn {
namespace {

// Two linears in modules of a trainer, the second without a module, and a third that shares the
// first one's weight.
Graph two_layers() {
  GraphBuilder builder("g", DataType::kBFloat16);
  const TensorId x = builder.add_input("x", DataType::kBFloat16, {2, 4}, false);
  const OpKindInfo* const linear = find_op_kind("linear");
  const TensorId a = builder.add_op({.name = "layers.0.up",
                                     .kind = linear,
                                     .attributes = {.width = 4, .bias = true},
                                     .inputs = {x},
                                     .module = "model.layers.0.up_proj"})[0];
  const TensorId b = builder.add_op(
      {.name = "down", .kind = linear, .attributes = {.width = 4}, .inputs = {a}})[0];
  const TensorId c =
      builder.add_op({.name = "head",
                      .kind = linear,
                      .attributes = {.width = 4},
                      .inputs = {b},
                      .shared_parameters = {{"weight", builder.find("layers.0.up.weight")}},
                      .module = "lm_head"})[0];
  return builder.build(c);
}

std::string frozen(const Recipe& recipe) {
  try {
    const std::unordered_set<std::string> names = frozen_parameters(two_layers(), recipe);
    std::string text;
    for (const std::string& name : std::set<std::string>(names.begin(), names.end())) {
      text += (text.empty() ? "" : " ") + name;
    }
    return text;
  } catch (const InputError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a pattern's stars stand for any characters, its question marks for one") {
  CHECK(fits_pattern("model.layers.*", "model.layers.0.up_proj"));
  CHECK(fits_pattern("*.bias", "a.b.bias"));
  CHECK(fits_pattern("*norm*", "norm"));
  CHECK(fits_pattern("layers.?", "layers.3"));
  CHECK(fits_pattern("a*b*c", "a.b.b.c"));
  CHECK_FALSE(fits_pattern("layers.?", "layers.12"));
  CHECK_FALSE(fits_pattern("layers", "layers.1"));
  CHECK_FALSE(fits_pattern("*a", "ab"));
  CHECK_FALSE(fits_pattern("", "a"));
}

TEST_CASE("a pattern names modules with all in them, parameters, and ops") {
  CHECK(frozen({.freeze = {"model.layers.0"}}) == "layers.0.up.bias layers.0.up.weight");
  CHECK(frozen({.freeze = {"*.bias"}}) == "layers.0.up.bias");
  CHECK(frozen({.freeze = {"down"}}) == "down.weight");
  CHECK(frozen({.freeze = {"layers.0.up.bias", "down"}}) == "down.weight layers.0.up.bias");
  CHECK(frozen({.freeze = {"lm_head"}}) == "layers.0.up.weight");  // shared: by either name
  CHECK(frozen({.train_only = {"down"}}) == "layers.0.up.bias layers.0.up.weight");
  CHECK(frozen({.freeze = {"*.bias"}, .train_only = {"model"}}) == "down.weight layers.0.up.bias");
}

TEST_CASE("a pattern that names nothing, and freezing all, are refused") {
  CHECK(frozen({.freeze = {"model.layer.*"}}) ==
        "--freeze: no module or parameter is called 'model.layer.*'; did you mean 'model.layers'?");
  CHECK(frozen({.train_only = {"*.up_prj"}}) ==
        "--train-only: no module or parameter is called '*.up_prj'; did you mean '*.up_proj'?");
  CHECK(frozen({.freeze = {""}}) == "--freeze: no module or parameter is called ''");
  CHECK(frozen({.freeze = {"model", "down"}}) ==
        "--freeze 'model' --freeze 'down': nothing is left to train: all 3 weights are frozen");
  CHECK(frozen({.freeze = {"*"}, .train_only = {"down"}}) ==
        "--train-only 'down': nothing is left to train: --freeze '*' freezes all of it");
}

}  // namespace cairn
