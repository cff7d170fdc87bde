#include "cli/plan_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/named_layers.h"
#include "cli/text.h"

namespace cairn {
namespace {

using Regions = std::vector<const Region*>;

std::string ordinal(std::int32_t number) {
  const std::int32_t last = number % 10;
  const bool is_teen = number % 100 >= 11 && number % 100 <= 13;
  const char* const ending =
      is_teen ? "th" : (last == 1 ? "st" : (last == 2 ? "nd" : (last == 3 ? "rd" : "th")));
  return fmt::format("{}{}", number, ending);
}

// What one line tells of: a region of whole layers or of any ops, or a layer and what it has of
// smaller regions. Equal signatures at other layers are told together.
struct Item {
  std::int32_t begin = 0;  // positions, half-open
  std::int32_t end = 0;
  std::int32_t first_layer = -1;  // -1: outside of layers
  std::int32_t last_layer = -1;   // of whole layers only
  Regions regions = {};           // one, or those inside of the layer
  bool is_layer = false;
  std::string signature = {};
};

struct Group {
  Item first = {};
  std::vector<std::int32_t> layers = {};
  std::size_t count = 1;
  std::int32_t end = 0;  // of the last item
};

class Describer {
 public:
  Describer(const Graph& graph, const Plan& plan)
      : graph_(graph), plan_(plan), layers_(graph, plan) {}

  std::vector<PlanLine> lines() {
    if (plan_.regions.empty()) return {{.text = "everything: kept"}};
    describe(0, static_cast<std::int32_t>(plan_.order.size()), plan_.regions, 0);
    return std::move(lines_);
  }

 private:
  const std::string& op_name(std::int32_t position) const {
    return graph_.op(plan_.order[static_cast<std::size_t>(position)]).name;
  }

  const NamedLayer& layer(std::int32_t place) const {
    return layers_.all()[static_cast<std::size_t>(place)];
  }

  // The ops from `begin` to `end`, by their names in `base` where they are of that layer.
  std::string span_text(std::int32_t begin, std::int32_t end, std::int32_t base) const {
    std::string first = layers_.short_name(op_name(begin), base);
    if (end - begin == 1) return first;
    return fmt::format("{} to {}", first, layers_.short_name(op_name(end - 1), base));
  }

  bool is_whole_layers(const Region& region) const {
    const std::int32_t first = layers_.layer_at(region.begin);
    const std::int32_t last = layers_.layer_at(region.end - 1);
    return first >= 0 && last >= 0 && layer(first).begin == region.begin &&
           layer(last).end == region.end;
  }

  bool is_inside_a_layer(const Region& region) const {
    const std::int32_t first = layers_.layer_at(region.begin);
    return first >= 0 && first == layers_.layer_at(region.end - 1) && !is_whole_layers(region);
  }

  // The first and the last layer that the region has ops of; -1 twice for none.
  std::pair<std::int32_t, std::int32_t> layers_of(const Region& region) const {
    std::pair<std::int32_t, std::int32_t> found = {-1, -1};
    for (std::int32_t position = region.begin; position < region.end; ++position) {
      const std::int32_t at = layers_.layer_at(position);
      if (at < 0) continue;
      if (found.first < 0) found.first = at;
      found.second = at;
    }
    return found;
  }

  // "attn, q, k": what the region keeps, by the names in its layers. Of several layers a name
  // stands alone where all have it, else with the layers that have it, counted from the region's
  // first, or with how many there are.
  std::string keep_text(const Region& region) const {
    constexpr std::size_t kMostPlaces = 3;
    const auto [first, last] = layers_of(region);
    const auto layer_count = static_cast<std::size_t>(last - first + 1);
    std::vector<std::pair<std::string, std::vector<std::int32_t>>> names;
    for (const TensorId kept : region.keep) {
      const Tensor& tensor = graph_.tensor(kept);
      const std::int32_t place = layer_of(tensor, region);
      const std::string name = layers_.short_name(tensor.name, place);
      auto found = std::find_if(names.begin(), names.end(),
                                [&](const auto& entry) { return entry.first == name; });
      if (found == names.end()) found = names.insert(names.end(), {name, {}});
      found->second.push_back(place);
    }
    std::string text;
    for (const auto& [name, places] : names) {
      if (!text.empty()) text += ", ";
      text += name;
      if (places.size() == layer_count || places[0] < 0) continue;
      if (places.size() > kMostPlaces) {
        text += fmt::format(" (of {} of {} layers)", places.size(), layer_count);
        continue;
      }
      text += " (";
      for (std::size_t i = 0; i < places.size(); ++i) {
        text += fmt::format("{}{}", i == 0 ? "" : ", ", ordinal(places[i] - first + 1));
      }
      text += fmt::format(" of {})", layer_count);
    }
    return text;
  }

  std::int32_t layer_of(const Tensor& tensor, const Region& region) const {
    for (std::int32_t position = region.begin; position < region.end; ++position) {
      if (plan_.order[static_cast<std::size_t>(position)] == tensor.producer) {
        return layers_.layer_at(position);
      }
    }
    return -1;
  }

  // What is told of a region, with places counted from where its item begins: a layer, or -1, and a
  // position.
  std::string signature_of(const Region& region, std::int32_t base, std::int32_t origin) const {
    const std::int32_t first = layers_.layer_at(region.begin);
    std::string text =
        is_whole_layers(region)
            ? fmt::format("[{} layers from {}", layers_.layer_at(region.end - 1) - first + 1,
                          first - base)
            : fmt::format("[{} ops from {}", region.end - region.begin, region.begin - origin);
    text += " but " + keep_text(region);
    for (const Region& inner : region.inner) text += signature_of(inner, base, origin);
    return text + "]";
  }

  Item region_item(const Region& region) const {
    const std::int32_t layer = layers_.layer_at(region.begin);
    Item item{.begin = region.begin,
              .end = region.end,
              .first_layer = layer,
              .regions = {&region},
              .signature = "region" + signature_of(region, layer, region.begin)};
    if (is_whole_layers(region)) item.last_layer = layers_.layer_at(region.end - 1);
    return item;
  }

  Item layer_item(std::int32_t place, const Regions& inside) const {
    const NamedLayer& named = layer(place);
    Item item{.begin = named.begin,
              .end = named.end,
              .first_layer = place,
              .last_layer = place,
              .regions = inside,
              .is_layer = true,
              .signature = "layer"};
    for (const Region* region : inside) {
      item.signature +=
          signature_of(*region, place, named.begin) + span_text(region->begin, region->end, place);
    }
    return item;
  }

  // Regions, and what is around them between two positions; `has_rest`: some ops are neither.
  std::vector<Item> items_of(std::int32_t begin, std::int32_t end,
                             const std::vector<Region>& regions, bool& has_rest) const {
    std::vector<Item> items;
    std::vector<Regions> inside(layers_.all().size());
    std::vector<bool> is_told(layers_.all().size(), false);
    std::vector<bool> is_in_item(static_cast<std::size_t>(end - begin), false);
    const auto tell = [&](const Item& item) {
      std::fill(is_in_item.begin() + (item.begin - begin), is_in_item.begin() + (item.end - begin),
                true);
      for (std::int32_t at = item.begin; at < item.end; ++at) {
        if (layers_.layer_at(at) >= 0)
          is_told[static_cast<std::size_t>(layers_.layer_at(at))] = true;
      }
    };
    for (const Region& region : regions) {
      if (is_inside_a_layer(region)) {
        inside[static_cast<std::size_t>(layers_.layer_at(region.begin))].push_back(&region);
        continue;
      }
      items.push_back(region_item(region));
      tell(items.back());
    }
    for (std::size_t place = 0; place < inside.size(); ++place) {
      const NamedLayer& named = layers_.all()[place];
      const bool is_here = named.begin >= begin && named.end <= end;
      if (is_here && !is_told[place]) {
        items.push_back(layer_item(static_cast<std::int32_t>(place), inside[place]));
        tell(items.back());
        continue;
      }
      for (const Region* region : inside[place]) {
        items.push_back(region_item(*region));
        tell(items.back());
      }
    }
    std::sort(items.begin(), items.end(),
              [](const Item& a, const Item& b) { return a.begin < b.begin; });
    has_rest = std::find(is_in_item.begin(), is_in_item.end(), false) != is_in_item.end();
    return items;
  }

  // Items of whole layers join any equal one before; others only the one just before.
  static std::vector<Group> groups_of(const std::vector<Item>& items) {
    std::vector<Group> groups;
    for (const Item& item : items) {
      const bool is_of_layers = item.last_layer >= 0;
      const auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
        return group.first.signature == item.signature && (is_of_layers || group.end == item.begin);
      });
      Group* group = nullptr;
      if (found == groups.end()) {
        groups.push_back({.first = item});
        group = &groups.back();
      } else {
        group = &*found;
        ++group->count;
      }
      group->end = item.end;
      if (!is_of_layers) continue;
      for (std::int32_t at = item.first_layer; at <= item.last_layer; ++at) {
        group->layers.push_back(at);
      }
    }
    return groups;
  }

  std::string where(const Group& group) const {
    if (group.first.last_layer >= 0) return layers_.text(group.layers);
    return span_text(group.first.begin, group.end, -1);
  }

  // "recomputed 2 at a time, but attn, q".
  std::string fate(const Group& group, std::size_t depth) const {
    const Item& item = group.first;
    if (item.is_layer && item.regions.empty()) return "kept";
    if (item.is_layer) {
      std::string text = depth == 0 ? "recomputed in part: " : "recomputed in part again: ";
      for (std::size_t i = 0; i < item.regions.size(); ++i) {
        const Region& region = *item.regions[i];
        if (i > 0) text += "; ";
        text += span_text(region.begin, region.end, item.first_layer);
        if (!region.keep.empty()) text += " but " + keep_text(region);
      }
      return text;
    }
    std::string text = depth == 0 ? "recomputed" : "recomputed again";
    const std::int32_t size =
        item.last_layer >= 0 ? item.last_layer - item.first_layer + 1 : item.end - item.begin;
    if (size > 1 && group.count == 1 && item.last_layer >= 0) text += " together";
    const bool is_of_layers = item.last_layer >= 0;
    const bool says_size = group.count > 1 && (size > 1 || !is_of_layers);
    if (says_size) {
      text +=
          fmt::format(" {}{} at a time", size, is_of_layers ? "" : (size == 1 ? " op" : " ops"));
    }
    const Region& region = *item.regions[0];
    if (region.keep.empty()) return text;
    return text + (size > 1 || says_size ? ", but " : " but ") + keep_text(region);
  }

  void describe(std::int32_t begin, std::int32_t end, const std::vector<Region>& regions,
                std::size_t depth) {
    bool has_rest = false;
    for (const Group& group : groups_of(items_of(begin, end, regions, has_rest))) {
      const bool is_kept = group.first.is_layer && group.first.regions.empty();
      if (is_kept && depth > 0) continue;  // a region keeps what no inner one drops
      std::string text = fmt::format("{}: {}", where(group), fate(group, depth));
      const bool has_inner =
          std::any_of(group.first.regions.begin(), group.first.regions.end(),
                      [](const Region* region) { return !region->inner.empty(); });
      if (has_inner && group.count > 1) {
        text += fmt::format("; of {}", group.first.is_layer || group.first.last_layer >= 0
                                           ? layers_.text(first_layers(group))
                                           : span_text(group.first.begin, group.first.end, -1));
      }
      lines_.push_back({.depth = depth, .text = std::move(text)});
      for (const Region* region : group.first.regions) {
        if (!region->inner.empty()) describe(region->begin, region->end, region->inner, depth + 1);
      }
    }
    if (has_rest && depth == 0) lines_.push_back({.text = "the rest: kept"});
  }

  static std::vector<std::int32_t> first_layers(const Group& group) {
    std::vector<std::int32_t> places;
    for (std::int32_t at = group.first.first_layer; at <= group.first.last_layer; ++at) {
      places.push_back(at);
    }
    return places;
  }

  const Graph& graph_;
  const Plan& plan_;
  NamedLayers layers_;
  std::vector<PlanLine> lines_ = {};
};

}  // namespace

std::vector<PlanLine> plan_lines(const Graph& graph, const Plan& plan) {
  return Describer(graph, plan).lines();
}

std::string plan_words_text(const Graph& graph, const Plan& plan, std::size_t most_lines) {
  const std::vector<PlanLine> lines = plan_lines(graph, plan);
  const bool is_long = lines.size() > most_lines;
  std::string text;
  for (std::size_t i = 0; i < (is_long ? most_lines - 1 : lines.size()); ++i) {
    const std::string indent(2 + 2 * std::min<std::size_t>(lines[i].depth, 12), ' ');
    // Broken two further in than it begins.
    text += labelled_text(indent + "  ", lines[i].text).substr(2);
  }
  if (is_long) {
    text += fmt::format("  and {} more lines; -o FILE writes the plan whole\n",
                        lines.size() - most_lines + 1);
  }
  return text;
}

}  // namespace cairn
