#include "cli/peak.h"

#include <doctest/doctest.h>

namespace cairn {
namespace {

constexpr MemoryCategory kSaved = MemoryCategory::kSavedActivations;

TEST_CASE("names that differ in the number of the layer are one group, largest first") {
  const std::vector<LiveGroup> groups =
      group_live_items({{"loss", MemoryCategory::kLogitsAndLoss, 50},
                        {"layers.0.act", kSaved, 30},
                        {"layers.31.act", kSaved, 30},
                        {"gradient of layers.3.act", MemoryCategory::kActivationGradients, 30}});
  REQUIRE(groups.size() == 3);
  CHECK(group_text(groups[0]) == "layers.*.act x 2");
  CHECK(groups[0].bytes == 60);
  CHECK(group_text(groups[1]) == "loss");
  CHECK(group_text(groups[2]) == "gradient of layers.3.act");  // alone: with its number
}

TEST_CASE("equal names of different categories are not one group") {
  const std::vector<LiveGroup> groups = group_live_items(
      {{"layers.0.x", MemoryCategory::kCheckpoints, 8}, {"layers.1.x", kSaved, 8}});
  CHECK(groups.size() == 2);
}

TEST_CASE("the breakdown leaves out empty categories and gives shares of the peak") {
  Trace trace{.peak_bytes = 2000};
  trace.peak_breakdown[static_cast<std::size_t>(MemoryCategory::kParameters)] = 500;
  trace.peak_breakdown[static_cast<std::size_t>(kSaved)] = 1500;
  CHECK(breakdown_text(trace) ==
        "  saved activations  1.46 KiB  75 %\n"
        "  parameters            500 B  25 %\n");
}

TEST_CASE("the largest groups leave out what checkpointing cannot shrink, and what is tiny") {
  const Trace trace{.peak_bytes = 10000,
                    .live_at_peak = {{"weight", MemoryCategory::kParameters, 6000},
                                     {"layers.0.act", kSaved, 2000},
                                     {"layers.1.act", kSaved, 1991},
                                     {"mask", kSaved, 9}}};
  CHECK(largest_groups_text(trace, 5, false) ==
        "  layers.*.act x 2  3.90 KiB  saved activations\n");
  CHECK(largest_groups_text(trace, 1, true) == "  weight  5.86 KiB  parameters\n");
}

}  // namespace
}  // namespace cairn
