#include "executor/live_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "graph/grouped_text.h"

namespace cairn {
namespace {

constexpr std::size_t kMostListed = 8;

}  // namespace

std::vector<LiveArray> live_arrays(const Graph& graph, const Holders& tensors,
                                   const Gradients& gradients) {
  std::vector<LiveArray> live;
  std::set<const Block*> listed;
  const auto add = [&](const Array& array, std::string name) {
    if (listed.insert(array.block.get()).second) {
      live.push_back({.name = std::move(name), .bytes = array.block->bytes});
    }
  };
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const auto id = static_cast<TensorId>(i);
    const std::string& name = graph.tensors[i].name;
    if (tensors.holds(id)) add(tensors[id], name);
    if (gradients.holds(id)) add(gradients[id], "gradient of " + name);
  }
  return live;
}

std::string largest_text(std::vector<LiveArray> live, std::int64_t live_bytes) {
  std::stable_sort(live.begin(), live.end(),
                   [](const LiveArray& a, const LiveArray& b) { return a.bytes > b.bytes; });
  std::string text =
      fmt::format("\nlive outside of this step are {} bytes:", grouped_text(live_bytes));
  std::int64_t rest = live_bytes;
  for (std::size_t i = 0; i < std::min(kMostListed, live.size()); ++i) {
    text += fmt::format("\n  {:>15}  {}", grouped_text(live[i].bytes), live[i].name);
    rest -= live[i].bytes;
  }
  if (rest > 0) text += fmt::format("\n  {:>15}  in others", grouped_text(rest));
  return text;
}

}  // namespace cairn
