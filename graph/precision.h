#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/data_type.h"

// In which types a model is trained: its parameters, what its ops compute in, and what its
// optimizer keeps.

namespace cairn {

struct Precision {
  // Of parameters, of what is made of them without autocast, and of their gradients.
  DataType parameter_type = DataType::kBFloat16;
  // torch.autocast: the type that matrix products and the like cast their inputs to.
  std::optional<DataType> autocast_type = {};
  // The optimizer works on a copy of each trainable parameter of this type.
  std::optional<DataType> master_type = {};

  friend bool operator==(const Precision&, const Precision&) = default;
};

// What matrix products run in.
DataType compute_type(const Precision& precision);
// Of the optimizer's states, which are made like what it works on.
DataType state_type(const Precision& precision);

// fp32, bf16, fp16, autocast-bf16, autocast-fp16, bf16-autocast, bf16-master.
std::string_view precision_name(const Precision& precision);
std::optional<Precision> find_precision(std::string_view name);
std::vector<std::string> precision_names();

}  // namespace cairn
