#include "cli/pinned_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "graph/error.h"
#include "models/source_text.h"
#include "models/trainable.h"

namespace cairn {
namespace {

bool is_made_by_an_op(const Tensor& tensor) { return tensor.producer != kNoOp; }

std::vector<bool> read_by_backward(const Graph& graph) {
  std::vector<bool> is_read(graph.tensors.size(), false);
  for (const Op& op : graph.ops) {
    for (const TensorId saved : op.saved) is_read[index(saved)] = true;
  }
  return is_read;
}

std::vector<std::string> known_names(const Graph& graph, bool with_stars) {
  std::vector<std::string> names;
  const auto add = [&](std::string_view name) {
    if (with_stars) {
      names.push_back(fmt::format("*.{}", name.substr(name.rfind('.') + 1)));
    } else {
      names.emplace_back(name);
    }
  };
  for (const Tensor& tensor : graph.tensors) {
    if (is_made_by_an_op(tensor)) add(tensor.name);
  }
  for (const Op& op : graph.ops) add(op.name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// An input or a parameter by that name.
const Tensor* resident_named(const Graph& graph, const std::string& name) {
  const auto found = std::find_if(
      graph.tensors.begin(), graph.tensors.end(),
      [&](const Tensor& tensor) { return !is_made_by_an_op(tensor) && tensor.name == name; });
  return found == graph.tensors.end() ? nullptr : &*found;
}

class Pins {
 public:
  explicit Pins(const Graph& graph) : graph_(graph), is_read_(read_by_backward(graph)) {}

  std::vector<TensorId> named(std::string_view option, const std::vector<std::string>& patterns) {
    std::vector<bool> is_named(graph_.tensors.size(), false);
    for (const std::string& pattern : patterns) add(option, pattern, is_named);
    std::vector<TensorId> tensors;
    for (std::size_t i = 0; i < is_named.size(); ++i) {
      if (is_named[i]) tensors.push_back(static_cast<TensorId>(i));
    }
    return tensors;
  }

 private:
  void add(std::string_view option, const std::string& pattern, std::vector<bool>& is_named) const {
    bool names_any = false;
    bool names_read = false;
    for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
      const Tensor& tensor = graph_.tensors[i];
      if (!is_made_by_an_op(tensor)) continue;
      const std::string& op_name = graph_.op(tensor.producer).name;
      if (!names_any_part(pattern, tensor.name) && !names_any_part(pattern, op_name)) continue;
      names_any = true;
      if (!is_read_[i] && tensor.name != pattern) continue;
      names_read = true;
      is_named[i] = true;
    }
    if (names_read) return;
    if (names_any) {
      throw InputError(fmt::format("{}: no Backward reads what {} names: it is dropped in any case",
                                   option, in_quotes(pattern)));
    }
    if (const Tensor* resident = resident_named(graph_, pattern)) {
      throw InputError(
          fmt::format("{}: {} is {}, which is there throughout; expected a tensor that an op makes",
                      option, in_quotes(pattern),
                      resident->role == TensorRole::kParameter ? "a parameter" : "an input"));
    }
    throw InputError(
        fmt::format("{}: no op or tensor is called {}{}", option, in_quotes(pattern),
                    did_you_mean(pattern, known_names(graph_, pattern.starts_with("*.")))));
  }

  const Graph& graph_;
  std::vector<bool> is_read_;
};

}  // namespace

PinnedTensors pinned_tensors(const Graph& graph, const std::vector<std::string>& keep,
                             const std::vector<std::string>& recompute) {
  if (keep.empty() && recompute.empty()) return {};
  Pins pins(graph);
  PinnedTensors pinned{.keep = pins.named("--keep", keep),
                       .recompute = pins.named("--recompute", recompute)};
  std::vector<TensorId> both;
  std::set_intersection(pinned.keep.begin(), pinned.keep.end(), pinned.recompute.begin(),
                        pinned.recompute.end(), std::back_inserter(both));
  if (!both.empty()) {
    throw InputError(
        fmt::format("--keep and --recompute: both name '{}'", graph.tensor(both[0]).name));
  }
  return pinned;
}

}  // namespace cairn
