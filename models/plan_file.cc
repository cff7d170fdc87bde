#include "models/plan_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/error.h"
#include "graph/recompute_sets.h"
#include "graph/region_tree.h"
#include "models/fields.h"
#include "models/plan_origin.h"
#include "models/read_file.h"

namespace cairn {
namespace {

constexpr std::string_view kWhat = "a plan";

// The region around those in work, and what messages call it.
struct Parent {
  std::string name = {};  // "" for the root
  std::int32_t begin = 0;
  std::int32_t end = 0;
};

class PlanReader {
 public:
  PlanReader(const Document& document, const Graph& graph) : document_(document), graph_(graph) {
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
      op_of_[graph.ops[i].name] = static_cast<OpId>(i);
    }
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      tensor_of_[graph.tensors[i].name] = static_cast<TensorId>(i);
    }
  }

  Plan read(std::optional<Extent> extent) {
    Fields root(document_, document_.root, std::string(kWhat));
    for (const std::string_view key : {"cairn_plan", "model", "graph"}) root.find(key);
    plan_.algorithm = read_name(root);
    plan_.extent = read_extent(root);
    if (extent) plan_.extent = *extent;
    read_order(root);
    const Node* regions = root.find("regions");
    root.refuse_unknown();
    if (regions != nullptr) {
      const Parent whole{.end = static_cast<std::int32_t>(plan_.order.size())};
      plan_.regions = read_regions(*regions, root.what_of("regions"), whole);
    }
    check_as_a_whole();
    return std::move(plan_);
  }

 private:
  std::string read_name(Fields& root) const {
    const std::optional<std::string> name = root.optional_text("name");
    if (!name) return printable(std::filesystem::path(document_.file_name).stem().string());
    if (name->empty()) root.fail_at_key("name", "expected a name, found an empty text");
    if (printable(*name) != *name) {
      root.fail_at_key("name",
                       "expected at most 60 printable characters, found " + in_quotes(*name));
    }
    return *name;
  }

  Extent read_extent(Fields& root) const {
    const std::optional<std::string> text = root.optional_text("extent");
    if (!text) return Extent::kPrefix;
    if (const std::optional<Extent> extent = find_extent(*text)) return *extent;
    root.fail_at_key("extent",
                     fmt::format("expected one of {}, found {}{}", join_names(extent_names()),
                                 in_quotes(*text), did_you_mean(*text, extent_names())));
  }

  // An op by its name. `what` begins the message.
  OpId op_named(const Node& node, const std::string& what) const {
    const std::string name = to_text(document_, node, what);
    const auto found = op_of_.find(name);
    if (found != op_of_.end()) return found->second;
    std::vector<std::string> known;
    for (const Op& op : graph_.ops) known.push_back(op.name);
    fail_at(document_, node.position,
            fmt::format("{}: expected an op of the graph, found {}{}", what, in_quotes(name),
                        did_you_mean(name, known)));
  }

  void read_order(Fields& root) {
    position_of_.assign(graph_.ops.size(), kNowhere);
    const Node* node = root.find("order");
    if (node == nullptr) {
      plan_.order = keep_all_plan(graph_).order;
      for (std::size_t i = 0; i < position_of_.size(); ++i) {
        position_of_[i] = static_cast<std::int32_t>(i);
      }
      return;
    }
    const std::string what = root.what_of("order");
    for (const Node& item : to_list(document_, *node, what)) {
      const OpId op = op_named(item, what);
      if (position_of_[index(op)] != kNowhere) {
        fail_at(document_, item.position,
                fmt::format("{}: op '{}' is there twice", what, graph_.op(op).name));
      }
      check_inputs_are_made(op, item, what);
      position_of_[index(op)] = static_cast<std::int32_t>(plan_.order.size());
      plan_.order.push_back(op);
    }
    const auto missing = std::find(position_of_.begin(), position_of_.end(), kNowhere);
    if (missing == position_of_.end()) return;
    root.fail_at_key(
        "order",
        fmt::format("expected all {} ops of the graph, found {}: '{}' is missing",
                    graph_.ops.size(), plan_.order.size(),
                    graph_.ops[static_cast<std::size_t>(missing - position_of_.begin())].name));
  }

  void check_inputs_are_made(OpId op, const Node& place, const std::string& what) const {
    for (const TensorId input : graph_.op(op).inputs) {
      const OpId producer = graph_.tensor(input).producer;
      if (producer == kNoOp || position_of_[index(producer)] != kNowhere) continue;
      fail_at(document_, place.position,
              fmt::format("{}: op '{}' comes before '{}', which makes its input '{}'", what,
                          graph_.op(op).name, graph_.op(producer).name, graph_.tensor(input).name));
    }
  }

  std::int32_t position(OpId op) const { return position_of_[index(op)]; }
  const std::string& op_name_at(std::int32_t place) const {
    return graph_.op(plan_.order[static_cast<std::size_t>(place)]).name;
  }

  std::vector<Region> read_regions(const Node& node, const std::string& what,
                                   const Parent& parent) {
    std::vector<Region> regions;
    for (const Node& item : to_list(document_, node, what)) {
      const std::string name = fmt::format(
          "{}{}{}", parent.name, parent.name.empty() ? "region " : ".", regions.size() + 1);
      regions.push_back(
          read_region(item, name, parent, regions.empty() ? nullptr : &regions.back()));
    }
    return regions;
  }

  Region read_region(const Node& node, const std::string& name, const Parent& parent,
                     const Region* previous) {
    Fields fields(document_, node, name);
    const Node& first = fields.require("first");
    Region region{.begin = position(op_named(first, fields.what_of("first")))};
    const Node* last = fields.find("last");
    const Node& end = last == nullptr ? first : *last;
    const std::string end_what = fields.what_of(last == nullptr ? "first" : "last");
    region.end = position(op_named(end, end_what)) + 1;
    if (region.end <= region.begin) {
      fail_at(document_, end.position,
              fmt::format("{}: expected '{}' or an op behind it, found '{}'", end_what,
                          op_name_at(region.begin), op_name_at(region.end - 1)));
    }
    check_begin(region, first, fields.what_of("first"), parent, previous);
    if (region.end > parent.end) {
      fail_at(document_, end.position,
              fmt::format("{}: expected an op of {}, which ends with '{}', found '{}'", end_what,
                          parent.name, op_name_at(parent.end - 1), op_name_at(region.end - 1)));
    }
    const Node* keep = fields.find("keep");
    if (keep != nullptr && !parent.name.empty()) {
      fields.fail_at_key("keep", "only outermost regions may have one");
    }
    if (keep != nullptr) region.keep = read_keep(*keep, fields.what_of("keep"), region);
    const Node* inner = fields.find("regions");
    fields.refuse_unknown();
    if (inner != nullptr) {
      region.inner = read_regions(*inner, fields.what_of("regions"),
                                  {.name = name, .begin = region.begin, .end = region.end});
    }
    return region;
  }

  void check_begin(const Region& region, const Node& place, const std::string& what,
                   const Parent& parent, const Region* previous) const {
    if (previous != nullptr && region.begin < previous->end) {
      fail_at(document_, place.position,
              fmt::format("{}: expected an op behind the region before, which ends with '{}', "
                          "found '{}'",
                          what, op_name_at(previous->end - 1), op_name_at(region.begin)));
    }
    if (region.begin < parent.begin || region.begin >= parent.end) {
      fail_at(document_, place.position,
              fmt::format("{}: expected an op of {}, which is '{}' to '{}', found '{}'", what,
                          parent.name, op_name_at(parent.begin), op_name_at(parent.end - 1),
                          op_name_at(region.begin)));
    }
  }

  // A name, or a list of names.
  std::vector<TensorId> read_keep(const Node& node, const std::string& what, const Region& region) {
    std::vector<TensorId> keep;
    if (node.kind == NodeKind::kSequence) {
      for (const Node& item : node.items) keep.push_back(read_kept(item, what, region));
    } else {
      to_names(document_, node, what);  // refuses a mapping
      keep.push_back(read_kept(node, what, region));
    }
    return keep;
  }

  TensorId read_kept(const Node& node, const std::string& what, const Region& region) {
    const std::string name = to_text(document_, node, what);
    const auto found = tensor_of_.find(name);
    if (found == tensor_of_.end()) {
      std::vector<std::string> known;
      for (const Tensor& tensor : graph_.tensors) known.push_back(tensor.name);
      fail_at(document_, node.position,
              fmt::format("{}: expected a tensor of the graph, found {}{}", what, in_quotes(name),
                          did_you_mean(name, known)));
    }
    const OpId producer = graph_.tensor(found->second).producer;
    const std::int32_t made_at = producer == kNoOp ? kNowhere : position(producer);
    if (made_at < region.begin || made_at >= region.end) {
      fail_at(document_, node.position,
              fmt::format("{}: expected a tensor that the region makes, found '{}', {}", what, name,
                          producer == kNoOp
                              ? "which no op makes"
                              : fmt::format("which op '{}' makes", graph_.op(producer).name)));
    }
    if (!kept_at_.emplace(found->second, node.position).second) {
      fail_at(document_, node.position, fmt::format("{}: '{}' is there twice", what, name));
    }
    return found->second;
  }

  // What is left is not wrong in one place: in-place ops, and keep lists that nothing reads.
  void check_as_a_whole() const {
    try {
      check_plan(graph_, plan_);
    } catch (const InputError& error) {
      fail_at(document_, document_.root.position, error.what());
    }
    const RecomputeSets sets = recompute_sets(graph_, plan_, flatten_regions(graph_, plan_));
    if (sets.useless_keep == kNoTensor) return;
    fail_at(document_, kept_at_.at(sets.useless_keep),
            fmt::format("no Backward and no recompute reads '{}': it cannot be kept",
                        graph_.tensor(sets.useless_keep).name));
  }

  static constexpr std::int32_t kNowhere = -1;

  const Document& document_;
  const Graph& graph_;
  std::unordered_map<std::string_view, OpId> op_of_ = {};
  std::unordered_map<std::string_view, TensorId> tensor_of_ = {};
  std::vector<std::int32_t> position_of_ = {};  // by op: its place in the order
  std::map<TensorId, Position> kept_at_ = {};
  Plan plan_ = {};
};

}  // namespace

Plan read_plan(const Document& document, const Graph& graph, std::optional<Extent> extent) {
  read_plan_origin(document);  // refuses a wrong version, and parts that are none
  return PlanReader(document, graph).read(extent);
}

Plan read_plan_of(const Document& document, const ModelRequest& request, const LoadedModel& model,
                  std::optional<Extent> extent) {
  check_plan_origin(document, request, model);
  return read_plan(document, model.graph, extent);
}

std::optional<Document> find_plan_file(const std::string& path) {
  constexpr std::string_view kKey = "cairn_plan";
  constexpr std::size_t kMostBytes = std::size_t{16} << 20;  // read_document says so of more
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  if (read_file(path, kMostBytes).find(kKey) == std::string::npos) return std::nullopt;
  Document document = read_document(path);
  const bool is_plan = std::any_of(document.root.entries.begin(), document.root.entries.end(),
                                   [&](const Entry& entry) { return entry.key == kKey; });
  return is_plan ? std::optional(std::move(document)) : std::nullopt;
}

}  // namespace cairn
