#include "graph/precision.h"

#include <array>

#include "graph/error.h"

namespace cairn {
namespace {

struct PrecisionRow {
  std::string_view name = {};
  Precision precision = {};
};

constexpr std::array<PrecisionRow, 7> kPrecisions = {
    {{"fp32", {DataType::kFloat32}},
     {"bf16", {DataType::kBFloat16}},
     {"fp16", {DataType::kFloat16}},
     {"autocast-bf16", {DataType::kFloat32, DataType::kBFloat16}},
     {"autocast-fp16", {DataType::kFloat32, DataType::kFloat16}},
     {"bf16-autocast", {DataType::kBFloat16, DataType::kBFloat16}},
     {"bf16-master", {DataType::kBFloat16, std::nullopt, DataType::kFloat32}}}};

}  // namespace

DataType compute_type(const Precision& precision) {
  return precision.autocast_type.value_or(precision.parameter_type);
}

DataType state_type(const Precision& precision) {
  return precision.master_type.value_or(precision.parameter_type);
}

std::string_view precision_name(const Precision& precision) {
  for (const PrecisionRow& row : kPrecisions) {
    if (row.precision == precision) return row.name;
  }
  CAIRN_CHECK(false, "a precision without a name");
}

std::optional<Precision> find_precision(std::string_view name) {
  for (const PrecisionRow& row : kPrecisions) {
    if (row.name == name) return row.precision;
  }
  return std::nullopt;
}

std::vector<std::string> precision_names() {
  std::vector<std::string> names;
  for (const PrecisionRow& row : kPrecisions) names.emplace_back(row.name);
  return names;
}

}  // namespace cairn
