#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "graph/device_spec.h"

// What --budget means: bytes, a share of the peak of keeping everything, or what a GPU leaves.

namespace cairn {

enum class BudgetKind { kBytes, kPercent, kGpu };

struct BudgetRequest {
  BudgetKind kind = BudgetKind::kBytes;
  std::string text = {};               // as typed
  std::int64_t bytes = 0;              // kBytes, kGpu
  std::int64_t millionths = 0;         // kPercent: 600,000 of 60 %
  std::optional<DeviceSpec> gpu = {};  // kGpu
};

// "12GiB", "8000MB"; "60%", "62.5%"; "gpu:rtx4090". Throws InputError that says what is expected.
BudgetRequest parse_budget(const std::string& text,
                           const std::vector<std::filesystem::path>& folders);

// Rounded down.
std::int64_t budget_bytes(const BudgetRequest& request, std::int64_t keep_all_peak_bytes);

}  // namespace cairn
