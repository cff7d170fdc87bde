#include "models/instantiate.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "graph/error.h"
#include "graph/graph_builder.h"
#include "graph/ops/shapes.h"
#include "models/family_ops.h"
#include "models/family_values.h"
#include "models/head_in_loss.h"
#include "models/implementations.h"
#include "models/layer_use.h"
#include "models/optimizer.h"
#include "models/requirements.h"
#include "models/tensor_names.h"
#include "models/trainable.h"

namespace cairn {
namespace {

constexpr std::int64_t kMostBlocks = 100'000;
constexpr std::size_t kMostOps = 250'000;

// Where an op is being placed.
struct Place {
  std::string name_prefix = {};  // "layers.3."
  std::string module = {};       // "model.layers.3"
  std::int32_t block = -1;
  std::optional<DataType> activation = {};  // of the first input of the layer file around it
};

std::string joined_module(const std::string& outer, const std::string& inner) {
  if (outer.empty() || inner.empty()) return outer + inner;
  return outer + "." + inner;
}

class Instantiation {
 public:
  // `frozen` are names of parameters that are not trained.
  explicit Instantiation(const InstantiateRequest& request,
                         std::unordered_set<std::string> frozen = {})
      : request_(request),
        choices_(implementation_choices(request.family, request.layers, request.recipe)),
        layers_(chosen_layers(request.family, request.layers, choices_)),
        builder_(request.model_name, request.recipe.precision, optimizer_rule(request.recipe)) {
    builder_.freeze(std::move(frozen));
  }

  Graph run() {
    check_requirements();
    const FamilyOp& loss = request_.family.items.back().op;
    if (const Layer* layer = layer_for(loss); layer != nullptr && layer->takes_head) {
      head_.emplace(loss, choices_.at("loss"));
    }
    TensorNames names;
    add_inputs(names);
    HeldNames held;
    for (const FamilyItem& item : request_.family.items) {
      if (item.block_ops.empty()) {
        add_family_op(item.op, request_.dims, names, {}, held);
      } else {
        add_blocks(item, names);
        end_scope(item.block_name, held);
      }
    }
    end_scope(kModuleScope, held);
    end_scope(kBlockScope, block_held_);
    end_scope(kForwardScope, forward_held_);
    const TensorId made = names.find(loss.name);
    if (builder_.tensor(made).producer == kNoOp) {
      fail_at(document(), loss.position,
              fmt::format("op '{}': the last op makes the loss, but it passes '{}' through",
                          loss.name, builder_.tensor(made).name));
    }
    if (element_count(builder_.tensor(made).shape, loss.name) != 1) {
      fail_at(*loss.document, loss.position,
              fmt::format("op '{}': the last op makes the loss, one number, but this makes {}",
                          loss.name, shape_text(builder_.tensor(made).shape)));
    }
    return builder_.build(made);
  }

 private:
  const Document& document() const { return *request_.family.document; }

  void check_requirements() const {
    const auto unmet = unmet_requirement(request_.family.requirements, request_.dims);
    if (unmet) throw InputError(fmt::format("{}: {}", request_.model_name, unmet->text));
  }

  // The model's numbers are at fault as often as the family's ops: name both.
  [[noreturn]] void fail_with_place(const Document& source, Position position,
                                    const std::string& message) const {
    throw InputError(fmt::format("{}: {}\n  at {}:{}:{}", request_.model_name, message,
                                 source.file_name, position.line, position.column));
  }

  // Errors of the builder get the place of what was being added.
  template <typename Action>
  auto with_place(const Document& source, Position position, Action action) const {
    try {
      return action();
    } catch (const InputError& error) {
      fail_with_place(source, position, error.what());
    }
  }

  NamedTypes named_types(const Place& place) const {
    const Precision& precision = request_.recipe.precision;
    return {.activation = place.activation.value_or(precision.parameter_type),
            .parameter = precision.parameter_type,
            .compute = compute_type(precision)};
  }

  void add_inputs(TensorNames& names) {
    for (const FamilyInput& input : request_.family.inputs) {
      Shape shape;
      for (const PlacedExpression& extent : input.shape) {
        shape.push_back(integer(extent, request_.dims));
      }
      names.set(input.name, with_place(*input.document, input.position, [&] {
                  return builder_.add_input(
                      input.name, named_data_type(input.data_type, named_types({})), shape, false);
                }));
    }
  }

  void add_blocks(const FamilyItem& item, TensorNames& names) {
    const std::int64_t count = integer(item.count, request_.dims);
    if (count < 0 || count > kMostBlocks) {
      fail_with_place(*item.count.document, item.count.node->position,
                      fmt::format("'{}' is {}: expected 0 to {} repeated blocks",
                                  item.count.expression.text, count, kMostBlocks));
    }
    if (static_cast<std::size_t>(count) * item.block_ops.size() > kMostOps) {
      fail_with_place(
          *item.count.document, item.count.node->position,
          fmt::format("'{}' is {}: more than {} ops", item.count.expression.text, count, kMostOps));
    }
    TensorId carried = names.find(item.carry_from);
    for (std::int64_t i = 0; i < count; ++i) {
      TensorNames inside(&names);
      inside.set(item.carry_name, carried);
      Scope scope{.parent = &request_.dims, .values = {{"block", integer_value(i)}}};
      for (const PerLayerValues& values : request_.per_layer) {
        scope.values[values.dim->name] = value_in_block(values, i, scope);
      }
      const Place place{.name_prefix = fmt::format("{}.{}.", item.block_name, i),
                        .module = item.module.empty() ? "" : fmt::format("{}.{}", item.module, i),
                        .block = next_block_++};
      const std::size_t ops_before = builder_.op_count();
      const std::size_t tensors_before = builder_.tensor_count();
      HeldNames held;
      HeldNames outside = std::move(block_held_);
      block_held_ = {};
      block_held_.hold(carried, kBlockScope);  // an argument of the block's call
      for (const FamilyOp& op : item.block_ops) add_family_op(op, scope, inside, place, held);
      end_scope(kModuleScope, held);
      end_scope(kBlockScope, block_held_);
      block_held_ = std::move(outside);
      carried = inside.find(item.carry_name);
      if (i == 0) {  // the others are most often as large
        const auto left = static_cast<std::size_t>(count - 1);
        builder_.reserve(std::min(left * (builder_.op_count() - ops_before), kMostOps),
                         std::min(left * (builder_.tensor_count() - tensors_before), kMostOps));
      }
    }
    names.set(item.carry_name, carried);
  }

  // Behind the op, and what spells it out: the scopes that end there, and what its names hold.
  void hold_names(const FamilyOp& op, const TensorNames& names, HeldNames& held) {
    end_scope(op.name, held);
    if (op.held_until.empty()) return;
    for (const std::string& name : made_names(op)) {
      const TensorId tensor = names.find(name);
      if (op.held_until == kForwardScope || op.held_until == kLossScope) {
        forward_held_.hold(tensor, kForwardScope);  // the last op makes the loss
      } else if (op.held_until == kBlockScope) {
        block_held_.hold(tensor, kBlockScope);
      } else {
        held.hold(tensor, op.held_until);
      }
    }
  }

  // What is handed to a call is held until it returns.
  static void hold_arguments(const FamilyOp& op, const TensorNames& names, HeldNames& held) {
    for (const std::string& input : op.inputs) held.hold(names.find(input), kModuleScope);
  }

  // The scope ends behind the last op there is.
  void end_scope(std::string_view scope, const HeldNames& held) {
    if (builder_.op_count() == 0) return;
    for (const TensorId tensor : held.held_until(scope)) {
      builder_.hold_until(tensor, static_cast<OpId>(builder_.op_count() - 1));
    }
  }

  // Ops that pass their input through count too: a repeated block may have nothing else.
  void count_op() {
    if (++op_count_ > kMostOps) {
      throw InputError(fmt::format("{}: more than {} ops", request_.model_name, kMostOps));
    }
  }

  // What later ops find under the names of an op that makes one tensor.
  static void name_output(const FamilyOp& op, TensorId output, TensorNames& names) {
    names.set(op.output_names.empty() ? op.name : op.output_names[0], output);
  }

  // "out" has to name every tensor that the op makes.
  static void check_output_names(const FamilyOp& op, std::size_t output_count) {
    if (op.output_names.empty() || op.output_names.size() == output_count) return;
    fail_at(*op.document, op.position,
            fmt::format("op '{}': it makes {} tensor{}, 'out' names {}", op.name, output_count,
                        output_count == 1 ? "" : "s", op.output_names.size()));
  }

  // Ops that PyTorch leaves out: they hand their input on.
  bool is_identity(const FamilyOp& op, const OpAttributes& attributes, TensorId input) const {
    if (op.kind->name == "dropout") return attributes.probability == 0.0;
    if (op.kind->name == "cast") return builder_.tensor(input).data_type == *attributes.data_type;
    if (op.kind->name == "repeat_kv") return attributes.heads == attributes.kv_heads;
    return false;
  }

  // What stands for this op: the layer file that spells it out, or nullptr for the kind's own
  // kernel; or a composite.
  const Layer* layer_for(const FamilyOp& op) const {
    const auto found =
        layers_.find(op.kind == nullptr ? op.layer_name : std::string(op.kind->name));
    if (found != layers_.end()) return found->second;
    return op.kind == nullptr ? &request_.layers.at(op.layer_name) : nullptr;
  }

  // Whether the op is no op of its own, but part of a loss; its name stands for its input then.
  bool is_part_of_loss(const FamilyOp& op, const Scope& scope, TensorNames& names) {
    if (!head_) return false;
    const bool is_left_out = op.condition && !holds(*op.condition, scope);
    const TensorId input = names.find(op.inputs[0]);
    if (!head_->takes(op, input, is_left_out)) return false;
    name_output(op, input, names);
    return true;
  }

  void add_family_op(const FamilyOp& op, const Scope& scope, TensorNames& names, const Place& place,
                     HeldNames& held) {
    if (is_part_of_loss(op, scope, names)) return;
    place_family_op(op, scope, names, place, held);
    hold_names(op, names, held);
  }

  void place_family_op(const FamilyOp& op, const Scope& scope, TensorNames& names,
                       const Place& place, HeldNames& held) {
    const Layer* const layer = layer_for(op);
    if (layer == nullptr) {
      add_plain_op(op, op.name, scope, names, place);
      return;
    }
    count_op();
    if (passes_through(op, scope, names)) return;
    if (op.kind != nullptr) {
      add_layer(*layer, op, scope, names, place);
    } else {
      add_composite(*layer, op, scope, names, place, held);
    }
  }

  // Where an op's condition is false its name stands for its first input.
  bool passes_through(const FamilyOp& op, const Scope& scope, TensorNames& names) const {
    if (!op.condition || holds(*op.condition, scope)) return false;
    name_output(op, names.find(op.inputs[0]), names);
    return true;
  }

  // The ops of a composite, each named below the op: "layers.0.mlp.gate".
  void add_composite(const Layer& layer, const FamilyOp& op, const Scope& scope, TensorNames& names,
                     const Place& place, HeldNames& outer_held) {
    TensorNames inside = layer_inputs(layer, op, names);
    const Scope attributes = composite_scope(layer, op, scope);
    if (const auto unmet = unmet_requirement(layer.requirements, attributes)) {
      fail_with_place(*op.document, op.position, fmt::format("op '{}': {}", op.name, unmet->text));
    }
    const Place within{.name_prefix = place.name_prefix + op.name + ".",
                       .module = joined_module(place.module, op.module),
                       .block = place.block,
                       .activation = builder_.tensor(inside.find(layer.inputs[0])).data_type};
    HeldNames held;
    if (!layer.is_inline) hold_arguments(op, names, held);
    for (const FamilyOp& inner : layer.ops) {
      add_family_op(inner, attributes, inside, within, held);
    }
    if (layer.is_inline) {
      outer_held.take(held, kModuleScope);
    } else {
      end_scope(kModuleScope, held);
    }
    for (std::size_t i = 0; i < layer.outputs.size(); ++i) {
      const std::string& name = op.output_names.empty() ? op.name : op.output_names[i];
      names.set(name, inside.find(layer.outputs[i]));
    }
    if (op.is_logits) builder_.mark_logits(inside.find(layer.outputs[0]));
  }

  // The head's parameters and module go to the op that has it in itself.
  void give_head(const Scope& scope, const Place& place, OpRequest& request) const {
    const FamilyOp& linear = head_->linear();
    request.parameters_of = linear.name;
    request.module = linear.module;
    request.is_logits = true;
    share_weight(linear, scope, place, request);
  }

  // Spells an op out in the ops of a layer file; the last of them takes the op's own name.
  void add_layer(const Layer& layer, const FamilyOp& op, const Scope& scope, TensorNames& names,
                 const Place& place) {
    if (layer.inputs.size() != op.inputs.size()) {
      fail_at(*op.document, op.position,
              fmt::format("op '{}': layer '{}' takes {} inputs, found {}", op.name, layer.name,
                          layer.inputs.size(), op.inputs.size()));
    }
    if (op.shared_weight) {
      fail_at(*op.document, op.position,
              fmt::format("op '{}': layer '{}' spells it out, so its weight cannot be shared",
                          op.name, layer.name));
    }
    check_output_names(op, 1);
    TensorNames inside = layer_inputs(layer, op, names);
    Scope attributes;
    add_attributes(op, scope, attributes);
    if (layer.takes_head) {
      add_attributes(head_->linear(), scope, attributes);
      attributes.values["softcap"] = integer_value(head_->has_cap() ? 1 : 0);
    }
    Place within = place;
    within.name_prefix += op.name + ".";
    within.module = joined_module(place.module, op.module);
    within.activation = builder_.tensor(inside.find(layer.inputs[0])).data_type;
    HeldNames held;
    hold_arguments(op, names, held);
    for (std::size_t i = 0; i + 1 < layer.ops.size(); ++i) {
      add_plain_op(layer.ops[i], layer.ops[i].name, attributes, inside, within);
      hold_names(layer.ops[i], inside, held);
    }
    within.name_prefix = place.name_prefix;
    const FamilyOp& last = layer.ops.back();
    layer_takes_head_ = layer.takes_head;
    add_plain_op(last, op.name, attributes, inside, within);
    layer_takes_head_ = false;
    hold_names(last, inside, held);
    end_scope(kModuleScope, held);
    const TensorId output = inside.find(last.name);
    check_layer_output(layer, op, scope, names, output);
    name_output(op, output, names);
    if (op.is_logits) builder_.mark_logits(output);
  }

  // A layer may spell an op out as it likes, but must make what the op makes.
  void check_layer_output(const Layer& layer, const FamilyOp& op, const Scope& scope,
                          const TensorNames& names, TensorId output) const {
    OpRequest request{.name = op.name,
                      .kind = op.kind,
                      .attributes = evaluate_attributes(op, scope, named_types({}))};
    for (const std::string& input : op.inputs) request.inputs.push_back(names.find(input));
    const Shape expected = builder_.output_shape(request);
    const Shape& made = builder_.tensor(output).shape;
    if (made == expected) return;
    fail_at(*op.document, op.position,
            fmt::format("op '{}': a {} makes {}, but layer '{}' makes {}", op.name, op.kind->name,
                        shape_text(expected), layer.name, shape_text(made)));
  }

  void add_plain_op(const FamilyOp& op, const std::string& name, const Scope& scope,
                    TensorNames& names, const Place& place) {
    count_op();
    if (passes_through(op, scope, names)) return;
    OpRequest request{.name = place.name_prefix + name,
                      .kind = op.kind,
                      .attributes = evaluate_attributes(op, scope, named_types(place)),
                      .module = joined_module(place.module, op.module),
                      .block = place.block,
                      .autocast = op.autocast};
    for (const std::string& input : op.inputs) request.inputs.push_back(names.find(input));
    if (is_identity(op, request.attributes, request.inputs[0])) {
      check_output_names(op, 1);
      name_output(op, request.inputs[0], names);
      return;
    }
    share_weight(op, scope, place, request);
    if (layer_takes_head_ && op.kind->parameters != nullptr) {
      give_head(request_.dims, place, request);
    }
    const std::vector<TensorId> outputs = add_op(op, request);
    if (op.is_logits) builder_.mark_logits(outputs[0]);
    if (op.output_names.empty()) {
      names.set(op.name, outputs[0]);
      return;
    }
    check_output_names(op, outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      names.set(op.output_names[i], outputs[i]);
    }
  }

  void share_weight(const FamilyOp& op, const Scope& scope, const Place& place,
                    OpRequest& request) const {
    if (!op.shared_weight) return;
    const SharedWeight& shared = *op.shared_weight;
    if (shared.condition && !holds(*shared.condition, scope)) return;
    TensorId weight = builder_.find(place.name_prefix + shared.op_name + ".weight");
    if (weight == kNoTensor) weight = builder_.find(shared.op_name + ".weight");
    if (weight == kNoTensor) {
      fail_at(*op.document, op.position,
              fmt::format("op '{}': no op '{}' before it has a weight to share", op.name,
                          shared.op_name));
    }
    request.shared_parameters.emplace_back("weight", weight);
  }

  std::vector<TensorId> add_op(const FamilyOp& op, const OpRequest& request) {
    return with_place(*op.document, op.position, [&] { return builder_.add_op(request); });
  }

  const InstantiateRequest& request_;
  std::map<std::string, std::string> choices_ = {};
  std::map<std::string, const Layer*> layers_ = {};  // by op kind or composite
  std::optional<HeadInLoss> head_ = {};              // of a loss that takes it
  bool layer_takes_head_ = false;                    // the one whose last op is being added
  GraphBuilder builder_;
  HeldNames block_held_ = {};  // until the repeated block in work ends; outside of one, forward
  HeldNames forward_held_ = {};
  std::int32_t next_block_ = 0;
  std::size_t op_count_ = 0;
};

}  // namespace

Graph instantiate(const InstantiateRequest& request) {
  Graph graph = Instantiation(request).run();
  const Recipe& recipe = request.recipe;
  if (recipe.freeze.empty() && recipe.train_only.empty()) return graph;
  // Which parameters there are, and what all ops that share one call it, is known only now.
  return Instantiation(request, frozen_parameters(graph, recipe)).run();
}

}  // namespace cairn
