#include "models/cost_file.h"

#include <fmt/format.h>

#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/error.h"
#include "models/fields.h"
#include "models/source_text.h"
#include "models/write_file.h"
#include "models/yaml_text.h"

namespace cairn {
namespace {

constexpr std::int64_t kMostNs = 1'000'000'000'000'000;  // eleven days
constexpr std::size_t kMostNames = 5;

class CostReader {
 public:
  CostReader(const Document& document, const Graph& graph)
      : document_(document),
        graph_(graph),
        root_(document, document.root, std::string(kCostOrigin.what)) {
    for (const Op& op : graph.ops) op_of_[op.name] = &op;
  }

  MeasuredCosts read() {
    for (const std::string_view key : {"cairn_costs", "model", "graph"}) root_.find(key);
    MeasuredCosts costs{.device = read_device(),
                        .step_count = read_step_count(),
                        .step = time(root_, "step_ns", "step_spread_ns"),
                        .optimizer = time(root_, "optimizer_ns", "optimizer_spread_ns"),
                        .overhead = time(root_, "overhead_ns", "overhead_spread_ns")};
    const std::vector<Node>& items = root_.list("ops");
    root_.refuse_unknown();
    for (const Node& item : items) costs.ops.push_back(read_op(item, costs.ops.size() + 1));
    check_all_are_there();
    return costs;
  }

 private:
  std::string read_device() {
    std::string device = root_.text("device");
    if (device.empty()) root_.fail_at_key("device", "expected a name, found an empty text");
    if (printable(device) != device) {
      root_.fail_at_key("device",
                        "expected at most 60 printable characters, found " + in_quotes(device));
    }
    return device;
  }

  std::int64_t read_step_count() {
    const std::int64_t count = root_.integer("steps");
    if (count < 1) {
      root_.fail_at_key("steps", fmt::format("expected at least 1, found {}", count));
    }
    return count;
  }

  static std::int64_t ns(Fields& fields, std::string_view key) {
    const std::int64_t value = fields.integer(key);
    if (value < 0 || value > kMostNs) {
      fields.fail_at_key(key,
                         fmt::format("expected 0 to {} nanoseconds, found {}", kMostNs, value));
    }
    return value;
  }

  static MeasuredTime time(Fields& fields, std::string_view median, std::string_view spread) {
    return {.median_ns = ns(fields, median), .spread_ns = ns(fields, spread)};
  }

  MeasuredOp read_op(const Node& node, std::size_t number) {
    Fields fields(document_, node, fmt::format("op {}", number));
    MeasuredOp measured{.name = fields.text("name")};
    const auto found = op_of_.find(measured.name);
    if (found == op_of_.end()) {
      fields.fail_at_key("name", fmt::format("expected an op of the graph, found {}{}",
                                             in_quotes(measured.name), nearest(measured.name)));
    }
    if (found->second == nullptr) {
      fields.fail_at_key("name", fmt::format("op '{}' is there twice", measured.name));
    }
    measured.forward = time(fields, "forward_ns", "forward_spread_ns");
    if (found->second->has_backward) {
      measured.backward = time(fields, "backward_ns", "backward_spread_ns");
    } else if (fields.find("backward_ns") != nullptr) {
      fields.fail_at_key("backward_ns", fmt::format("op '{}' has no Backward", measured.name));
    }
    fields.refuse_unknown();
    found->second = nullptr;
    return measured;
  }

  std::string nearest(const std::string& name) const {
    std::vector<std::string> known;
    for (const Op& op : graph_.ops) known.push_back(op.name);
    return did_you_mean(name, known);
  }

  void check_all_are_there() const {
    std::vector<std::string> missing;
    for (const Op& op : graph_.ops) {
      if (op_of_.at(op.name) != nullptr) missing.push_back(fmt::format("'{}'", op.name));
    }
    if (missing.empty()) return;
    const std::size_t more = missing.size() > kMostNames ? missing.size() - kMostNames : 0;
    missing.resize(missing.size() - more);
    root_.fail_at_key(
        "ops", fmt::format("expected all {} ops of the graph, found {}: {}{} {} missing",
                           graph_.ops.size(), graph_.ops.size() - missing.size() - more,
                           join_names(missing), more > 0 ? fmt::format(" and {} more", more) : "",
                           missing.size() + more == 1 ? "is" : "are"));
  }

  const Document& document_;
  const Graph& graph_;
  Fields root_;
  std::unordered_map<std::string_view, const Op*> op_of_ = {};  // null where it was read
};

std::string time_text(std::string_view key, const MeasuredTime& time, std::string_view between) {
  return fmt::format("{0}_ns: {1}{3}{0}_spread_ns: {2}", key, time.median_ns, time.spread_ns,
                     between);
}

// What reads a cost file has no regions of a plan to go by.
bool is_other_graph_without_checkpoints(ModelRequest request, const Fingerprint& graph) {
  if (!request.is_checkpointed) return false;
  request.is_checkpointed = false;
  const LoadedModel model = load_model(request);
  return fingerprint_of(model.graph, model.recipe).parts != graph.parts;
}

}  // namespace

MeasuredCosts read_costs(const Document& document, const Graph& graph) {
  read_plan_origin(document, kCostOrigin);  // refuses a wrong version, and parts that are none
  return CostReader(document, graph).read();
}

MeasuredCosts read_costs_of(const Document& document, const ModelRequest& request,
                            const LoadedModel& model) {
  check_plan_origin(document, request, model, kCostOrigin);
  return read_costs(document, model.graph);
}

std::string cost_file_text(const MeasuredCosts& costs, const PlanOrigin& origin) {
  std::string text = "cairn_costs: 1\n" + plan_origin_text(origin);
  text += fmt::format("device: {}\nsteps: {}\n", yaml_scalar(costs.device), costs.step_count);
  text += time_text("step", costs.step, "\n") + "\n";
  text += time_text("optimizer", costs.optimizer, "\n") + "\n";
  text += time_text("overhead", costs.overhead, "\n") + "\n";
  text += "ops:\n";
  for (const MeasuredOp& op : costs.ops) {
    text += fmt::format("  - {{name: {}, {}", yaml_scalar(op.name),
                        time_text("forward", op.forward, ", "));
    if (op.backward) text += ",\n     " + time_text("backward", *op.backward, ", ");
    text += "}\n";
  }
  return text;
}

void write_costs(const std::filesystem::path& path, const ModelRequest& request,
                 const LoadedModel& model, const MeasuredCosts& costs) {
  PlanOrigin origin = plan_origin(request, model);
  if (is_other_graph_without_checkpoints(request, *origin.graph)) {
    origin.model->input_require_grads = model.recipe.input_require_grads;
  }
  const std::string text = cost_file_text(costs, seen_from(origin, path.parent_path()));
  if (find_non_utf8_byte(text) != std::string::npos) {
    throw InputError(path.string() +
                     ": a cost file is UTF-8: a path or pattern of the model's options is not");
  }
  write_file(path, text);
}

}  // namespace cairn
