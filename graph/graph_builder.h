#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/name_index.h"
#include "graph/ops/op_kind.h"
#include "graph/optimizer_rule.h"
#include "graph/precision.h"

// Builds a Graph op by op, in execution order, and derives what each op makes and saves.
// Everything that a user's file can get wrong throws InputError naming the op or tensor.

namespace cairn {

// An op of a known kind. Its outputs are named after it: "attn", or "attn.suffix" where several.
struct OpRequest {
  std::string name = {};
  const OpKindInfo* kind = nullptr;
  OpAttributes attributes = {};
  std::vector<TensorId> inputs = {};
  // Parameters to share instead of making new ones, by suffix: {"weight", embed.weight}.
  std::vector<std::pair<std::string, TensorId>> shared_parameters = {};
  bool is_logits = false;  // so is all that it makes
  // Begins the names of new parameters; those of that name that are there are shared. "": the op's
  // name, and all are new.
  std::string parameters_of = {};
  std::string module = {};
  std::int32_t block = -1;
  bool autocast = true;  // false: below autocast, in a function whose own inputs it has cast
  // Of new parameters: their type, where it is not the builder's, and whether they are trained
  // where set_trainable(false) says that nothing else is.
  std::optional<DataType> parameter_type = {};
  bool is_trained = false;
  // A copy of each parameter, which is trained, is read in its place; the parameter itself stays.
  bool has_trained_copy = false;
};

// An op that states everything itself: `custom`.
struct CustomTensor {
  std::string name = {};
  std::int64_t bytes = 0;
  TensorId view_of = kNoTensor;  // on that tensor's storage (which must be an input of the op)
};

struct CustomOp {
  std::string name = {};
  std::vector<TensorId> inputs = {};  // parameters last
  std::vector<CustomTensor> outputs = {};
  std::vector<CustomTensor> auxiliaries = {};
  std::vector<std::string> saved = {};             // names of inputs, outputs, auxiliaries
  std::vector<std::string> gradient_aliases = {};  // inputs whose gradient aliases outputs[0]'s
  // An input, and the saved tensor over which Backward writes its gradient.
  std::vector<std::pair<std::string, std::string>> gradient_places = {};
  std::vector<std::string> gradient_views = {};  // inputs whose gradient is not added into
  std::int64_t workspace_bytes = 0;
  std::int64_t backward_workspace_bytes = 0;
  std::optional<std::int64_t> sweep_workspace_bytes = {};
  Cost forward = {};
  Cost backward = {};
  RecomputePolicy recompute = RecomputePolicy::kYes;
  SideEffect side_effect = SideEffect::kNone;
  bool in_place = false;
  bool saves_after_forward = false;
  std::string module = {};
  std::int32_t block = -1;
};

class GraphBuilder {
 public:
  GraphBuilder(std::string name, Precision precision, const OptimizerRule& optimizer = {});
  GraphBuilder(std::string name, DataType parameter_type, const OptimizerRule& optimizer = {})
      : GraphBuilder(std::move(name), Precision{.parameter_type = parameter_type}, optimizer) {}
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  TensorId add_input(const std::string& name, DataType type, Shape shape, bool requires_grad);
  TensorId add_input_bytes(const std::string& name, std::int64_t bytes, bool requires_grad);
  TensorId add_parameter(const std::string& name, DataType type, Shape shape, bool trainable);
  TensorId add_parameter_bytes(const std::string& name, std::int64_t bytes, bool trainable);

  // Adds the op, and before it the casts of what it reads that autocast or its own dtype makes.
  // Returns the op's outputs. Throws InputError on a wrong number of inputs, an attribute the kind
  // needs, shapes that do not fit, sizes past 2^63 - 1, or a name used before.
  std::vector<TensorId> add_op(const OpRequest& request);
  std::vector<TensorId> add_custom(const CustomOp& custom);

  // The shape of the first output that add_op would make. Adds nothing.
  Shape output_shape(const OpRequest& request) const;

  void mark_logits(TensorId tensor);

  // Names of a program, besides ops, hold the tensor until `last_op` has run: the last op of their
  // scope, which may be known only when it ends. Of several the latest counts. Inputs and
  // parameters are there anyway. Throws InputError for an auxiliary, which has no name, and where
  // the tensor is made behind `last_op`.
  void hold_until(TensorId tensor, OpId last_op);

  // Room for so many more ops and tensors: saves moving those that are there.
  void reserve(std::size_t op_count, std::size_t tensor_count);

  std::size_t op_count() const { return graph_.ops.size(); }
  std::size_t tensor_count() const { return graph_.tensors.size(); }

  // Nothing is trainable from here on, but of ops that say so / everything is again.
  void set_trainable(bool trainable) { trainable_ = trainable; }
  // Parameters that ops make from here on are not trainable where they have one of these names.
  void freeze(std::unordered_set<std::string> names) { frozen_ = std::move(names); }

  const Tensor& tensor(TensorId id) const { return graph_.tensor(id); }
  // kNoTensor when there is none of that name.
  TensorId find(std::string_view name) const;
  // kNoOp when there is none of that name.
  OpId find_op(std::string_view name) const;

  // Derives which tensors have gradients from `loss`, checks the whole, and hands the graph over.
  Graph build(TensorId loss);

 private:
  TensorId add_tensor(Tensor tensor, TensorId view_of);
  TensorId add_parameter_tensor(Tensor tensor);
  SteppedParameter stepped(const Tensor& tensor) const;
  void add_optimizer_bytes();
  std::vector<TensorId> add_parameters(const OpRequest& request);
  TensorId add_own_parameter(const OpRequest& request, const TensorSketch& sketch);
  void copy_parameters(const OpRequest& request, std::vector<TensorId>& parameters);
  TensorId add_cast(const OpRequest& reader, const std::string& suffix, TensorId tensor,
                    DataType type);
  TensorId cast_parameter(const OpRequest& reader, TensorId parameter, DataType type);
  struct ReadTypes {
    std::optional<DataType> inputs = {};  // of floating-point ones
    std::optional<DataType> parameters = {};
  };
  ReadTypes read_types(OpRequest& request) const;
  void hold_cached_casts();
  void cast_reads(OpRequest& request, std::vector<TensorId>& parameters);
  std::vector<const Tensor*> tensors_of(const std::vector<TensorId>& ids) const;
  void add_sketches(const OpDerivation& derivation, Op& op);
  void apply(const OpDerivation& derivation, Op& op);
  void check_readable(const std::string& op_name, const std::vector<TensorId>& inputs) const;
  void finish_op(Op op);

  Graph graph_ = {};
  Precision precision_ = {};
  OptimizerRule optimizer_ = {};
  std::map<TensorId, TensorId> cached_casts_ = {};  // autocast's, by parameter
  bool trainable_ = true;
  std::unordered_set<std::string> frozen_ = {};
  NameIndex<TensorId> tensors_by_name_;
  NameIndex<OpId> ops_by_name_;
};

}  // namespace cairn
