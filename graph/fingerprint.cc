#include "graph/fingerprint.h"

#include <algorithm>
#include <array>

#include "graph/ops/op_kind.h"
#include "graph/stable_hash.h"

namespace cairn {
namespace {

constexpr std::size_t kParts = kFingerprintParts.size();

std::size_t index(FingerprintPart part) { return static_cast<std::size_t>(part); }

// Where each part of the graph goes: to a hash of its own, or all to one.
using Hashes = std::array<StableHash*, kParts>;

class GraphHasher {
 public:
  GraphHasher(const Graph& graph, const Hashes& hashes) : graph_(graph), hashes_(hashes) {}

  void put(const Op& op) {
    put_identity(op);
    put_saved(op);
    put_costs(op);
  }

  void put(const Tensor& tensor) {
    StableHash& shapes = to(FingerprintPart::kShapes);
    shapes.put(tensor.name);
    shapes.put(static_cast<std::int64_t>(tensor.shape.size()));
    for (const std::int64_t size : tensor.shape) shapes.put(size);
    to(FingerprintPart::kTypes).put(data_type_name(tensor.data_type));
    put_bytes(tensor);
    to(FingerprintPart::kSaved).put(op_name(tensor.held_until));
    StableHash& recipe = to(FingerprintPart::kRecipe);
    recipe.put(tensor.requires_grad ? 1 : 0);
    recipe.put(tensor.has_gradient ? 1 : 0);
  }

 private:
  StableHash& to(FingerprintPart part) { return *hashes_[index(part)]; }

  std::string_view op_name(OpId op) const {
    return op == kNoOp ? std::string_view() : std::string_view(graph_.op(op).name);
  }

  void put_names(StableHash& hash, const std::vector<TensorId>& tensors) const {
    hash.put(static_cast<std::int64_t>(tensors.size()));
    for (const TensorId tensor : tensors) {
      hash.put(tensor == kNoTensor ? std::string_view()
                                   : std::string_view(graph_.tensor(tensor).name));
    }
  }

  static void put_flags(StableHash& hash, const std::vector<bool>& flags) {
    hash.put(static_cast<std::int64_t>(flags.size()));
    for (const bool flag : flags) hash.put(flag ? 1 : 0);
  }

  void put_identity(const Op& op) {
    StableHash& hash = to(FingerprintPart::kOps);
    hash.put(op.name);
    hash.put(op.kind == nullptr ? std::string_view() : std::string_view(op.kind->name));
    hash.put(op.block);
    put_names(hash, op.inputs);
    put_names(hash, op.outputs);
    put_names(hash, op.auxiliaries);
    hash.put(static_cast<std::int64_t>(op.recompute));
    hash.put(static_cast<std::int64_t>(op.side_effect));
    hash.put(op.in_place ? 1 : 0);
  }

  void put_saved(const Op& op) {
    StableHash& hash = to(FingerprintPart::kSaved);
    put_names(hash, op.saved);
    put_names(hash, op.unread_saved);
    put_flags(hash, op.gradient_aliases);
    put_names(hash, op.gradient_places);
    put_flags(hash, op.gradient_views);
    hash.put(op.saves_after_forward ? 1 : 0);
    hash.put(op.has_backward ? 1 : 0);
  }

  // -1 where nothing is stated.
  void put_costs(const Op& op) {
    StableHash& hash = to(FingerprintPart::kCosts);
    hash.put(op.workspace_bytes);
    hash.put(op.backward_workspace_bytes);
    hash.put(op.sweep_workspace_bytes.value_or(-1));
    for (const Cost* cost : {&op.forward, &op.backward}) {
      hash.put(cost->flops);
      hash.put(cost->executed_flops);
      hash.put(cost->moved_bytes);
      hash.put(cost->kernel_count);
      hash.put(cost->is_matmul ? 1 : 0);
      hash.put(cost->time_ns.value_or(-1));
    }
  }

  void put_bytes(const Tensor& tensor) {
    StableHash& hash = to(FingerprintPart::kBytes);
    const Storage& storage = graph_.storage(tensor.storage);
    hash.put(tensor.bytes);
    hash.put(storage.owner == kNoTensor ? std::string_view()
                                        : std::string_view(graph_.tensor(storage.owner).name));
    hash.put(storage.bytes);
    hash.put(tensor.master_weight_bytes);
    hash.put(tensor.optimizer_state_bytes);
    hash.put(tensor.optimizer_temporary_bytes);
    hash.put(tensor.optimizer_carried_bytes);
    const std::array<std::int64_t, 4> rest = {
        tensor.optimizer_paged_bytes, tensor.optimizer_early_temporary_bytes,
        tensor.optimizer_early_carried_bytes, tensor.optimizer_part};
    if (rest != std::array<std::int64_t, 4>{}) {
      for (const std::int64_t number : rest) hash.put(number);
    }
    if (tensor.main_gradient_bytes > 0) hash.put(tensor.main_gradient_bytes);
  }

  const Graph& graph_;
  const Hashes& hashes_;
};

void put_recipe(StableHash& hash, const Recipe& recipe) {
  hash.put(precision_name(recipe.precision));
  hash.put(recipe.optimizer);
  hash.put(optimizer_loop_name(recipe.step.optimizer_loop));
  hash.put(recipe.step.optimizer_in_backward ? 1 : 0);
  hash.put(recipe.step.micro_batches);
  hash.put(recipe.step.keeps_gradients ? 1 : 0);
  if (recipe.step.main_gradient_type) hash.put(data_type_name(*recipe.step.main_gradient_type));
}

// How many ops mark k is of. No product of a count that a file may say.
std::size_t marked_ops(std::size_t mark, std::int64_t op_count) {
  const auto count = static_cast<std::size_t>(op_count);
  const std::size_t share = (mark + 1) * (count % kFingerprintMarks);
  return (mark + 1) * (count / kFingerprintMarks) +
         (share + kFingerprintMarks - 1) / kFingerprintMarks;
}

// Bytes of the hash that are left out would not be seen, so all are folded together.
std::uint16_t folded(std::uint64_t value) {
  return static_cast<std::uint16_t>(value ^ (value >> 16) ^ (value >> 32) ^ (value >> 48));
}

// The marks that a graph of `op_count` ops has that begins as this one does; fewer where this graph
// ends before.
std::vector<std::uint16_t> marks_of(const Graph& graph, std::int64_t op_count) {
  std::vector<std::uint16_t> marks;
  StableHash hash;
  Hashes hashes = {};
  hashes.fill(&hash);
  GraphHasher hasher(graph, hashes);
  std::size_t done = 0;
  for (std::size_t mark = 0; mark < kFingerprintMarks; ++mark) {
    const std::size_t end = marked_ops(mark, op_count);
    if (end > graph.ops.size()) break;
    for (; done < end; ++done) {
      const Op& op = graph.ops[done];
      hasher.put(op);
      for (const auto* tensors : {&op.inputs, &op.outputs, &op.auxiliaries}) {
        for (const TensorId tensor : *tensors) hasher.put(graph.tensor(tensor));
      }
    }
    marks.push_back(folded(hash.value()));
  }
  return marks;
}

}  // namespace

Fingerprint fingerprint_of(const Graph& graph, const Recipe& recipe) {
  Fingerprint fingerprint{.op_count = static_cast<std::int64_t>(graph.ops.size()),
                          .tensor_count = static_cast<std::int64_t>(graph.tensors.size())};
  std::array<StableHash, kParts> parts;
  Hashes hashes = {};
  for (std::size_t i = 0; i < kParts; ++i) hashes[i] = &parts[i];
  GraphHasher hasher(graph, hashes);
  for (const Op& op : graph.ops) hasher.put(op);
  for (const Tensor& tensor : graph.tensors) hasher.put(tensor);
  parts[index(FingerprintPart::kOps)].put(graph.tensor(graph.loss).name);
  put_recipe(parts[index(FingerprintPart::kRecipe)], recipe);
  for (std::size_t i = 0; i < kParts; ++i) fingerprint.parts[i] = parts[i].value();
  const std::vector<std::uint16_t> marks = marks_of(graph, fingerprint.op_count);
  std::copy(marks.begin(), marks.end(), fingerprint.marks.begin());
  return fingerprint;
}

std::uint64_t combined(const Fingerprint& fingerprint) {
  StableHash hash;
  for (const std::uint64_t part : fingerprint.parts) hash.put(static_cast<std::int64_t>(part));
  return hash.value();
}

std::vector<std::string> differing_parts(const Fingerprint& a, const Fingerprint& b) {
  const auto differs = [&](FingerprintPart part) {
    return a.parts[index(part)] != b.parts[index(part)];
  };
  if (differs(FingerprintPart::kOps)) return {"ops"};
  std::vector<std::string> names;
  const auto add = [&](std::initializer_list<FingerprintPart> parts) {
    for (const FingerprintPart part : parts) {
      if (differs(part)) names.emplace_back(kFingerprintParts[index(part)]);
    }
  };
  add({FingerprintPart::kShapes, FingerprintPart::kTypes, FingerprintPart::kSaved,
       FingerprintPart::kRecipe});
  if (names.empty()) add({FingerprintPart::kBytes, FingerprintPart::kCosts});
  return names;
}

OpSpan first_difference(const Graph& graph, const Fingerprint& other) {
  const std::vector<std::uint16_t> marks = marks_of(graph, other.op_count);
  for (std::size_t mark = 0; mark < kFingerprintMarks; ++mark) {
    const bool is_same = mark < marks.size() && marks[mark] == other.marks[mark];
    if (is_same) continue;
    const std::size_t begin = mark == 0 ? 0 : marked_ops(mark - 1, other.op_count);
    return {.begin = begin, .end = std::min(marked_ops(mark, other.op_count), graph.ops.size())};
  }
  const std::size_t all = marked_ops(kFingerprintMarks - 1, other.op_count);
  return {.begin = all, .end = std::min(all + 1, graph.ops.size())};
}

}  // namespace cairn
