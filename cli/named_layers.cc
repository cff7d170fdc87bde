#include "cli/named_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "graph/error.h"
#include "planner/planner.h"

namespace cairn {
namespace {

// "layers.3." of the names of all ops from `begin` to `end`, as stem and number.
std::optional<NamedLayer> name_of_layer(const Graph& graph, std::int32_t begin, std::int32_t end) {
  std::string common = graph.ops[static_cast<std::size_t>(begin)].name + ".";
  for (std::int32_t op = begin; op < end; ++op) {
    const std::string& name = graph.ops[static_cast<std::size_t>(op)].name;
    std::size_t length = 0;
    while (length < std::min(common.size(), name.size()) && common[length] == name[length]) {
      ++length;
    }
    common.resize(length);
  }
  while (!common.empty()) {
    const std::size_t last = common.rfind('.');
    if (last == std::string::npos) return std::nullopt;
    common.resize(last);  // "layers.3", then "layers"
    const std::size_t dot = common.rfind('.');
    if (dot == std::string::npos) return std::nullopt;
    NamedLayer layer{.stem = common.substr(0, dot)};
    const char* const digits = common.data() + dot + 1;
    const char* const digits_end = common.data() + common.size();
    const auto [stop, error] = std::from_chars(digits, digits_end, layer.number);
    if (error == std::errc() && stop == digits_end) return layer;
  }
  return std::nullopt;
}

}  // namespace

NamedLayers::NamedLayers(const Graph& graph, const Plan& plan)
    : at_position_(plan.order.size(), -1) {
  std::vector<std::int32_t> position_of(plan.order.size());
  for (std::size_t i = 0; i < plan.order.size(); ++i) {
    position_of[index(plan.order[i])] = static_cast<std::int32_t>(i);
  }
  for (const auto& [begin, end] : layer_ranges(graph)) {
    std::optional<NamedLayer> layer = name_of_layer(graph, begin, end);
    if (!layer) continue;
    const auto [first, last] =
        std::minmax_element(position_of.begin() + begin, position_of.begin() + end);
    layer->begin = *first;
    layer->end = *last + 1;
    if (layer->end - layer->begin == end - begin) layers_.push_back(*std::move(layer));
  }
  std::sort(layers_.begin(), layers_.end(),
            [](const NamedLayer& a, const NamedLayer& b) { return a.begin < b.begin; });
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    std::fill(at_position_.begin() + layers_[i].begin, at_position_.begin() + layers_[i].end,
              static_cast<std::int32_t>(i));
    if (layers_[i].stem != layers_[0].stem) has_one_stem_ = false;
  }
}

std::string NamedLayers::short_name(std::string_view name, std::int32_t layer) const {
  if (layer < 0) return std::string(name);
  const NamedLayer& named = layers_[static_cast<std::size_t>(layer)];
  const std::string prefix = fmt::format("{}.{}.", named.stem, named.number);
  return std::string(name.starts_with(prefix) ? name.substr(prefix.size()) : name);
}

// "0-9", "12", "encoder.0-5": runs of neighbours.
std::vector<std::string> NamedLayers::ranges(const std::vector<std::int32_t>& places) const {
  std::vector<std::string> texts;
  const std::string* stem = nullptr;
  for (std::size_t i = 0; i < places.size();) {
    const NamedLayer& first = layers_[static_cast<std::size_t>(places[i])];
    std::int64_t last_number = first.number;
    for (++i; i < places.size(); ++i) {
      const NamedLayer& next = layers_[static_cast<std::size_t>(places[i])];
      if (next.stem != first.stem || next.number != last_number + 1) break;
      last_number = next.number;
    }
    const bool says_stem = !has_one_stem_ && (stem == nullptr || *stem != first.stem);
    stem = &first.stem;
    texts.push_back(
        fmt::format("{}{}{}", says_stem ? first.stem + "." : "", first.number,
                    last_number == first.number ? "" : fmt::format("-{}", last_number)));
  }
  return texts;
}

std::string NamedLayers::text(const std::vector<std::int32_t>& places) const {
  constexpr std::size_t kMostRanges = 12;
  constexpr std::size_t kFirstRanges = 6;
  constexpr std::size_t kLastRanges = 2;
  std::vector<std::string> texts = ranges(places);
  const bool is_long = texts.size() > kMostRanges;
  if (is_long) {
    texts.erase(texts.begin() + kFirstRanges, texts.end() - kLastRanges);
    texts.insert(texts.begin() + kFirstRanges, "...");
  }
  std::string text = join_names(texts);
  if (is_long) text += fmt::format(" ({} layers)", places.size());
  if (!has_one_stem_) return text;
  return fmt::format("layer{} {}", places.size() == 1 ? "" : "s", text);
}

}  // namespace cairn
