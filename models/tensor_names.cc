#include "models/tensor_names.h"

#include <algorithm>

namespace cairn {

TensorId TensorNames::find(std::string_view name) const {
  for (const TensorNames* table = this; table != nullptr; table = table->outer_) {
    for (std::size_t i = table->entries_.size(); i-- > 0;) {
      if (table->entries_[i].first == name) return table->entries_[i].second;
    }
  }
  return kNoTensor;
}

void TensorNames::set_list(std::string_view name, std::vector<TensorId> tensors) {
  lists_.emplace_back(name, std::move(tensors));
}

const std::vector<TensorId>* TensorNames::find_list(std::string_view name) const {
  const auto is_named = [&](const auto& entry) { return entry.first == name; };
  for (const TensorNames* table = this; table != nullptr; table = table->outer_) {
    const auto list = std::find_if(table->lists_.begin(), table->lists_.end(), is_named);
    if (list != table->lists_.end()) return &list->second;
    const bool ends = table->outer_ == nullptr || table->outer_->lists_.empty();
    if (ends || std::any_of(table->entries_.begin(), table->entries_.end(), is_named)) break;
  }
  return nullptr;
}

void HeldNames::take(const HeldNames& other) {
  entries_.insert(entries_.end(), other.entries_.begin(), other.entries_.end());
}

void HeldNames::take(const HeldNames& other, std::string_view scope) {
  for (const TensorId tensor : other.held_until(scope)) hold(tensor, scope);
}

std::vector<TensorId> HeldNames::held_until(std::string_view scope) const {
  std::vector<TensorId> tensors;
  for (const auto& [until, tensor] : entries_) {
    if (until == scope) tensors.push_back(tensor);
  }
  return tensors;
}

}  // namespace cairn
