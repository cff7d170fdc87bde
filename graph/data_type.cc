#include "graph/data_type.h"

#include <array>

#include "graph/error.h"

namespace cairn {
namespace {

struct DataTypeRow {
  DataType type = DataType::kFloat32;
  std::string_view name = {};
  std::int64_t bytes = 0;
};

constexpr std::array<DataTypeRow, 6> kDataTypes = {{
    {DataType::kFloat32, "fp32", 4},
    {DataType::kBFloat16, "bf16", 2},
    {DataType::kFloat16, "fp16", 2},
    {DataType::kInt64, "int64", 8},
    {DataType::kInt32, "int32", 4},
    {DataType::kBool, "bool", 1},
}};

const DataTypeRow& row_of(DataType type) {
  for (const DataTypeRow& row : kDataTypes) {
    if (row.type == type) return row;
  }
  CAIRN_CHECK(false, "unknown data type");
}

}  // namespace

std::int64_t bytes_per_element(DataType type) { return row_of(type).bytes; }

bool is_floating(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kBFloat16 || type == DataType::kFloat16;
}

DataType promoted_type(DataType a, DataType b) { return a == b ? a : DataType::kFloat32; }

std::string_view data_type_name(DataType type) { return row_of(type).name; }

std::optional<DataType> find_data_type(std::string_view name) {
  for (const DataTypeRow& row : kDataTypes) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

std::vector<std::string> data_type_names() {
  std::vector<std::string> names;
  for (const DataTypeRow& row : kDataTypes) names.emplace_back(row.name);
  return names;
}

}  // namespace cairn
