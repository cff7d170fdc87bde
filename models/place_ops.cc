#include "models/place_ops.h"

#include <fmt/format.h>

#include <utility>

#include "graph/ops/shapes.h"
#include "models/family_ops.h"
#include "models/implementations.h"
#include "models/layer_use.h"
#include "models/quantization.h"
#include "models/requirements.h"

namespace cairn {
namespace {

std::string joined_module(const std::string& outer, const std::string& inner) {
  if (outer.empty() || inner.empty()) return outer + inner;
  return outer + "." + inner;
}

LinearLayer linear_layer(const FamilyOp& op, const Place& place) {
  LinearLayer linear{.module = joined_module(place.module, op.module), .is_head = op.is_logits};
  for (const auto& [name, width] : op.fused) linear.parts.push_back(name);
  return linear;
}

// What is handed to a call is held until it returns.
void hold_arguments(const FamilyOp& op, const TensorNames& names, HeldNames& held) {
  for (const std::string& input : op.inputs) held.hold(names.find(input), kModuleScope);
}

// What later ops find under the names of an op that makes one tensor.
void name_output(const FamilyOp& op, TensorId output, TensorNames& names) {
  names.set(op.output_names.empty() ? op.name : op.output_names[0], output);
}

}  // namespace

OpPlacing::OpPlacing(const InstantiateRequest& request, GraphBuilder& builder)
    : request_(request),
      builder_(builder),
      choices_(implementation_choices(request.family, request.layers, request.recipe)),
      layers_(chosen_layers(request.family, request.layers, choices_)),
      linear_layers_(request.recipe, request.family, request.layers) {
  const FamilyOp& loss = request.family.items.back().op;
  const Layer* const layer = layer_for(loss, {});
  if (layer != nullptr && layer->takes_head) head_.emplace(loss, choices_.at("loss"));
}

void OpPlacing::fail_with_place(const Document& source, Position position,
                                const std::string& message) const {
  throw InputError(fmt::format("{}: {}\n  at {}:{}:{}", request_.model_name, message,
                               source.file_name, position.line, position.column));
}

NamedTypes OpPlacing::named_types(const Place& place) const {
  const Precision& precision = request_.recipe.precision;
  return {.activation = place.activation.value_or(precision.parameter_type),
          .parameter = precision.parameter_type,
          .compute = compute_type(precision),
          .adapter = place.adapter.value_or(precision.parameter_type),
          .quantized = quantized_compute_type(request_.recipe)};
}

void OpPlacing::end_scope(std::string_view scope, const HeldNames& held) {
  if (builder_.op_count() == 0) return;
  for (const TensorId tensor : held.held_until(scope)) {
    builder_.hold_until(tensor, static_cast<OpId>(builder_.op_count() - 1));
  }
}

void OpPlacing::begin_block(TensorId carried) {
  outside_block_held_ = std::move(block_held_);
  block_held_ = {};
  block_held_.hold(carried, kBlockScope);  // an argument of the block's call
}

void OpPlacing::end_block() {
  end_scope(kBlockScope, block_held_);
  block_held_ = std::move(outside_block_held_);
}

void OpPlacing::end_forward() {
  end_scope(kBlockScope, block_held_);
  end_scope(kForwardScope, forward_held_);
}

// Behind the op, and what spells it out: the scopes that end there, and what its names hold.
void OpPlacing::hold_names(const FamilyOp& op, const TensorNames& names, HeldNames& held) {
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

// Ops that pass their input through count too: a repeated block may have nothing else.
void OpPlacing::count_op() {
  if (++op_count_ > kMostOps) {
    throw InputError(fmt::format("{}: more than {} ops", request_.model_name, kMostOps));
  }
}

// Ops that PyTorch leaves out: they hand their input on.
bool OpPlacing::is_identity(const FamilyOp& op, const OpAttributes& attributes,
                            TensorId input) const {
  if (op.kind->name == "dropout") return attributes.probability == 0.0;
  if (op.kind->name == "cast") return builder_.tensor(input).data_type == *attributes.data_type;
  if (op.kind->name == "repeat_kv") return attributes.heads == attributes.kv_heads;
  return false;
}

// What stands for this op: the layer file that spells it out, or nullptr for the kind's own kernel;
// or a composite.
const Layer* OpPlacing::layer_for(const FamilyOp& op, const Place& place) {
  if (op.kind == nullptr) {
    const auto chosen = layers_.find(op.layer_name);
    return chosen != layers_.end() ? chosen->second : &request_.layers.at(op.layer_name);
  }
  if (op.kind->name == "linear" && !op.is_bare) {
    const Layer* const layer = linear_layers_.layer_for(linear_layer(op, place));
    if (layer != nullptr) return layer;
  }
  const auto chosen = layers_.find(std::string(op.kind->name));
  return chosen != layers_.end() ? chosen->second : nullptr;
}

// Whether the op is no op of its own, but part of a loss; its name stands for its input then.
bool OpPlacing::is_part_of_loss(const FamilyOp& op, const Scope& scope, TensorNames& names) {
  if (!head_) return false;
  const bool is_left_out = op.condition && !holds(*op.condition, scope);
  const TensorId input = names.find(op.inputs[0]);
  if (!head_->takes(op, input, is_left_out)) return false;
  name_output(op, input, names);
  return true;
}

void OpPlacing::add_family_op(const FamilyOp& op, const Scope& scope, TensorNames& names,
                              const Place& place, HeldNames& held) {
  if (is_part_of_loss(op, scope, names)) return;
  place_op(op, scope, names, place, held);
  if (op.is_input_embeddings && request_.recipe.input_require_grads) make_leaf(op, names, place);
  hold_names(op, names, held);
}

void OpPlacing::place_op(const FamilyOp& op, const Scope& scope, TensorNames& names,
                         const Place& place, HeldNames& held) {
  check_fused_parts(op, scope);
  if (passes_through(op, scope, names)) {  // before any adapter is looked for
    count_op();
    return;
  }
  const Layer* const layer = layer_for(op, place);
  if (layer == nullptr) {
    add_plain_op(op, op.name, scope, names, place);
    return;
  }
  count_op();
  if (op.kind != nullptr) {
    add_layer(*layer, op, op.name, scope, names, place);
  } else {
    add_composite(*layer, op, scope, names, place, held);
  }
}

// Where an op's condition is false its name stands for its first input.
bool OpPlacing::passes_through(const FamilyOp& op, const Scope& scope, TensorNames& names) const {
  if (!op.condition || holds(*op.condition, scope)) return false;
  name_output(op, names.find(op.inputs[0]), names);
  return true;
}

// The ops of a composite, each named below the op: "layers.0.mlp.gate".
void OpPlacing::add_composite(const Layer& layer, const FamilyOp& op, const Scope& scope,
                              TensorNames& names, const Place& place, HeldNames& outer_held) {
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
void OpPlacing::give_head(const Scope& scope, const Place& place, OpRequest& request) const {
  const FamilyOp& linear = head_->linear();
  request.parameters_of = linear.name;
  request.module = linear.module;
  request.is_logits = true;
  share_weight(linear, scope, place, request);
}

// Of a loss that takes the head, what stands for a linear layer in it.
const Layer* OpPlacing::head_layer_in_loss(const FamilyOp& op) const {
  if (!layer_takes_head_ || op.kind->name != "linear") return nullptr;
  return linear_layers_.base_layer_for({.module = head_->linear().module, .is_head = true});
}

// One op of a layer file. The base of an adapter may have a layer of its own, and the head.
void OpPlacing::add_layer_op(const FamilyOp& op, const std::string& name, const Scope& attributes,
                             TensorNames& names, const Place& place, bool is_head) {
  const Layer* const base =
      op.is_base ? linear_layers_.base_layer_for({.module = place.module, .is_head = is_head})
                 : head_layer_in_loss(op);
  if (base == nullptr) {
    add_plain_op(op, name, attributes, names, place);
  } else {
    add_layer(*base, op, name, attributes, names, place);
  }
}

// All ops of a layer file but the last.
void OpPlacing::add_layer_ops(const Layer& layer, const FamilyOp& op, const Scope& attributes,
                              TensorNames& names, const Place& place, HeldNames& held) {
  std::size_t i = 0;
  while (i + 1 < layer.ops.size()) {
    if (!layer.ops[i].each.empty()) {
      i = add_items(layer, i, attributes, names, place, held);
      continue;
    }
    add_layer_op(layer.ops[i], layer.ops[i].name, attributes, names, place, op.is_logits);
    hold_names(layer.ops[i], names, held);
    ++i;
  }
}

// Spells an op out in the ops of a layer file; the last of them takes the name.
void OpPlacing::add_layer(const Layer& layer, const FamilyOp& op, const std::string& name,
                          const Scope& scope, TensorNames& names, const Place& place) {
  check_layer_use(layer, op);
  TensorNames inside = layer_inputs(layer, op, names);
  Scope attributes = layer_scope(layer, op, scope, place);
  add_attention_factor(op, names, attributes);
  Place within = place;
  within.name_prefix += name + ".";
  within.module = joined_module(place.module, op.module);
  within.activation = builder_.tensor(inside.find(layer.inputs[0])).data_type;
  if (const auto type = adapter_type(layer)) {
    within.adapter = type;
    OpRequest shared;
    share_weight(op, scope, place, shared);
    base_parameters_ = std::move(shared.shared_parameters);
  }
  HeldNames held;
  if (!layer.is_inline) hold_arguments(op, names, held);
  const bool is_in_loss = layer_takes_head_;
  layer_takes_head_ = is_in_loss || layer.takes_head;
  add_layer_ops(layer, op, attributes, inside, within, held);
  within.name_prefix = place.name_prefix;
  const FamilyOp& last = layer.ops.back();
  add_layer_op(last, name, attributes, inside, within, op.is_logits);
  layer_takes_head_ = is_in_loss;
  hold_names(last, inside, held);
  end_scope(kModuleScope, held);
  const TensorId output = inside.find(last.name);
  check_layer_output(layer, op, scope, names, output);
  name_output(op, output, names);
  if (op.is_logits) builder_.mark_logits(output);
}

// Of an adapter's layer the type of its weights: what the recipe asks for, or the library's own.
std::optional<DataType> OpPlacing::adapter_type(const Layer& layer) const {
  if (layer.adapter_type.empty()) return std::nullopt;
  const std::optional<Adapters>& adapters = request_.recipe.adapters;
  if (adapters && adapters->data_type) return adapters->data_type;
  return named_data_type(layer.adapter_type, named_types({}));
}

// What the ops of a layer file see: the attributes of the op that it spells out, and of the head
// that a loss has in itself, or of the adapter.
Scope OpPlacing::layer_scope(const Layer& layer, const FamilyOp& op, const Scope& scope,
                             const Place& place) {
  Scope attributes;
  add_attributes(op, scope, attributes);
  if (layer.takes_head) {
    add_attributes(head_->linear(), scope, attributes);
    attributes.values["softcap"] = cap_of_head(scope);
    const Shape& input = builder_.tensor(head_->input()).shape;
    if (input.size() == 3) attributes.values["tokens"] = integer_value(input[1]);
  }
  add_recipe_values(request_.recipe, attributes);
  if (!layer.adapter_type.empty() && !op.fused.empty()) {
    add_fused_parts(op, scope, linear_layers_.adapted_parts(linear_layer(op, place)), attributes);
  }
  return attributes;
}

// A layer may spell an op out as it likes, but must make what the op makes.
void OpPlacing::check_layer_output(const Layer& layer, const FamilyOp& op, const Scope& scope,
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

void OpPlacing::add_plain_op(const FamilyOp& op, const std::string& name, const Scope& scope,
                             TensorNames& names, const Place& place) {
  count_op();
  if (passes_through(op, scope, names)) return;
  OpRequest request{.name = place.name_prefix + name,
                    .kind = op.kind,
                    .attributes = evaluate_attributes(op, scope, named_types(place)),
                    .module = joined_module(place.module, op.module),
                    .block = place.block,
                    .autocast = op.autocast};
  request.inputs = input_tensors(op, names, place);
  if (!op.type_of.empty()) {
    request.attributes.data_type = builder_.tensor(names.find(op.type_of)).data_type;
  }
  if (is_identity(op, request.attributes, request.inputs[0])) {
    check_output_names(op, 1);
    name_output(op, request.inputs[0], names);
    return;
  }
  share_weight(op, scope, place, request, place.adapter ? &names : nullptr);
  if (op.is_base) request.shared_parameters = base_parameters_;
  if (op.has_adapter_weights) {
    request.parameter_type = place.adapter;
    request.is_trained = true;
  }
  if (layer_takes_head_ && op.kind->parameters != nullptr) {
    give_head(request_.dims, place, request);
  }
  if (op.kind->parameters != nullptr) {
    request.has_trained_copy = linear_layers_.is_trained(request.module);
  }
  const std::vector<TensorId> outputs =
      with_place(*op.document, op.position, [&] { return builder_.add_op(request); });
  if (op.is_logits) builder_.mark_logits(outputs[0]);
  check_output_names(op, outputs.size());
  name_outputs(op, outputs, names);
}

void OpPlacing::share_weight(const FamilyOp& op, const Scope& scope, const Place& place,
                             OpRequest& request, const TensorNames* names) const {
  if (!op.shared_weight) return;
  const SharedWeight& shared = *op.shared_weight;
  if (shared.condition && !holds(*shared.condition, scope)) return;
  TensorId weight = builder_.find(place.name_prefix + shared.op_name + ".weight");
  if (weight == kNoTensor) weight = builder_.find(shared.op_name + ".weight");
  if (weight == kNoTensor && names != nullptr) weight = names->find(shared.op_name);
  if (weight == kNoTensor) {
    fail_at(*op.document, op.position,
            fmt::format("op '{}': no op '{}' before it has a weight to share", op.name,
                        shared.op_name));
  }
  request.shared_parameters.emplace_back("weight", weight);
}

}  // namespace cairn
