#include <fmt/format.h>

#include <array>
#include <set>
#include <string>
#include <string_view>

#include "executor/executor.h"
#include "executor/kernel.h"
#include "graph/error.h"
#include "graph/ops/op_kind.h"

namespace cairn {
namespace {

constexpr std::array<DataType, 6> kExecutableTypes = {DataType::kFloat32, DataType::kBFloat16,
                                                      DataType::kFloat64, DataType::kInt64,
                                                      DataType::kInt32,   DataType::kBool};

std::string joined(const std::set<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", name);
  return text;
}

// Of kinds that have a kernel, what that does not run.
void refuse_ops(const Graph& graph) {
  for (const Op& op : graph.ops) {
    const Kernel& kernel = *find_kernel(op.kind->name);
    const std::string why = kernel.refusal == nullptr ? "" : kernel.refusal(graph, op);
    if (why.empty()) continue;
    throw InputError(
        fmt::format("op '{}': the executor does not run this {}: {}", op.name, op.kind->name, why));
  }
}

// All that are missing, by name.
void refuse_kinds(const Graph& graph) {
  std::set<std::string_view> kinds;
  for (const Op& op : graph.ops) {
    if (find_kernel(op.kind->name) == nullptr) kinds.insert(op.kind->name);
  }
  if (!kinds.empty()) {
    throw InputError(
        fmt::format("the executor has no kernel for these op kinds: {}", joined(kinds)));
  }
}

void refuse_types(const Graph& graph) {
  std::set<std::string_view> types;
  std::set<std::string_view> known;
  for (const DataType type : kExecutableTypes) known.insert(data_type_name(type));
  for (const Tensor& tensor : graph.tensors) {
    const std::string_view type = data_type_name(tensor.data_type);
    if (known.count(type) == 0) types.insert(type);
  }
  if (!types.empty()) {
    throw InputError(fmt::format("the executor has no kernels for tensors of type {}; expected {}",
                                 joined(types), joined(known)));
  }
}

}  // namespace

void check_executable(const Graph& graph) {
  refuse_kinds(graph);
  refuse_types(graph);
  refuse_ops(graph);
}

}  // namespace cairn
