#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/place_ops.h"

// Lists of tensors in a layer file: what makes several without naming them, and the ops that run
// once for each of these.

namespace cairn {
namespace {

// How many items the ops run for: those of the lists they read, which are equally long.
std::size_t item_count(const FamilyOp& op, const TensorNames& names) {
  std::size_t count = 0;
  for (const std::string& input : op.inputs) {
    const std::vector<TensorId>* const list = names.find_list(input);
    if (list == nullptr) continue;
    if (count > 0 && list->size() != count) {
      fail_at(*op.document, op.position,
              fmt::format("op '{}': it reads lists of {} and {} tensors", op.name, count,
                          list->size()));
    }
    count = list->size();
  }
  return count;
}

// The text is the file's, which outlives all names.
const std::string& made_name(const FamilyOp& op) {
  return op.output_names.empty() ? op.name : op.output_names[0];
}

// The lists that the ops read have their item's tensor under their name.
TensorNames names_of_item(const Layer& layer, std::size_t first, std::size_t last, std::size_t item,
                          const TensorNames& names) {
  TensorNames inside(&names);
  for (std::size_t i = first; i < last; ++i) {
    for (const std::string& input : layer.ops[i].inputs) {
      const std::vector<TensorId>* const list = names.find_list(input);
      if (list != nullptr) inside.set(input, list->at(item));
    }
  }
  return inside;
}

}  // namespace

// What a name stands for, or a parameter of an adapter's base: "base.weight".
TensorId OpPlacing::input_tensor(const FamilyOp& op, const std::string& input,
                                 const TensorNames& names, const Place& place) const {
  const std::size_t dot = input.find('.');
  if (dot == std::string::npos) return names.find(input);
  TensorId parameter = builder_.find(place.name_prefix + input);
  for (const auto& [suffix, shared] : base_parameters_) {
    if (suffix == input.substr(dot + 1)) parameter = shared;
  }
  if (parameter != kNoTensor) return parameter;
  fail_at(*op.document, op.position,
          fmt::format("op '{}': '{}' is no parameter of this base", op.name, input));
}

std::vector<TensorId> OpPlacing::input_tensors(const FamilyOp& op, const TensorNames& names,
                                               const Place& place) const {
  std::vector<TensorId> tensors;
  for (const std::string& input : op.inputs) {
    if (const std::vector<TensorId>* list = names.find_list(input)) {
      tensors.insert(tensors.end(), list->begin(), list->end());
    } else {
      tensors.push_back(input_tensor(op, input, names, place));
    }
  }
  return tensors;
}

// Of an op that makes several and names none of them, its name stands for all.
void OpPlacing::name_outputs(const FamilyOp& op, const std::vector<TensorId>& outputs,
                             TensorNames& names) {
  if (!op.output_names.empty()) {
    for (std::size_t i = 0; i < outputs.size(); ++i) names.set(op.output_names[i], outputs[i]);
    return;
  }
  names.set(op.name, outputs[0]);
  if (op.kind->name == "split" || op.kind->name == "split_ids") names.set_list(op.name, outputs);
}

// The ops from `first` on with the same `each`, item after item. Returns the op behind them.
std::size_t OpPlacing::add_items(const Layer& layer, std::size_t first, const Scope& attributes,
                                 TensorNames& names, const Place& place, HeldNames& held) {
  const std::vector<FamilyOp>& ops = layer.ops;
  std::size_t last = first;
  while (last < ops.size() && ops[last].each == ops[first].each) ++last;
  const std::size_t count = item_count(ops[first], names);
  if (count == 0) {
    fail_at(*ops[first].document, ops[first].position,
            fmt::format("op '{}': key 'each': it reads no list", ops[first].name));
  }
  std::vector<std::vector<TensorId>> made(last - first);
  for (std::size_t item = 0; item < count; ++item) {
    TensorNames inside = names_of_item(layer, first, last, item, names);
    HeldNames item_held;
    for (std::size_t i = first; i < last; ++i) {
      add_layer_op(ops[i], fmt::format("{}.{}", ops[i].name, item), attributes, inside, place,
                   false);
      hold_names(ops[i], inside, item_held);
      made[i - first].push_back(inside.find(made_name(ops[i])));
    }
    held.take(item_held);
  }
  for (std::size_t i = first; i < last; ++i) {
    names.set_list(made_name(ops[i]), std::move(made[i - first]));
  }
  return last;
}

}  // namespace cairn
