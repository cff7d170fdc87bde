#include "graph/graph_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/checked.h"
#include "graph/error.h"
#include "graph/in_place.h"
#include "graph/plan.h"

namespace cairn {
namespace {

// A split into thousands of parts, repeated, would fill memory before the number of ops is absurd.
constexpr std::size_t kMostTensors = 500'000;

// A kind that states no moved bytes reads all it reads and writes all it writes, once.
void default_moved_bytes(const Graph& graph, Op& op) {
  std::int64_t made = 0;
  std::int64_t read = 0;
  std::int64_t gradients = 0;
  const auto add = [&op](std::int64_t& sum, std::int64_t bytes) {
    sum = checked_add(sum, bytes, "op '{}': bytes it moves", op.name);
  };
  for (const TensorId id : op.inputs) {
    add(read, graph.tensor(id).bytes);
    if (graph.tensor(id).requires_grad) add(gradients, graph.tensor(id).bytes);
  }
  for (const TensorId id : op.outputs) {
    if (is_view(graph, id)) continue;
    add(made, graph.tensor(id).bytes);
    if (is_floating(graph.tensor(id).data_type)) add(gradients, graph.tensor(id).bytes);
  }
  for (const TensorId id : op.auxiliaries) add(made, graph.tensor(id).bytes);
  if (op.forward.moved_bytes == 0 && made > 0) {
    add(op.forward.moved_bytes, read);
    add(op.forward.moved_bytes, made);
  }
  if (op.backward.moved_bytes == 0 && made > 0) {
    add(op.backward.moved_bytes, gradients);
    for (const TensorId id : op.saved) add(op.backward.moved_bytes, graph.tensor(id).bytes);
  }
}

void check_input_count(const OpRequest& request) {
  const OpKindInfo& kind = *request.kind;
  if (request.inputs.size() >= kind.min_inputs && request.inputs.size() <= kind.max_inputs) return;
  const std::string expected = kind.min_inputs == kind.max_inputs
                                   ? fmt::format("{}", kind.min_inputs)
                                   : fmt::format("{} to {}", kind.min_inputs, kind.max_inputs);
  throw InputError(fmt::format("op '{}': a {} takes {} input{}, found {}", request.name, kind.name,
                               expected, expected == "1" ? "" : "s", request.inputs.size()));
}

// Ids and labels are integers; everything else that ops compute on is floating point.
void check_input_types(const Graph& graph, const OpRequest& request) {
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const Tensor& input = graph.tensor(request.inputs[i]);
    const std::vector<std::size_t>& integers = request.kind->integer_inputs;
    const bool wants_integer = std::find(integers.begin(), integers.end(), i) != integers.end();
    if (is_floating(input.data_type) != wants_integer) continue;
    throw InputError(fmt::format("op '{}': a {} takes {} as input {}, found '{}' of {}",
                                 request.name, request.kind->name,
                                 wants_integer ? "integers" : "floating-point numbers", i + 1,
                                 input.name, data_type_name(input.data_type)));
  }
}

// Marks what has a gradient: requires one, and the loss depends on it. An op without a Backward
// keeps nothing: its part of autograd's graph is gone with its output.
void derive_gradients(Graph& graph) {
  graph.tensors[index(graph.loss)].has_gradient = graph.tensor(graph.loss).requires_grad;
  for (std::size_t i = graph.ops.size(); i-- > 0;) {
    Op& op = graph.ops[i];
    op.has_backward = std::any_of(op.outputs.begin(), op.outputs.end(),
                                  [&](TensorId id) { return graph.tensor(id).has_gradient; });
    if (!op.has_backward) {
      const bool is_recorded = std::any_of(op.outputs.begin(), op.outputs.end(), [&](TensorId id) {
        return graph.tensor(id).requires_grad;
      });
      if (is_recorded) op.unread_saved = std::move(op.saved);
      op.saved.clear();
      continue;
    }
    for (const TensorId id : op.inputs) {
      Tensor& input = graph.tensors[index(id)];
      input.has_gradient = input.requires_grad;
    }
  }
}

}  // namespace

void GraphBuilder::check_readable(const std::string& op_name,
                                  const std::vector<TensorId>& inputs) const {
  for (const TensorId input : inputs) {
    if (graph_.tensor(input).role != TensorRole::kAuxiliary) continue;
    throw InputError(fmt::format(
        "op '{}': it reads '{}', an auxiliary of op '{}', which only that "
        "op's own Backward reads",
        op_name, graph_.tensor(input).name, graph_.op(graph_.tensor(input).producer).name));
  }
}

GraphBuilder::GraphBuilder(std::string name, Precision precision, const OptimizerRule& optimizer)
    : precision_(precision),
      optimizer_(optimizer),
      tensors_by_name_(name_index<TensorId>(graph_)),
      ops_by_name_(name_index<OpId>(graph_)) {
  graph_.name = std::move(name);
}

TensorId GraphBuilder::add_tensor(Tensor tensor, TensorId view_of) {
  const auto id = static_cast<TensorId>(graph_.tensors.size());
  if (graph_.tensors.size() == kMostTensors) {
    throw InputError(fmt::format("graph '{}': more than {} tensors", graph_.name, kMostTensors));
  }
  if (tensor.bytes < 0) {
    throw InputError(fmt::format("tensor '{}': expected zero bytes or more, found {}", tensor.name,
                                 tensor.bytes));
  }
  if (view_of != kNoTensor) {
    const std::int64_t storage_bytes = graph_.storage(graph_.tensor(view_of).storage).bytes;
    if (tensor.bytes > storage_bytes) {
      throw InputError(
          fmt::format("tensor '{}': a view of {} bytes does not fit in the {} bytes of "
                      "'{}'",
                      tensor.name, tensor.bytes, storage_bytes, graph_.tensor(view_of).name));
    }
  }
  if (tensors_by_name_.contains(std::string_view(tensor.name))) {
    throw InputError(fmt::format("tensor '{}': the name is used twice", tensor.name));
  }
  if (view_of == kNoTensor) {
    tensor.storage = static_cast<StorageId>(graph_.storages.size());
    graph_.storages.push_back({.bytes = tensor.bytes, .owner = id});
  } else {
    tensor.storage = graph_.tensor(view_of).storage;
    tensor.is_logits = graph_.tensor(view_of).is_logits;
  }
  graph_.tensors.push_back(std::move(tensor));
  tensors_by_name_.insert(id);
  return id;
}

TensorId GraphBuilder::add_input(const std::string& name, DataType type, Shape shape,
                                 bool requires_grad) {
  const std::int64_t bytes = tensor_bytes(type, shape, name);
  return add_tensor({.name = name,
                     .data_type = type,
                     .shape = std::move(shape),
                     .bytes = bytes,
                     .role = TensorRole::kInput,
                     .requires_grad = requires_grad},
                    kNoTensor);
}

TensorId GraphBuilder::add_input_bytes(const std::string& name, std::int64_t bytes,
                                       bool requires_grad) {
  return add_tensor(
      {.name = name, .bytes = bytes, .role = TensorRole::kInput, .requires_grad = requires_grad},
      kNoTensor);
}

TensorId GraphBuilder::find(std::string_view name) const {
  const auto found = tensors_by_name_.find(name);
  return found == tensors_by_name_.end() ? kNoTensor : *found;
}

OpId GraphBuilder::find_op(std::string_view name) const {
  const auto found = ops_by_name_.find(name);
  return found == ops_by_name_.end() ? kNoOp : *found;
}

void GraphBuilder::hold_until(TensorId tensor, OpId last_op) {
  CAIRN_CHECK(index(last_op) < graph_.ops.size(), "a scope ends with an op of the graph");
  Tensor& held = graph_.tensors[index(tensor)];
  if (held.producer == kNoOp) return;
  if (held.role == TensorRole::kAuxiliary) {
    throw InputError(fmt::format(
        "tensor '{}': an auxiliary, which only its op's own Backward reads, cannot be held until "
        "op '{}'",
        held.name, graph_.op(last_op).name));
  }
  if (last_op < held.producer) {
    throw InputError(
        fmt::format("tensor '{}': it cannot be held until op '{}', which comes before "
                    "it is made",
                    held.name, graph_.op(last_op).name));
  }
  if (held.held_until == kNoOp || held.held_until < last_op) held.held_until = last_op;
}

void GraphBuilder::reserve(std::size_t op_count, std::size_t tensor_count) {
  op_count += graph_.ops.size();
  tensor_count += graph_.tensors.size();
  graph_.ops.reserve(op_count);
  graph_.tensors.reserve(tensor_count);
  graph_.storages.reserve(tensor_count);
  ops_by_name_.reserve(op_count);
  tensors_by_name_.reserve(tensor_count);
}

void GraphBuilder::mark_logits(TensorId tensor) { graph_.tensors[index(tensor)].is_logits = true; }

void GraphBuilder::finish_op(Op op) {
  const auto id = static_cast<OpId>(graph_.ops.size());
  if (ops_by_name_.contains(std::string_view(op.name))) {
    throw InputError(fmt::format("op '{}': the name is used twice", op.name));
  }
  default_moved_bytes(graph_, op);
  graph_.block_count = std::max(graph_.block_count, op.block + 1);
  graph_.ops.push_back(std::move(op));
  ops_by_name_.insert(id);
}

void GraphBuilder::add_sketches(const OpDerivation& derivation, Op& op) {
  const auto id = static_cast<OpId>(graph_.ops.size());
  const bool reads_gradient = std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) {
    return graph_.tensor(input).requires_grad;
  });
  const bool requires_grad = op.kind->makes_leaf || (reads_gradient && !op.kind->is_detached);
  const bool is_logits = std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) {
    return graph_.tensor(input).is_logits;
  });
  const auto add = [&](const TensorSketch& sketch, TensorRole role, bool has_suffix) {
    const std::string name = has_suffix ? op.name + "." + sketch.suffix : op.name;
    return add_tensor({.name = name,
                       .data_type = sketch.data_type,
                       .shape = sketch.shape,
                       .bytes = tensor_bytes(sketch.data_type, sketch.shape, name),
                       .role = role,
                       .producer = id,
                       .requires_grad = role == TensorRole::kOutput && requires_grad &&
                                        is_floating(sketch.data_type),
                       .is_logits = is_logits},
                      sketch.view_of_input ? op.inputs[*sketch.view_of_input] : kNoTensor);
  };
  for (const TensorSketch& sketch : derivation.outputs) {
    op.outputs.push_back(add(sketch, TensorRole::kOutput, derivation.outputs.size() > 1));
  }
  for (const TensorSketch& sketch : derivation.auxiliaries) {
    op.auxiliaries.push_back(add(sketch, TensorRole::kAuxiliary, true));
  }
}

std::vector<const Tensor*> GraphBuilder::tensors_of(const std::vector<TensorId>& ids) const {
  std::vector<const Tensor*> tensors;
  for (const TensorId id : ids) tensors.push_back(&graph_.tensor(id));
  return tensors;
}

// What the kind derived, as the op's own tensors and numbers.
void GraphBuilder::apply(const OpDerivation& derivation, Op& op) {
  add_sketches(derivation, op);
  for (const std::size_t i : derivation.saved.inputs) op.saved.push_back(op.inputs[i]);
  for (const std::size_t i : derivation.saved.outputs) op.saved.push_back(op.outputs[i]);
  for (const std::size_t i : derivation.saved.auxiliaries) op.saved.push_back(op.auxiliaries[i]);
  std::sort(op.saved.begin(), op.saved.end());
  op.saved.erase(std::unique(op.saved.begin(), op.saved.end()), op.saved.end());
  op.gradient_aliases.assign(op.inputs.size(), false);
  for (const std::size_t i : derivation.gradient_alias_inputs) op.gradient_aliases[i] = true;
  op.gradient_places.assign(op.inputs.size(), kNoTensor);
  for (const GradientPlace& place : derivation.gradient_places) {
    op.gradient_places[place.input] =
        place.auxiliary ? op.auxiliaries[*place.auxiliary] : op.inputs[place.input];
  }
  op.gradient_views.assign(op.inputs.size(), false);
  for (const std::size_t i : derivation.gradient_view_inputs) op.gradient_views[i] = true;
  op.workspace_bytes = derivation.workspace_bytes;
  op.backward_workspace_bytes = derivation.backward_workspace_bytes;
  op.sweep_workspace_bytes = derivation.sweep_workspace_bytes;
  op.forward = derivation.forward;
  op.backward = derivation.backward;
  op.recompute = derivation.recompute;
  op.side_effect = derivation.side_effect;
  op.in_place = derivation.in_place;
}

Shape GraphBuilder::output_shape(const OpRequest& request) const {
  check_input_count(request);
  const std::vector<const Tensor*> inputs = tensors_of(request.inputs);
  std::vector<Tensor> parameters;
  if (request.kind->parameters != nullptr) {
    const std::vector<const Tensor*> none;
    for (const TensorSketch& sketch :
         request.kind->parameters({request.name, request.attributes, inputs, none})) {
      parameters.push_back({.data_type = precision_.parameter_type, .shape = sketch.shape});
    }
  }
  std::vector<const Tensor*> parameter_pointers;
  for (const Tensor& parameter : parameters) parameter_pointers.push_back(&parameter);
  return request.kind->derive({request.name, request.attributes, inputs, parameter_pointers})
      .outputs[0]
      .shape;
}

std::vector<TensorId> GraphBuilder::add_op(const OpRequest& asked) {
  OpRequest request = asked;
  CAIRN_CHECK(request.kind != nullptr && request.kind->derive != nullptr, request.name);
  check_input_count(request);
  check_readable(request.name, request.inputs);
  check_input_types(graph_, request);
  std::vector<TensorId> parameter_ids = add_parameters(request);
  if (request.has_trained_copy) copy_parameters(request, parameter_ids);
  cast_reads(request, parameter_ids);
  Op op{.name = request.name,
        .module = request.module,
        .kind = request.kind,
        .attributes = request.attributes,
        .block = request.block,
        .inputs = request.inputs};
  op.inputs.insert(op.inputs.end(), parameter_ids.begin(), parameter_ids.end());
  const std::vector<const Tensor*> inputs = tensors_of(request.inputs);
  const std::vector<const Tensor*> parameters = tensors_of(parameter_ids);
  apply(request.kind->derive({request.name, request.attributes, inputs, parameters}), op);
  if (request.is_logits) {
    for (const auto* const made : {&op.outputs, &op.auxiliaries}) {
      for (const TensorId tensor : *made) mark_logits(tensor);
    }
  }
  std::vector<TensorId> outputs = op.outputs;
  finish_op(std::move(op));
  // What was cast for the op is an argument of the call, which holds it.
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    if (request.inputs[i] == asked.inputs[i]) continue;
    hold_until(asked.inputs[i], static_cast<OpId>(graph_.ops.size() - 1));
  }
  return outputs;
}

Graph GraphBuilder::build(TensorId loss) {
  if (graph_.ops.empty()) throw InputError(fmt::format("graph '{}' has no ops", graph_.name));
  CAIRN_CHECK(index(loss) < graph_.tensors.size(), "the loss must be a tensor of the graph");
  graph_.loss = loss;
  if (graph_.tensor(loss).producer == kNoOp) {
    throw InputError(fmt::format("the loss '{}' is not made by any op", graph_.tensor(loss).name));
  }
  if (graph_.tensor(loss).role == TensorRole::kAuxiliary) {
    throw InputError(fmt::format("the loss '{}' is an auxiliary, which only a Backward reads",
                                 graph_.tensor(loss).name));
  }
  hold_cached_casts();
  derive_gradients(graph_);
  add_optimizer_bytes();
  check_in_place(graph_, keep_all_plan(graph_).order);
  check_gradient_places(graph_);
  return std::move(graph_);
}

}  // namespace cairn
