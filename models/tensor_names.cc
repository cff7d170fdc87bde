#include "models/tensor_names.h"

namespace cairn {

TensorId TensorNames::find(std::string_view name) const {
  for (const TensorNames* table = this; table != nullptr; table = table->outer_) {
    for (std::size_t i = table->entries_.size(); i-- > 0;) {
      if (table->entries_[i].first == name) return table->entries_[i].second;
    }
  }
  return kNoTensor;
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
