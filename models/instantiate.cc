#include "models/instantiate.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "graph/error.h"
#include "graph/graph_builder.h"
#include "graph/ops/shapes.h"
#include "models/family_values.h"
#include "models/optimizer.h"
#include "models/place_ops.h"
#include "models/requirements.h"
#include "models/tensor_names.h"
#include "models/trainable.h"

namespace cairn {
namespace {

constexpr std::int64_t kMostBlocks = 100'000;

class Instantiation {
 public:
  // `frozen` are names of parameters that are not trained.
  explicit Instantiation(const InstantiateRequest& request,
                         std::unordered_set<std::string> frozen = {})
      : request_(request),
        builder_(request.model_name, request.recipe.precision, optimizer_rule(request.recipe)),
        placing_(request, builder_) {
    builder_.freeze(std::move(frozen));
    builder_.set_trainable(!request.recipe.adapters);
  }

  Graph run() {
    check_requirements();
    const FamilyOp& loss = request_.family.items.back().op;
    TensorNames names;
    add_inputs(names);
    HeldNames held;
    for (const FamilyItem& item : request_.family.items) {
      if (item.block_ops.empty()) {
        placing_.add_family_op(item.op, request_.dims, names, {}, held);
      } else {
        add_blocks(item, names);
        placing_.end_scope(item.block_name, held);
      }
    }
    placing_.end_scope(kModuleScope, held);
    placing_.end_forward();
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
    Graph graph = builder_.build(made);
    placing_.check_adapters(graph);
    return graph;
  }

 private:
  const Document& document() const { return *request_.family.document; }

  void check_requirements() const {
    const auto unmet = unmet_requirement(request_.family.requirements, request_.dims);
    if (unmet) throw InputError(fmt::format("{}: {}", request_.model_name, unmet->text));
  }

  void add_inputs(TensorNames& names) {
    for (const FamilyInput& input : request_.family.inputs) {
      Shape shape;
      for (const PlacedExpression& extent : input.shape) {
        shape.push_back(integer(extent, request_.dims));
      }
      names.set(input.name, placing_.with_place(*input.document, input.position, [&] {
        const DataType type = named_data_type(input.data_type, placing_.named_types({}));
        return input.is_learned ? builder_.add_parameter(input.name, type, shape, true)
                                : builder_.add_input(input.name, type, shape, false);
      }));
    }
  }

  void add_blocks(const FamilyItem& item, TensorNames& names) {
    const std::int64_t count = integer(item.count, request_.dims);
    if (count < 0 || count > kMostBlocks) {
      placing_.fail_with_place(*item.count.document, item.count.node->position,
                               fmt::format("'{}' is {}: expected 0 to {} repeated blocks",
                                           item.count.expression.text, count, kMostBlocks));
    }
    if (static_cast<std::size_t>(count) * item.block_ops.size() > kMostOps) {
      placing_.fail_with_place(
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
      placing_.begin_block(carried);
      for (const FamilyOp& op : item.block_ops)
        placing_.add_family_op(op, scope, inside, place, held);
      placing_.end_scope(kModuleScope, held);
      placing_.end_block();
      carried = inside.find(item.carry_name);
      if (i == 0) {  // the others are most often as large
        const auto left = static_cast<std::size_t>(count - 1);
        builder_.reserve(std::min(left * (builder_.op_count() - ops_before), kMostOps),
                         std::min(left * (builder_.tensor_count() - tensors_before), kMostOps));
      }
    }
    names.set(item.carry_name, carried);
  }

  const InstantiateRequest& request_;
  GraphBuilder builder_;
  OpPlacing placing_;
  std::int32_t next_block_ = 0;
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
