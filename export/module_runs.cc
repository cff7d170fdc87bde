#include "export/module_runs.h"

#include <algorithm>
#include <set>

#include "export/layer_plan.h"

namespace cairn {
namespace {

struct Extents {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::int32_t count = 0;
};

// A list of layers, or a module around one: it is no part of a region.
bool holds_layers(const std::string& path, const std::vector<ModelLayer>& layers) {
  return std::any_of(layers.begin(), layers.end(), [&](const ModelLayer& layer) {
    return layer.path.size() > path.size() && layer.path.starts_with(path + ".");
  });
}

}  // namespace

ModuleRuns::ModuleRuns(const Graph& graph, const std::vector<ModelLayer>& layers)
    : graph_(graph), layers_(layers) {
  std::map<std::string, Extents> found;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const std::string& module = graph.ops[i].module;
    const auto position = static_cast<std::int32_t>(i);
    for (std::size_t dot = 0; dot < module.size();) {
      dot = std::min(module.find('.', dot + 1), module.size());
      const auto [entry, is_new] =
          found.try_emplace(module.substr(0, dot), Extents{.begin = position, .end = position});
      entry->second.end = position + 1;
      ++entry->second.count;
    }
  }
  for (const auto& [path, extents] : found) {
    if (extents.end - extents.begin != extents.count || holds_layers(path, layers)) continue;
    modules_.push_back({.path = path, .begin = extents.begin, .end = extents.end});
  }
  // Of a module and the only one in it, the outer: it comes first by name.
  std::stable_sort(modules_.begin(), modules_.end(), [](const Piece& a, const Piece& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
}

const ModuleRuns::Piece* ModuleRuns::largest_at(std::int32_t position, std::int32_t end) const {
  for (const Piece& module : modules_) {
    if (module.begin == position && module.end <= end) return &module;
  }
  return nullptr;
}

bool ModuleRuns::hands_on_one(std::int32_t a, std::int32_t b, std::int32_t c) const {
  std::set<TensorId> handed_on;
  for (std::size_t i = static_cast<std::size_t>(b); i < graph_.ops.size(); ++i) {
    for (const TensorId input : graph_.ops[i].inputs) {
      const OpId producer = graph_.tensor(input).producer;
      if (producer == kNoOp) continue;
      const auto made_at = static_cast<std::int32_t>(index(producer));
      if (made_at < a || made_at >= b) continue;
      if (static_cast<std::int32_t>(i) >= c) return false;
      handed_on.insert(input);
    }
  }
  return handed_on.size() == 1;
}

std::vector<std::string> ModuleRuns::run(std::int32_t begin, std::int32_t end) const {
  const auto saves_nothing = [&](std::int32_t from) {
    return std::all_of(graph_.ops.begin() + from, graph_.ops.begin() + end,
                       [](const Op& op) { return op.saved.empty(); });
  };
  std::vector<std::string> paths;
  std::int32_t before = -1;  // where the last module began
  while (begin < end && !saves_nothing(begin)) {
    const Piece* const module = largest_at(begin, end);
    if (module == nullptr) return {};
    if (before >= 0 && !hands_on_one(before, begin, module->end)) return {};
    paths.push_back(module->path);
    before = begin;
    begin = module->end;
  }
  return paths;
}

std::vector<std::string> ModuleRuns::layer_run(std::int32_t first, std::int32_t end) const {
  std::vector<std::string> paths;
  for (std::int32_t i = first; i < end; ++i) {
    const ModelLayer& layer = layers_[static_cast<std::size_t>(i)];
    if (!layer.is_module) return {};
    if (i + 1 < end &&
        !hands_on_one(layer.begin, layer.end, layers_[static_cast<std::size_t>(i) + 1].end)) {
      return {};
    }
    paths.push_back(layer.path);
  }
  return paths;
}

std::vector<ModuleRuns::Piece> ModuleRuns::pieces(std::int32_t begin, std::int32_t end) const {
  std::vector<Piece> found;
  for (const Piece& module : modules_) {
    if (module.begin < begin || module.end > end) continue;
    found.push_back(module);
    begin = module.end;
  }
  return found;
}

}  // namespace cairn
