#include <fmt/format.h>

#include <algorithm>

#include "graph/error.h"
#include "graph/graph_builder.h"

// The casts of what an op reads: those of torch.autocast, and those that an op's own dtype asks
// for. Each is an op, so that its copy, its gradient and its Backward are as any other's.

namespace cairn {
namespace {

// torch.autocast (ATen/autocast_mode.h): the type that the op's floating inputs are cast to, and
// none where the op is on no list.
std::optional<DataType> autocast_input_type(const OpKindInfo& kind, DataType lower_type) {
  switch (kind.autocast) {
    case AutocastList::kLowerPrecision:
      return lower_type;
    case AutocastList::kFloat32:
      return DataType::kFloat32;
    case AutocastList::kNotKnown:
    case AutocastList::kNone:
    case AutocastList::kFloat32Output:
    case AutocastList::kLowerPrecisionInside:
      return std::nullopt;
  }
  CAIRN_CHECK(false, "unknown autocast list");
}

// A softmax that is told its output's type converts its input first, but for one of fp16, which the
// kernel reads as it is (ATen/native/SoftMax.cpp: softmax, half_to_float).
bool converts_itself(DataType from, DataType to) {
  return from == DataType::kFloat16 && to == DataType::kFloat32;
}

}  // namespace

TensorId GraphBuilder::add_cast(const OpRequest& reader, const std::string& suffix, TensorId tensor,
                                DataType type) {
  return add_op({.name = fmt::format("{}.{}.{}", reader.name, suffix, data_type_name(type)),
                 .kind = find_op_kind("cast"),
                 .attributes = {.data_type = type},
                 .inputs = {tensor},
                 .module = reader.module,
                 .block = reader.block})
      .front();
}

// Autocast keeps the 16-bit copies of fp32 leaves that require a gradient, and only those, for the
// next reader (ATen/autocast_mode.cpp: cached_cast).
TensorId GraphBuilder::cast_parameter(const OpRequest& reader, TensorId parameter, DataType type) {
  const bool is_cached = precision_.autocast_type == type && tensor(parameter).requires_grad &&
                         tensor(parameter).data_type == DataType::kFloat32;
  if (is_cached) {
    const auto found = cached_casts_.find(parameter);
    if (found != cached_casts_.end()) return found->second;
  }
  const std::string& name = tensor(parameter).name;
  const TensorId cast = add_cast(reader, name.substr(name.rfind('.') + 1), parameter, type);
  if (is_cached) cached_casts_.emplace(parameter, cast);
  return cast;
}

// The types that an op's floating inputs and its parameters are cast to. Sets or resets its dtype.
GraphBuilder::ReadTypes GraphBuilder::read_types(OpRequest& request) const {
  const OpKindInfo& kind = *request.kind;
  std::optional<DataType>& dtype = request.attributes.data_type;
  ReadTypes types;
  // A gradient in place is that of another library's function, which torch's lists do not know.
  const bool is_known =
      kind.autocast != AutocastList::kNotKnown && !request.attributes.gradient_in_place;
  if (precision_.autocast_type && !is_known) {
    throw InputError(
        fmt::format("op '{}': autocast of a {} is not in this version; expected a precision "
                    "without autocast",
                    request.name, kind.name));
  }
  if (precision_.autocast_type && request.autocast) {
    types.inputs = autocast_input_type(kind, *precision_.autocast_type);
    types.parameters = types.inputs;
    if (types.inputs) dtype.reset();
    if (kind.autocast == AutocastList::kFloat32Output && !dtype) dtype = DataType::kFloat32;
    if (kind.autocast == AutocastList::kLowerPrecisionInside) dtype = precision_.autocast_type;
  }
  if (kind.casts_parameters && dtype) types.parameters = dtype;
  if (kind.autocast == AutocastList::kFloat32Output && dtype &&
      !converts_itself(tensor(request.inputs[0]).data_type, *dtype)) {
    types.inputs = dtype;
    dtype.reset();
  }
  return types;
}

// Replaces what the op reads by casts of it, the last argument first: so torch's builds evaluate
// the arguments of a call.
void GraphBuilder::cast_reads(OpRequest& request, std::vector<TensorId>& parameters) {
  const ReadTypes types = read_types(request);
  const auto differs = [&](TensorId id, std::optional<DataType> type) {
    return type && is_floating(tensor(id).data_type) && tensor(id).data_type != *type;
  };
  for (std::size_t i = parameters.size(); i-- > 0;) {
    if (!differs(parameters[i], types.parameters)) continue;
    parameters[i] = cast_parameter(request, parameters[i], *types.parameters);
  }
  for (std::size_t i = request.inputs.size(); i-- > 0;) {
    if (!differs(request.inputs[i], types.inputs)) continue;
    const std::string suffix = request.inputs.size() == 1 ? "input" : fmt::format("input{}", i + 1);
    request.inputs[i] = add_cast(request, suffix, request.inputs[i], *types.inputs);
  }
}

// Autocast's cache is emptied where its context ends: a trainer's, around the model with its loss,
// behind forward; a recompute's own, behind it.
void GraphBuilder::hold_cached_casts() {
  const auto last = static_cast<OpId>(graph_.ops.size() - 1);
  for (const auto& [parameter, cast] : cached_casts_) hold_until(cast, last);
}

}  // namespace cairn
