#include "cli/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "cli/peak.h"
#include "cli/text.h"
#include "cli/units.h"
#include "cli/what_if.h"
#include "graph/error.h"
#include "graph/ops/op_kind.h"

namespace cairn {
namespace {

constexpr std::string_view kTimes = " x ";

bool contains(const std::vector<TensorId>& tensors, TensorId tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

// Sizes in terms of batch and tokens.
class Formulas {
 public:
  Formulas(const LoadedModel& model, const Resized& resized)
      : batch_(dim_value(model, "batch")), tokens_(dim_value(model, "tokens")) {
    if (resized.with_more_samples) index_shapes(*resized.with_more_samples, with_more_samples_);
    if (resized.with_more_tokens) index_shapes(*resized.with_more_tokens, with_more_tokens_);
  }

  // "batch x tokens x 4,096 x 2 B", or "16 B" of a tensor of which only bytes are known.
  std::string of_tensor(const Tensor& tensor) const {
    if (tensor.shape.empty()) return grouped_text(tensor.bytes) + " B";
    std::string text;
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      if (tensor.shape[i] == 1 && tensor.shape.size() > 1 && !follows_samples(tensor, i)) continue;
      text += extent_text(tensor, i) + std::string(kTimes);
    }
    const std::int64_t bits = bits_per_element(tensor.data_type);
    return text + (bits % 8 == 0 ? fmt::format("{} B", bits / 8) : fmt::format("{} bits", bits));
  }

 private:
  using Shapes = std::map<std::string_view, const Shape*>;

  static void index_shapes(const Graph& graph, Shapes& shapes) {
    for (const Tensor& tensor : graph.tensors) shapes[tensor.name] = &tensor.shape;
  }

  // The extent in the resized graph; `extent` itself where the tensor is not there.
  static std::int64_t resized(const Shapes& shapes, const Tensor& tensor, std::size_t i) {
    const auto found = shapes.find(tensor.name);
    const bool is_alike = found != shapes.end() && found->second->size() == tensor.shape.size();
    return is_alike ? (*found->second)[i] : tensor.shape[i];
  }

  // Is the extent `count` times something, and the resized one `count` + 1 times the same?
  static bool is_multiple(std::int64_t extent, std::int64_t resized, std::int64_t count) {
    return count > 0 && extent % count == 0 && resized == extent / count * (count + 1);
  }

  bool follows_samples(const Tensor& tensor, std::size_t i) const {
    return is_multiple(tensor.shape[i], resized(with_more_samples_, tensor, i), batch_);
  }

  std::string extent_text(const Tensor& tensor, std::size_t i) const {
    const std::int64_t extent = tensor.shape[i];
    std::string text;
    std::int64_t rest = extent;
    if (follows_samples(tensor, i)) {
      text += "batch";
      rest /= batch_;
    }
    if (is_multiple(extent, resized(with_more_tokens_, tensor, i), tokens_)) {
      text += (text.empty() ? "" : kTimes);
      text += "tokens";
      rest /= tokens_;
    }
    if (text.empty()) return grouped_text(extent);
    return rest == 1 ? text : fmt::format("{}{}{}", text, kTimes, grouped_text(rest));
  }

  std::int64_t batch_ = 0;
  std::int64_t tokens_ = 0;
  Shapes with_more_samples_ = {};
  Shapes with_more_tokens_ = {};
};

// Why something is live at the peak, from the schedule around it.
class Reasons {
 public:
  Reasons(const Graph& graph, const Evaluation& evaluation)
      : graph_(graph),
        schedule_(evaluation.schedule),
        peak_(evaluation.trace.steps[evaluation.trace.peak_entry].step) {}

  std::string of_item(const LiveItem& item) const {
    switch (item.kind) {
      case LiveKind::kTensor:
        return of_tensor(item.tensor);
      case LiveKind::kGradient:
        return of_gradient(item.tensor);
      case LiveKind::kOptimizerStates:
        return "live from the first optimizer step on";
      case LiveKind::kMasterWeights:
      case LiveKind::kMainGradients:
        return "live from load to the end of the step";
      case LiveKind::kDuplicate:
        return "a recompute makes all that its op makes, also what is live";
      case LiveKind::kContribution:
        return "a later contribution, which is added to the gradient at the end of the step";
      case LiveKind::kWorkspace:
        return "in this step alone";
    }
    CAIRN_CHECK(false, "unknown kind of live item");
  }

 private:
  const Step& step(std::size_t position) const { return schedule_.steps[position]; }

  bool reads(const Step& at, TensorId tensor) const {
    if (at.op == kNoOp) return false;
    const Op& op = graph_.op(at.op);
    return contains(at.kind == StepKind::kBackward ? op.saved : op.inputs, tensor);
  }

  bool makes(const Step& at, TensorId tensor) const {
    if (at.kind != StepKind::kCompute && at.kind != StepKind::kRecompute) return false;
    const Op& op = graph_.op(at.op);
    return contains(op.outputs, tensor) || contains(op.auxiliaries, tensor);
  }

  std::string of_tensor(TensorId id) const {
    const Tensor& tensor = graph_.tensor(id);
    if (is_resident(tensor)) return "live from load to the end of the step";
    for (std::size_t i = peak_; i < schedule_.steps.size(); ++i) {
      if (step(i).kind == StepKind::kFree && step(i).tensor == id) break;
      if (!reads(step(i), id)) continue;
      const std::string place = step_place(graph_, schedule_, step(i));
      return i == peak_ ? "read by this step"
                        : fmt::format("read by the {}", without_layer_numbers(place));
    }
    if (makes(step(peak_), id)) return "made by this step";
    if (tensor.held_until != kNoOp && step(peak_).kind == StepKind::kCompute) {
      return fmt::format("a name holds it until {}",
                         without_layer_numbers(graph_.op(tensor.held_until).name));
    }
    return "held by a checkpoint, or by a view of it";
  }

  std::string of_gradient(TensorId id) const {
    const Tensor& tensor = graph_.tensor(id);
    if (tensor.role == TensorRole::kParameter) return "until the optimizer steps";
    if (tensor.producer == kNoOp) return "until the end of the step";
    return fmt::format("until the backward of {}",
                       without_layer_numbers(graph_.op(tensor.producer).name));
  }

  const Graph& graph_;
  const Schedule& schedule_;
  std::size_t peak_ = 0;
};

std::string source_of(const Graph& graph, const LiveItem& item) {
  if (item.tensor == kNoTensor) return {};
  const OpId producer = graph.tensor(item.tensor).producer;
  if (producer == kNoOp || graph.op(producer).kind == nullptr) return {};
  const OpKindInfo& kind = *graph.op(producer).kind;
  if (kind.source.empty()) return std::string(kind.name);
  return fmt::format("{} ({})", kind.name, kind.source);
}

std::string term_formula(const Graph& graph, const Formulas& formulas, const LiveGroup& group,
                         const LiveItem& item) {
  if (item.tensor == kNoTensor) return grouped_text(group.bytes) + " B";
  std::string text = formulas.of_tensor(graph.tensor(item.tensor));
  if (group.count > 1) text = fmt::format("{}{}{}", group.count, kTimes, text);
  return text;
}

// Layers differ: then no formula of one is that of all.
bool are_alike(const LiveGroup& group, const LiveItem& item) {
  return static_cast<std::int64_t>(group.count) * item.bytes == group.bytes;
}

// Parameters, and their gradients, are one term each.
ExplainedTerm term_of_parameters(const Graph& graph, MemoryCategory category, std::int64_t bytes,
                                 std::int64_t count) {
  ExplainedTerm term{.category = category, .bytes = bytes};
  const bool is_gradient = category == MemoryCategory::kGradients;
  term.name = fmt::format("{} of {} tensors", is_gradient ? "gradients" : "parameters", count);
  const std::int64_t elements = parameter_count(graph);
  const bool is_one_size = elements > 0 && bytes % elements == 0 && !is_gradient;
  term.formula = is_one_size
                     ? fmt::format("{}{}{} B", grouped_text(elements), kTimes, bytes / elements)
                     : grouped_text(bytes) + " B";
  term.reason = is_gradient ? "until the optimizer steps" : "live from load on";
  return term;
}

}  // namespace

std::vector<ExplainedTerm> explained_terms(const LoadedModel& model, const Evaluation& evaluation,
                                           const Resized& resized) {
  const Graph& graph = model.graph;
  const Formulas formulas(model, resized);
  const Reasons reasons(graph, evaluation);
  std::vector<ExplainedTerm> terms;
  std::map<MemoryCategory, std::pair<std::int64_t, std::int64_t>> of_parameters;
  std::vector<LiveItem> others;
  for (const LiveItem& item : evaluation.trace.live_at_peak) {
    if (item.category != MemoryCategory::kParameters &&
        item.category != MemoryCategory::kGradients) {
      others.push_back(item);
      continue;
    }
    of_parameters[item.category].first += item.bytes;
    ++of_parameters[item.category].second;
  }
  for (const auto& [category, sum] : of_parameters) {
    terms.push_back(term_of_parameters(graph, category, sum.first, sum.second));
  }
  for (const LiveGroup& group : group_live_items(others)) {
    const LiveItem& item = *std::find_if(others.begin(), others.end(), [&](const LiveItem& each) {
      return each.category == group.category &&
             (each.name == group.name || without_layer_numbers(each.name) == group.name);
    });
    terms.push_back({.name = group.name,
                     .category = group.category,
                     .bytes = group.bytes,
                     .formula = are_alike(group, item)
                                    ? term_formula(graph, formulas, group, item)
                                    : fmt::format("{} of several sizes", group.count),
                     .reason = reasons.of_item(item),
                     .source = source_of(graph, item)});
  }
  std::stable_sort(terms.begin(), terms.end(), [](const ExplainedTerm& a, const ExplainedTerm& b) {
    return a.bytes > b.bytes;
  });
  return terms;
}

std::string explanation_text(const LoadedModel& model, const Evaluation& evaluation,
                             const std::vector<ExplainedTerm>& terms) {
  std::string text = fmt::format("Terms of the peak of {}: {} bytes\n", evaluation.name,
                                 grouped_text(evaluation.trace.peak_bytes));
  const std::int64_t batch = dim_value(model, "batch");
  const std::int64_t tokens = dim_value(model, "tokens");
  if (batch > 0) {
    text += fmt::format("  with batch = {}", grouped_text(batch));
    if (tokens > 0) text += fmt::format(", tokens = {}", grouped_text(tokens));
    text += "\n";
  }
  for (const ExplainedTerm& term : terms) {
    const std::string label = "  " + right_aligned(bytes_text(term.bytes), 9) + "  ";
    const std::string indent(label.size(), ' ');
    text += labelled_text(label,
                          fmt::format("{} ({})", term.name, memory_category_name(term.category)));
    text += labelled_text(indent, fmt::format("= {}", term.formula));
    text += labelled_text(indent,
                          term.reason + (term.source.empty() ? "" : "; made by " + term.source));
  }
  return text;
}

Json explanation_json(const std::vector<ExplainedTerm>& terms) {
  Json list = Json::array();
  for (const ExplainedTerm& term : terms) {
    list.push_back({{"name", term.name},
                    {"category", category_key(term.category)},
                    {"bytes", term.bytes},
                    {"formula", term.formula},
                    {"reason", term.reason},
                    {"source", term.source.empty() ? Json() : Json(term.source)}});
  }
  return list;
}

}  // namespace cairn
