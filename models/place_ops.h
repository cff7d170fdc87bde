#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/error.h"
#include "graph/graph_builder.h"
#include "models/family_values.h"
#include "models/head_in_loss.h"
#include "models/instantiate.h"
#include "models/linear_layers.h"
#include "models/tensor_names.h"

// Places the ops of families and layers in a graph: by a kind's own kernel, as a layer file spells
// it out, or as a composite.

namespace cairn {

// A graph of more ops is refused.
inline constexpr std::size_t kMostOps = 250'000;

// Where an op is being placed.
struct Place {
  std::string name_prefix = {};  // "layers.3."
  std::string module = {};       // "model.layers.3"
  std::int32_t block = -1;
  std::optional<DataType> activation = {};  // of the first input of the layer file around it
  std::optional<DataType> adapter = {};     // of the adapter's weights, in an adapter's layer
};

class OpPlacing {
 public:
  OpPlacing(const InstantiateRequest& request, GraphBuilder& builder);

  // Adds what stands for the op, and gives its outputs their names in `names`. Throws InputError
  // with the model and the op's place in its file.
  void add_family_op(const FamilyOp& op, const Scope& scope, TensorNames& names, const Place& place,
                     HeldNames& held);

  // The scope ends behind the last op there is.
  void end_scope(std::string_view scope, const HeldNames& held);

  // A repeated block begins: its names hold what comes in, until the block ends.
  void begin_block(TensorId carried);
  void end_block();
  // Behind the last op of all.
  void end_forward();

  NamedTypes named_types(const Place& place) const;

  // Behind the last op: what the recipe's adapters name is there.
  void check_adapters(const Graph& graph) const { linear_layers_.check_targets(graph); }

  // The model's numbers are at fault as often as the family's ops: name both.
  [[noreturn]] void fail_with_place(const Document& source, Position position,
                                    const std::string& message) const;

  // Errors of the builder get the place of what was being added.
  template <typename Action>
  auto with_place(const Document& source, Position position, Action action) const {
    try {
      return action();
    } catch (const InputError& error) {
      fail_with_place(source, position, error.what());
    }
  }

 private:
  bool is_identity(const FamilyOp& op, const OpAttributes& attributes, TensorId input) const;
  const Layer* layer_for(const FamilyOp& op, const Place& place);
  const Layer* head_layer_in_loss(const FamilyOp& op) const;
  bool is_part_of_loss(const FamilyOp& op, const Scope& scope, TensorNames& names);
  void place_op(const FamilyOp& op, const Scope& scope, TensorNames& names, const Place& place,
                HeldNames& held);
  void make_leaf(const FamilyOp& op, TensorNames& names, const Place& place);
  bool passes_through(const FamilyOp& op, const Scope& scope, TensorNames& names) const;
  void add_composite(const Layer& layer, const FamilyOp& op, const Scope& scope, TensorNames& names,
                     const Place& place, HeldNames& outer_held);
  void add_layer(const Layer& layer, const FamilyOp& op, const std::string& name,
                 const Scope& scope, TensorNames& names, const Place& place);
  std::size_t add_items(const Layer& layer, std::size_t first, const Scope& attributes,
                        TensorNames& names, const Place& place, HeldNames& held);
  void add_layer_ops(const Layer& layer, const FamilyOp& op, const Scope& attributes,
                     TensorNames& names, const Place& place, HeldNames& held);
  void add_layer_op(const FamilyOp& op, const std::string& name, const Scope& attributes,
                    TensorNames& names, const Place& place, bool is_head);
  std::optional<DataType> adapter_type(const Layer& layer) const;
  Value cap_of_head(const Scope& scope) const;
  void add_attention_factor(const FamilyOp& op, const TensorNames& names, Scope& attributes) const;
  Scope layer_scope(const Layer& layer, const FamilyOp& op, const Scope& scope, const Place& place);
  TensorId input_tensor(const FamilyOp& op, const std::string& input, const TensorNames& names,
                        const Place& place) const;
  void add_plain_op(const FamilyOp& op, const std::string& name, const Scope& scope,
                    TensorNames& names, const Place& place);
  std::vector<TensorId> input_tensors(const FamilyOp& op, const TensorNames& names,
                                      const Place& place) const;
  static void name_outputs(const FamilyOp& op, const std::vector<TensorId>& outputs,
                           TensorNames& names);
  void hold_names(const FamilyOp& op, const TensorNames& names, HeldNames& held);
  void count_op();
  void give_head(const Scope& scope, const Place& place, OpRequest& request) const;
  void check_layer_output(const Layer& layer, const FamilyOp& op, const Scope& scope,
                          const TensorNames& names, TensorId output) const;
  // `names`: where what the op shares may be a tensor that was made of a weight.
  void share_weight(const FamilyOp& op, const Scope& scope, const Place& place, OpRequest& request,
                    const TensorNames* names = nullptr) const;

  const InstantiateRequest& request_;
  GraphBuilder& builder_;
  std::map<std::string, std::string> choices_ = {};
  std::map<std::string, const Layer*> layers_ = {};  // by op kind or composite
  LinearLayers linear_layers_;
  std::optional<HeadInLoss> head_ = {};  // of a loss that takes it
  // Parameters of other ops that the base of the adapter in work shares.
  std::vector<std::pair<std::string, TensorId>> base_parameters_ = {};
  bool layer_takes_head_ = false;  // the one whose ops are being added
  HeldNames block_held_ = {};      // until the repeated block in work ends; outside of one, forward
  HeldNames outside_block_held_ = {};
  HeldNames forward_held_ = {};
  std::size_t op_count_ = 0;
};

}  // namespace cairn
