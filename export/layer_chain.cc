#include "export/layer_chain.h"

#include <fmt/format.h>

#include "export/plan_forms.h"
#include "export/python_text.h"

namespace cairn {
namespace {

constexpr std::string_view kRunPart = R"(

def regions_of(first, end):
    """Those of layers first to end."""
    if not 0 <= first < end <= LAYER_COUNT:
        raise ValueError(f"the plan has layers 0 to {LAYER_COUNT - 1}, not {first} to {end - 1}")
    regions = [region for region in REGIONS if region[0] < end and first < region[1]]
    if any(region[0] < first or end < region[1] for region in regions):
        raise ValueError(f"layers {first} to {end - 1} hold a part of a region: run all of it")
    return regions


def run_part(layers, regions, begin, end, x, shared):
    inside = {region[0]: region for region in regions}
    while begin < end:
        if begin in inside:
            _, stop, deeper = inside[begin]
            x = checkpointed(layers, deeper, begin, stop, x, shared)
        else:
            stop = begin + 1
            x = layers[begin](x, *shared)
        begin = stop
    return x
)";

// "(i, i + 2, [(i, i + 1, [])])": of the region with its first layer i.
std::string region_item(const LayerRegion& region, std::int32_t origin) {
  const auto place = [&](std::int32_t layer) {
    return layer == origin ? std::string("i") : fmt::format("i + {}", layer - origin);
  };
  std::string inside;
  for (const LayerRegion& inner : region.inner) {
    inside += (inside.empty() ? "" : ", ") + region_item(inner, origin);
  }
  return fmt::format("({}, {}, [{}])", place(region.first_layer), place(region.end_layer), inside);
}

std::string regions_text(const LayerPlan& plan) {
  PythonItems items;
  for (const LayerRegion& region : plan.regions) {
    items.add("", region.first_layer, region_item(region, region.first_layer));
  }
  return items.lines();
}

std::string forward_runs_text(const ExportAnswer& answer) {
  PythonItems items;
  for (std::size_t i = 0; i < answer.layer_runs.size(); ++i) {
    items.add("", static_cast<std::int64_t>(i), fmt::format("(i, {})", answer.layer_runs[i]));
  }
  return items.lines();
}

// "model.layers.0-3", with one line for each list of the model.
std::string places_text(const LayerPlan& plan) {
  std::string text;
  for (std::size_t i = 0; i < plan.layers.size();) {
    std::size_t end = i + 1;
    while (!plan.layers[i].list.empty() && end < plan.layers.size() &&
           plan.layers[end].list == plan.layers[i].list &&
           plan.layers[end].number == plan.layers[end - 1].number + 1) {
      ++end;
    }
    const std::string& last = plan.layers[end - 1].path;
    text += end == i + 1
                ? fmt::format("#   {}: {}\n", i, plan.layers[i].path)
                : fmt::format("#   {}-{}: {} to {}\n", i, end - 1, plan.layers[i].path, last);
    i = end;
  }
  return text;
}

bool has_several_lists(const LayerPlan& plan) {
  for (const ModelLayer& layer : plan.layers) {
    if (layer.list != plan.layers.front().list) return true;
  }
  return false;
}

}  // namespace

std::string chain_text(const ExportAnswer& answer, const ChainCode& code) {
  const LayerPlan& plan = answer.exported.layers;
  std::string text = code.imports + "\n# Layers of the plan, by place in the order they run:\n" +
                     places_text(plan);
  text += fmt::format("LAYER_COUNT = {}\n", plan.layers.size());
  text +=
      fmt::format("# Layers first to end, without end, that run in one {}, and those inside it.\n",
                  code.checkpoint);
  text += "REGIONS = [\n" + regions_text(plan) + "]\n";
  text += "# How often the forward of each layer runs in a gradient; for tests.\n";
  text += "FORWARD_RUNS = dict([\n" + forward_runs_text(answer) + "])\n";
  return text + std::string(kRunPart) + "\n\n" + code.checkpointed + "\n\n" + code.run_layers;
}

std::string run_layers_text(const std::string& note) {
  return "def run_layers(layers, x, *shared, first=0):\n"
         "    \"\"\"In place of: for layer in layers: x = layer(x, *shared). `first` is the place "
         "of\n"
         "    layers[0] in the plan. " +
         note +
         "\"\"\"\n"
         "    end = first + len(layers)\n"
         "    places = dict(enumerate(layers, first))\n"
         "    return run_part(places, regions_of(first, end), first, end, x, shared)\n";
}

std::vector<std::string> chain_traps(const ExportAnswer& answer, const std::string& framework) {
  std::vector<std::string> traps;
  traps.push_back(fmt::format(
      "peak and FLOPs are of PyTorch's kernels and of what they save; {} has others, so compare "
      "plans by them, and measure the peak",
      framework));
  if (has_several_lists(answer.exported.layers)) {
    traps.emplace_back(
        "the model has several lists of layers: call run_layers for each, with the place of its "
        "first layer as first");
  }
  return traps;
}

}  // namespace cairn
