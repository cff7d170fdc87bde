// Models of the catalogue, made small, train one step on the device under test.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "executor/executor.h"
#include "graph/plan.h"
#include "graph/schedule.h"
#include "models/load_model.h"
#include "tests/executor/test_device.h"
#include "tests/seed.h"

namespace cairn {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

struct SmallModel {
  const char* name = nullptr;
  std::optional<std::int64_t> tokens = {};
  Settings set = {};
  std::map<std::string, std::string> implementations = {};
};

std::vector<SmallModel> small_models() {
  const Settings gpt2 = {{"layers", "2"}, {"hidden", "32"}, {"heads", "2"}};
  const Settings llama = {{"layers", "2"},   {"hidden", "32"},  {"heads", "4"},
                          {"kv_heads", "2"}, {"head_dim", "8"}, {"ffn", "48"}};
  return {{.name = "gpt2", .tokens = 16, .set = gpt2},
          {.name = "gpt2", .tokens = 16, .set = gpt2, .implementations = {{"attention", "eager"}}},
          {.name = "llama-3.2-1b", .tokens = 16, .set = llama},
          {.name = "llama-3.2-1b",
           .tokens = 16,
           .set = llama,
           .implementations = {{"attention", "eager"}}},
          {.name = "resnet-18", .set = {{"image", "32"}, {"stem", "8"}, {"classes", "10"}}},
          {.name = "vgg-11", .set = {{"image", "32"}, {"hidden", "64"}, {"classes", "10"}}},
          {.name = "unet", .set = {{"image", "188"}, {"width", "4"}}}};
}

void train_one_step(const SmallModel& model, const char* precision) {
  ModelRequest request{.model = model.name,
                       .batch = 2,
                       .tokens = model.tokens,
                       .set = model.set,
                       .precision = find_precision(precision),
                       .implementations = model.implementations};
  if (model.tokens) request.vocab = 96;
  const LoadedModel loaded = load_model(request);
  const Schedule schedule =
      lower_training_step(loaded.graph, {}, lower(loaded.graph, keep_all_plan(loaded.graph)));
  const std::unique_ptr<Device> device = make_test_device();
  Executor executor(loaded.graph, schedule, *device, {.seed = test_seed()});
  CHECK(std::isfinite(executor.run_step().loss));
}

TEST_CASE("small models train a step on the device that CAIRN_TEST_DEVICE names" *
          doctest::skip(std::getenv("CAIRN_TEST_DEVICE") == nullptr)) {
  INFO("--seed=", test_seed());
  for (const SmallModel& model : small_models()) {
    for (const char* precision : {"fp32", "bf16"}) {
      INFO(model.name, ", ", precision);
      CHECK_NOTHROW(train_one_step(model, precision));
    }
  }
}

}  // namespace
}  // namespace cairn
