#include "cli/block_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "cli/units.h"
#include "graph/checked.h"
#include "graph/error.h"
#include "graph/ops/op_kind.h"

namespace cairn {
namespace {

bool contains(const std::vector<OpId>& ops, OpId op) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') {
      result += "\\n";
    } else {
      result += c;
    }
  }
  return result + "\"";
}

}  // namespace

std::vector<OpId> ops_of_block(const Graph& graph, std::int64_t block) {
  if (graph.block_count > 0 && (block < 0 || block >= graph.block_count)) {
    throw InputError(fmt::format("--block: expected a block in 0 to {}, found {}",
                                 graph.block_count - 1, block));
  }
  std::vector<OpId> ops;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (graph.block_count == 0 || graph.ops[i].block == block) ops.push_back(static_cast<OpId>(i));
  }
  return ops;
}

std::string block_prefix(const Op& op) {
  if (op.block < 0) return {};
  const std::string number = "." + std::to_string(op.block) + ".";
  const std::size_t found = op.name.find(number);
  if (found != std::string::npos) return op.name.substr(0, found + number.size());
  // A model with several repeats numbers each from 0: "layer2.2." may be block 5.
  for (std::size_t dot = op.name.find('.'); dot != std::string::npos;) {
    const std::size_t next = op.name.find('.', dot + 1);
    if (next == std::string::npos) break;
    const std::string_view part = std::string_view(op.name).substr(dot + 1, next - dot - 1);
    if (!part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos) {
      return op.name.substr(0, next + 1);
    }
    dot = next;
  }
  return {};
}

std::vector<TensorId> saved_activations(const Graph& graph, const Op& op) {
  std::vector<TensorId> saved;
  for (const TensorId tensor : op.saved) {
    if (graph.tensor(tensor).role != TensorRole::kParameter) saved.push_back(tensor);
  }
  return saved;
}

SavedBytes saved_bytes(const Graph& graph, const std::vector<OpId>& ops) {
  SavedBytes result;
  std::set<StorageId> counted;
  for (const OpId id : ops) {
    for (const TensorId tensor : graph.op(id).saved) {
      const StorageId storage = graph.tensor(tensor).storage;
      const Tensor& owner = graph.tensor(graph.storage(storage).owner);
      if (is_resident(owner) || !counted.insert(storage).second) continue;
      const std::int64_t bytes = graph.storage(storage).bytes;
      result.total_bytes = checked_add(result.total_bytes, bytes, "saved bytes");
      if (owner.role == TensorRole::kAuxiliary) result.auxiliary_bytes += bytes;
    }
  }
  return result;
}

std::int64_t input_bytes(const Graph& graph, const std::vector<OpId>& ops) {
  std::int64_t total_bytes = 0;
  std::set<StorageId> counted;
  for (const OpId id : ops) {
    for (const TensorId input : graph.op(id).inputs) {
      const Tensor& tensor = graph.tensor(input);
      if (tensor.producer == kNoOp || contains(ops, tensor.producer)) continue;
      if (!counted.insert(tensor.storage).second) continue;
      total_bytes =
          checked_add(total_bytes, graph.storage(tensor.storage).bytes, "bytes of the inputs");
    }
  }
  return total_bytes;
}

std::string shape_text(const Tensor& tensor) {
  if (tensor.shape.empty()) return {};
  std::string text;
  for (const std::int64_t size : tensor.shape) {
    text += fmt::format("{}{}", text.empty() ? "[" : ", ", size);
  }
  return fmt::format("{}] {}", text, data_type_name(tensor.data_type));
}

std::string block_dot(const Graph& graph, const std::vector<OpId>& ops) {
  std::string text =
      fmt::format("digraph {} {{\n  rankdir=TB;\n  node [shape=box];\n", quoted(graph.name));
  std::set<TensorId> outside;
  for (const OpId id : ops) {
    const Op& op = graph.op(id);
    const std::string kind = op.kind == nullptr ? "custom" : std::string(op.kind->name);
    text += fmt::format("  {} [label={}];\n", quoted(op.name), quoted(op.name + "\n" + kind));
    for (const TensorId input : op.inputs) {
      const Tensor& tensor = graph.tensor(input);
      if (tensor.role == TensorRole::kParameter) continue;
      const bool is_inside = tensor.producer != kNoOp && contains(ops, tensor.producer);
      if (!is_inside && outside.insert(input).second) {
        text += fmt::format("  {} [shape=ellipse];\n", quoted(tensor.name));
      }
      const bool is_saved = std::find(op.saved.begin(), op.saved.end(), input) != op.saved.end();
      text += fmt::format("  {} -> {} [label={}{}];\n",
                          quoted(is_inside ? graph.op(tensor.producer).name : tensor.name),
                          quoted(op.name), quoted(bytes_text(tensor.bytes)),
                          is_saved ? ", style=bold" : "");
    }
  }
  return text + "}\n";
}

}  // namespace cairn
