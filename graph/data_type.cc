#include "graph/data_type.h"

#include <array>

#include "graph/error.h"

namespace cairn {
namespace {

struct DataTypeRow {
  DataType type = DataType::kFloat32;
  std::string_view name = {};
  std::int64_t bits = 0;
  bool is_never_asked_for = false;  // no op of a model file makes it
};

constexpr std::array<DataTypeRow, 11> kDataTypes = {{
    {DataType::kFloat32, "fp32", 32},
    {DataType::kBFloat16, "bf16", 16},
    {DataType::kFloat16, "fp16", 16},
    {DataType::kInt64, "int64", 64},
    {DataType::kInt32, "int32", 32},
    {DataType::kBool, "bool", 8},
    {DataType::kInt8, "int8", 8, true},
    {DataType::kUInt8, "uint8", 8, true},
    {DataType::kNf4, "nf4", 4, true},
    {DataType::kFp4, "fp4", 4, true},
    {DataType::kFloat64, "fp64", 64, true},
}};

const DataTypeRow& row_of(DataType type) {
  for (const DataTypeRow& row : kDataTypes) {
    if (row.type == type) return row;
  }
  CAIRN_CHECK(false, "unknown data type");
}

}  // namespace

std::int64_t bits_per_element(DataType type) { return row_of(type).bits; }

std::int64_t bytes_per_element(DataType type) {
  const DataTypeRow& row = row_of(type);
  CAIRN_CHECK(row.bits % 8 == 0, std::string(row.name));
  return row.bits / 8;
}

bool is_floating(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kBFloat16 || type == DataType::kFloat16 ||
         type == DataType::kFloat64;
}

DataType promoted_type(DataType a, DataType b) {
  if (a == b) return a;
  const bool is_double = a == DataType::kFloat64 || b == DataType::kFloat64;
  return is_double ? DataType::kFloat64 : DataType::kFloat32;
}

std::string_view data_type_name(DataType type) { return row_of(type).name; }

std::optional<DataType> find_data_type(std::string_view name) {
  for (const DataTypeRow& row : kDataTypes) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

std::vector<std::string> data_type_names() {
  std::vector<std::string> names;
  for (const DataTypeRow& row : kDataTypes) {
    if (!row.is_never_asked_for) names.emplace_back(row.name);
  }
  return names;
}

}  // namespace cairn
