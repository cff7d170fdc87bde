#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/data_type.h"
#include "graph/graph.h"

// An op kind: one small source file in this folder that says what an op of that kind makes, saves
// and costs. It never sees the graph around the op, only the op's own inputs.

namespace cairn {

// What an op of a family may state: one for each member of OpAttributes, in its order.
enum class AttributeKey {
  kWidth,
  kRows,
  kParts,
  kPart,
  kWidths,
  kAxis,
  kHeads,
  kKvHeads,
  kBias,
  kCausal,
  kWindow,
  kSoftcap,
  kSinks,
  kFp4,
  kNested,
  kProbability,
  kDataType,
  kInPlace,
  kGradientInPlace,
  kKernel,
  kStride,
  kPadding,
  kGroups,
  kLargestCount,
  kExperts,
  kImbalance,
  kCapacity,
  kTanhForm,
  kOneSided,
  kPairs,
  kConstant
};

// A parameter, output or auxiliary to be made. `suffix` is appended to the op's name ("weight");
// the only output has none.
struct TensorSketch {
  std::string suffix = {};
  DataType data_type = DataType::kFloat32;
  Shape shape = {};
  std::optional<std::size_t> view_of_input = {};  // on that input's storage, costs nothing
  // Of a parameter: its type is the one here, not the builder's, and it is never trained.
  bool is_stored = false;
  bool is_buffer = false;  // such a one that counts no parameters (Tensor::is_buffer)
};

struct SavedSet {
  std::vector<std::size_t> inputs = {};  // positions, parameters included
  std::vector<std::size_t> outputs = {};
  std::vector<std::size_t> auxiliaries = {};
};

// The gradient of an input, written over a tensor that the op saved: an auxiliary, else that input
// itself. Nothing else may read or save that tensor.
struct GradientPlace {
  std::size_t input = 0;
  std::optional<std::size_t> auxiliary = {};
};

// What a kind derives for one op. Costs left at zero moved_bytes are filled by the builder with
// the bytes of everything read and written.
struct OpDerivation {
  std::vector<TensorSketch> outputs = {};
  std::vector<TensorSketch> auxiliaries = {};
  SavedSet saved = {};
  std::vector<std::size_t> gradient_alias_inputs = {};
  std::vector<GradientPlace> gradient_places = {};
  // Positions, parameters included: the gradient is a view of what Backward makes, and PyTorch adds
  // no other contribution into a view.
  std::vector<std::size_t> gradient_view_inputs = {};
  std::int64_t workspace_bytes = 0;
  std::int64_t backward_workspace_bytes = 0;
  std::optional<std::int64_t> sweep_workspace_bytes = {};
  Cost forward = {};
  Cost backward = {};
  RecomputePolicy recompute = RecomputePolicy::kYes;
  SideEffect side_effect = SideEffect::kNone;
  bool in_place = false;
};

// The op as its kind sees it. `inputs` are the activations, `parameters` what `parameters()` asked
// for, in that order.
struct OpContext {
  const std::string& name;
  const OpAttributes& attributes;
  const std::vector<const Tensor*>& inputs;
  const std::vector<const Tensor*>& parameters;
};

// In which type torch.autocast has an op compute on a GPU: the list of ATen/autocast_mode.h
// (torch 2.13) that its function is on. Casts are ops of their own, before the op.
enum class AutocastList {
  kNotKnown,        // refused under autocast
  kNone,            // on no list: the types that come in, the wider one where they differ
  kLowerPrecision,  // AT_FORALL_LOWER_PRECISION_FP: floating inputs and parameters are cast down
  kFloat32,         // AT_FORALL_FP32: they are cast to fp32
  kFloat32Output,   // AT_FORALL_FP32_SET_OPT_DTYPE: the function is told `dtype: fp32`
  // On no list, but its kernel calls one of kLowerPrecision: the type of that is its `dtype`.
  kLowerPrecisionInside,
};

struct OpKindInfo {
  std::string_view name = {};
  std::string_view source = {};  // of the rule of what it saves: "derivatives.yaml: mm"
  std::size_t min_inputs = 1;
  std::size_t max_inputs = 1;
  std::vector<std::size_t> integer_inputs = {};  // ids, labels; all others are floating point
  std::vector<AttributeKey> attributes = {};     // accepted
  std::vector<AttributeKey> required = {};       // and never zero
  bool is_dropout = false;                       // hands its input on where nothing is trained
  bool is_detached = false;                      // what it makes requires no gradient
  bool makes_leaf = false;                       // what it makes does, whatever it reads
  bool skips_empty_widths = false;               // one of its `widths` that is 0 stands for nothing
  // Suffix and shape of each parameter (the type is the builder's, but where it is stored); null:
  // none.
  std::vector<TensorSketch> (*parameters)(const OpContext&) = nullptr;
  OpDerivation (*derive)(const OpContext&) = nullptr;
  AutocastList autocast = AutocastList::kNotKnown;
  bool casts_parameters = false;  // to its dtype, each time
};

// The kind of that name, or nullptr.
const OpKindInfo* find_op_kind(std::string_view name);
std::vector<std::string> op_kind_names();

std::string_view attribute_name(AttributeKey key);
std::optional<AttributeKey> find_attribute(std::string_view name);

}  // namespace cairn
