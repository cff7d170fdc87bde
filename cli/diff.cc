#include "cli/diff.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "cli/peak.h"

namespace cairn {

std::vector<PeakDifference> peak_differences(const Trace& a, const Trace& b) {
  std::map<std::pair<MemoryCategory, std::string>, PeakDifference> groups;
  const auto add = [&](const Trace& trace, std::int64_t PeakDifference::*bytes) {
    for (const LiveItem& item : trace.live_at_peak) {
      const std::string name = without_layer_numbers(item.name);
      PeakDifference& group = groups[{item.category, name}];
      group.name = name;
      group.category = item.category;
      group.*bytes += item.bytes;
    }
  };
  add(a, &PeakDifference::a_bytes);
  add(b, &PeakDifference::b_bytes);
  std::vector<PeakDifference> differences;
  for (const auto& [key, group] : groups) {
    if (group.a_bytes != group.b_bytes) differences.push_back(group);
  }
  std::stable_sort(differences.begin(), differences.end(),
                   [](const PeakDifference& x, const PeakDifference& y) {
                     return std::abs(x.b_bytes - x.a_bytes) > std::abs(y.b_bytes - y.a_bytes);
                   });
  return differences;
}

}  // namespace cairn
