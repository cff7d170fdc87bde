#include "models/plain_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "graph/checked.h"
#include "graph/dag.h"
#include "graph/error.h"
#include "graph/graph_builder.h"
#include "models/fields.h"

namespace cairn {
namespace {

constexpr std::int64_t kFormatVersion = 1;
constexpr std::size_t kMostOps = 250'000;
constexpr std::size_t kMostOfOneOp = 4096;  // inputs, outputs, ... each
constexpr std::size_t kLongestName = 1000;
constexpr std::size_t kMostShownOfCycle = 8;

// Errors of the builder get the place of what was being read.
template <typename Action>
auto with_place(const Document& document, Position position, Action action) {
  try {
    return action();
  } catch (const InputError& error) {
    fail_at(document, position, error.what());
  }
}

class PlainGraphReader {
 public:
  PlainGraphReader(const Document& document, const OptimizerRule& optimizer)
      : document_(document), optimizer_(optimizer) {}

  Graph read() {
    Fields root(document_, document_.root, "a plain graph");
    if (const std::int64_t version = root.integer("cairn_graph"); version != kFormatVersion) {
      root.fail_at_key("cairn_graph",
                       fmt::format("expected version {}, found {}", kFormatVersion, version));
    }
    GraphBuilder builder(root.optional_text("name").value_or("graph"), DataType::kFloat32,
                         optimizer_);
    read_inputs(root, builder);
    read_parameters(root, builder);
    const std::vector<Node>& ops = root.list("ops");
    if (ops.empty()) root.fail_at_key("ops", "expected at least one op, found none");
    if (ops.size() > kMostOps) {
      root.fail_at_key("ops", fmt::format("more than {} ops", kMostOps));
    }
    const std::optional<std::string> loss_name = root.optional_text("loss");
    root.refuse_unknown();
    index_producers(ops);
    TensorId loss = kNoTensor;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const std::vector<TensorId> outputs = read_op(ops, i, builder);
      if (i + 1 == ops.size()) loss = outputs[0];
    }
    hold_names(ops, builder);
    if (loss_name) loss = loss_named(root, *loss_name, builder);
    const Node* loss_node = root.find("loss");
    const Position place = loss_node == nullptr ? document_.root.position : loss_node->position;
    return with_place(document_, place, [&] { return builder.build(loss); });
  }

 private:
  // A name is printed in reports and messages as it stands.
  std::string name_of(Fields& fields) const {
    std::string name = fields.text("name");
    if (name.empty()) fields.fail_at_key("name", "expected a name, found an empty text");
    if (name.size() > kLongestName) {
      fields.fail_at_key("name", fmt::format("expected at most {} characters, found {}",
                                             kLongestName, name.size()));
    }
    if (printable(name, kLongestName) != name) {
      fields.fail_at_key("name", "expected printable characters, found " + in_quotes(name));
    }
    return name;
  }

  std::int64_t amount(Fields& fields, std::string_view key) const {
    return checked_amount(fields, key, fields.integer(key));
  }

  std::int64_t optional_amount(Fields& fields, std::string_view key, std::int64_t otherwise) const {
    const std::optional<std::int64_t> value = fields.optional_integer(key);
    return value ? checked_amount(fields, key, *value) : otherwise;
  }

  std::int64_t checked_amount(Fields& fields, std::string_view key, std::int64_t value) const {
    if (value >= 0) return value;
    fields.fail_at_key(key, fmt::format("expected zero or more, found {}", value));
  }

  void read_inputs(Fields& root, GraphBuilder& builder) const {
    const Node* inputs = root.find("inputs");
    if (inputs == nullptr) return;
    for (const Node& item : to_list(document_, *inputs, root.what_of("inputs"))) {
      Fields fields(document_, item, "an input");
      const std::string name = name_of(fields);
      const std::int64_t bytes = amount(fields, "bytes");
      const bool requires_grad = fields.optional_boolean("requires_grad").value_or(false);
      fields.refuse_unknown();
      with_place(document_, item.position,
                 [&] { return builder.add_input_bytes(name, bytes, requires_grad); });
    }
  }

  void read_parameters(Fields& root, GraphBuilder& builder) const {
    const Node* parameters = root.find("parameters");
    if (parameters == nullptr) return;
    for (const Node& item : to_list(document_, *parameters, root.what_of("parameters"))) {
      Fields fields(document_, item, "a parameter");
      const std::string name = name_of(fields);
      const std::int64_t bytes = amount(fields, "bytes");
      const bool trainable = fields.optional_boolean("trainable").value_or(true);
      fields.refuse_unknown();
      with_place(document_, item.position,
                 [&] { return builder.add_parameter_bytes(name, bytes, trainable); });
    }
  }

  // Which op makes each tensor, so that a tensor read too early is told from an unknown one.
  void index_producers(const std::vector<Node>& ops) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
      for (const Entry& entry : ops[i].entries) {
        if (entry.key != "outputs" && entry.key != "auxiliaries") continue;
        for (const Node& made : entry.value.items) {
          for (const Entry& field : made.entries) {
            if (field.key == "name") producer_of_[field.value.scalar] = i;
          }
        }
      }
    }
  }

  std::string op_name(const Node& op) const {
    for (const Entry& entry : op.entries) {
      if (entry.key == "name") return entry.value.scalar;
    }
    return "?";
  }

  // Says why `name` cannot be read by op `reader`: a cycle, a wrong order, or no such tensor.
  [[noreturn]] void fail_unmade(const std::vector<Node>& ops, std::size_t reader, const Node& place,
                                const std::string& name) const {
    const auto producer = producer_of_.find(name);
    const std::string what = fmt::format("op '{}': it reads '{}'", op_name(ops[reader]), name);
    if (producer == producer_of_.end()) {
      std::vector<std::string> known;
      for (const auto& [tensor, op] : producer_of_) known.push_back(tensor);
      fail_at(document_, place.position,
              what + ", which nothing makes" + did_you_mean(name, known));
    }
    std::vector<DagEdge> edges;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      for (const Entry& entry : ops[i].entries) {
        if (entry.key != "inputs") continue;
        for (const Node& input : entry.value.items) {
          const auto made = producer_of_.find(input.scalar);
          if (made != producer_of_.end()) edges.push_back({.before = made->second, .after = i});
        }
      }
    }
    const std::vector<std::size_t> cycle = find_cycle(ops.size(), edges);
    if (cycle.empty()) {
      fail_at(document_, place.position,
              fmt::format("{}, which op '{}' makes later", what, op_name(ops[producer->second])));
    }
    std::string path;
    for (std::size_t i = 0; i < std::min(cycle.size(), kMostShownOfCycle); ++i) {
      path += fmt::format("'{}' -> ", op_name(ops[cycle[i]]));
    }
    if (cycle.size() > kMostShownOfCycle) path += "... -> ";
    fail_at(document_, place.position,
            fmt::format("{}: a cycle of ops: {}'{}'", what, path, op_name(ops[cycle[0]])));
  }

  Cost read_cost(Fields& op, std::string_view key) const {
    const Node* node = op.find(key);
    if (node == nullptr) return {};
    Fields fields(document_, *node, op.what_of(key));
    Cost cost{.flops = optional_amount(fields, "flops", 0)};
    cost.executed_flops = cost.flops;
    cost.is_matmul = cost.flops > 0;
    cost.moved_bytes = optional_amount(fields, "moved_bytes", 0);
    if (fields.find("time_ns") != nullptr) cost.time_ns = amount(fields, "time_ns");
    fields.refuse_unknown();
    return cost;
  }

  // A backward pass that the file does not state costs twice the forward pass.
  static Cost twice(const Cost& forward) {
    Cost cost = forward;
    cost.flops = checked_multiply(forward.flops, 2, "backward FLOPs");
    cost.executed_flops = cost.flops;
    cost.moved_bytes = checked_multiply(forward.moved_bytes, 2, "backward moved bytes");
    if (forward.time_ns) cost.time_ns = checked_multiply(*forward.time_ns, 2, "backward time");
    return cost;
  }

  std::vector<CustomTensor> read_made(Fields& op, std::string_view key,
                                      const GraphBuilder& builder) {
    std::vector<CustomTensor> made;
    const Node* node = op.find(key);
    if (node == nullptr) return made;
    for (const Node& item : to_list(document_, *node, op.what_of(key))) {
      Fields fields(document_, item, op.what_of(key));
      CustomTensor tensor{.name = name_of(fields), .bytes = amount(fields, "bytes")};
      if (const std::optional<std::string> base = fields.optional_text("view_of")) {
        tensor.view_of = builder.find(*base);
        if (tensor.view_of == kNoTensor) {
          fields.fail_at_key("view_of",
                             "there is no tensor " + in_quotes(*base) + " before this op");
        }
      }
      if (const Node* scope = fields.find("held_until")) {
        if (key == "auxiliaries") {
          fields.fail_at_key("held_until",
                             "an auxiliary, which only a Backward reads, has no name "
                             "that holds it");
        }
        held_.push_back({.tensor = tensor.name, .scope = scope, .op = fields.text("held_until")});
      }
      fields.refuse_unknown();
      made.push_back(std::move(tensor));
    }
    return made;
  }

  static std::optional<RecomputePolicy> recompute_policy(const std::string& text) {
    if (text == "always") return RecomputePolicy::kYes;
    if (text == "replay_random") return RecomputePolicy::kReplayRandom;
    if (text == "never") return RecomputePolicy::kNever;
    return std::nullopt;
  }

  std::vector<TensorId> read_inputs_of(const std::vector<Node>& ops, std::size_t position,
                                       Fields& op, const GraphBuilder& builder) const {
    std::vector<TensorId> inputs;
    const Node* node = op.find("inputs");
    if (node == nullptr) return inputs;
    for (const Node& item : to_list(document_, *node, op.what_of("inputs"))) {
      const std::string name = to_text(document_, item, op.what_of("inputs"));
      inputs.push_back(builder.find(name));
      if (inputs.back() == kNoTensor) fail_unmade(ops, position, item, name);
    }
    return inputs;
  }

  // The scopes of names, which end with ops that come later.
  void hold_names(const std::vector<Node>& ops, GraphBuilder& builder) const {
    for (const Held& held : held_) {
      const OpId last_op = builder.find_op(held.op);
      if (last_op == kNoOp) {
        std::vector<std::string> known;
        for (const Node& op : ops) known.push_back(op_name(op));
        fail_at(document_, held.scope->position,
                fmt::format("tensor '{}': key 'held_until': there is no op {}{}", held.tensor,
                            in_quotes(held.op), did_you_mean(held.op, known)));
      }
      with_place(document_, held.scope->position,
                 [&] { builder.hold_until(builder.find(held.tensor), last_op); });
    }
  }

  std::vector<TensorId> read_op(const std::vector<Node>& ops, std::size_t position,
                                GraphBuilder& builder) {
    const Node& node = ops[position];
    Fields unnamed(document_, node, fmt::format("op {}", position + 1));
    CustomOp op{.name = name_of(unnamed)};
    Fields fields(document_, node, fmt::format("op '{}'", op.name));
    fields.require("name");
    for (const char* key :
         {"inputs", "outputs", "auxiliaries", "saves", "gradient_aliases", "gradient_views"}) {
      const Node* list = fields.find(key);
      if (list == nullptr || list->items.size() <= kMostOfOneOp) continue;
      fields.fail_at_key(key, fmt::format("expected at most {} tensors, found {}", kMostOfOneOp,
                                          list->items.size()));
    }
    op.inputs = read_inputs_of(ops, position, fields, builder);
    op.outputs = read_made(fields, "outputs", builder);
    op.auxiliaries = read_made(fields, "auxiliaries", builder);
    if (op.outputs.empty()) fields.fail_at_key("outputs", "expected at least one, found none");
    op.saved = fields.optional_names("saves");
    op.gradient_aliases = fields.optional_names("gradient_aliases");
    op.gradient_views = fields.optional_names("gradient_views");
    op.workspace_bytes = optional_amount(fields, "workspace_bytes", 0);
    op.backward_workspace_bytes = optional_amount(fields, "backward_workspace_bytes", 0);
    if (fields.find("sweep_workspace_bytes") != nullptr) {
      op.sweep_workspace_bytes = amount(fields, "sweep_workspace_bytes");
    }
    op.forward = read_cost(fields, "forward");
    op.backward = fields.find("backward") != nullptr
                      ? read_cost(fields, "backward")
                      : with_place(document_, node.position, [&] { return twice(op.forward); });
    const std::string recompute = fields.optional_text("recompute").value_or("always");
    if (const std::optional<RecomputePolicy> policy = recompute_policy(recompute)) {
      op.recompute = *policy;
    } else {
      fields.fail_at_key(
          "recompute",
          fmt::format("expected always, replay_random or never, found '{}'{}", recompute,
                      did_you_mean(recompute, {"always", "replay_random", "never"})));
    }
    const std::string side_effect = fields.optional_text("side_effect").value_or("none");
    if (side_effect != "none" && side_effect != "once") {
      fields.fail_at_key("side_effect", "expected none or once, found '" + side_effect + "'");
    }
    op.side_effect = side_effect == "once" ? SideEffect::kOnce : SideEffect::kNone;
    op.in_place = fields.optional_boolean("in_place").value_or(false);
    op.saves_after_forward = fields.optional_boolean("saves_after_forward").value_or(false);
    op.module = fields.optional_text("module").value_or("");
    if (const std::optional<std::int64_t> block = fields.optional_integer("block")) {
      if (*block < 0 || *block >= static_cast<std::int64_t>(kMostOps)) {
        fields.fail_at_key("block", fmt::format("expected a block from 0, found {}", *block));
      }
      op.block = static_cast<std::int32_t>(*block);
    }
    fields.refuse_unknown();
    return with_place(document_, node.position, [&] { return builder.add_custom(op); });
  }

  TensorId loss_named(Fields& root, const std::string& name, const GraphBuilder& builder) const {
    const TensorId loss = builder.find(name);
    if (loss != kNoTensor) return loss;
    std::vector<std::string> known;
    for (const auto& [tensor, op] : producer_of_) known.push_back(tensor);
    root.fail_at_key("loss",
                     fmt::format("there is no tensor '{}'{}", name, did_you_mean(name, known)));
  }

  // "held_until: op" on a tensor.
  struct Held {
    std::string tensor = {};
    const Node* scope = nullptr;
    std::string op = {};
  };

  const Document& document_;
  OptimizerRule optimizer_ = {};
  std::vector<Held> held_ = {};
  std::map<std::string, std::size_t> producer_of_ = {};
};

}  // namespace

bool is_plain_graph(const Document& document) {
  for (const Entry& entry : document.root.entries) {
    if (entry.key == "cairn_graph") return true;
  }
  return false;
}

Graph read_plain_graph(const Document& document, const OptimizerRule& optimizer) {
  return PlainGraphReader(document, optimizer).read();
}

}  // namespace cairn
