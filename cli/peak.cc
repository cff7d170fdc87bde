#include "cli/peak.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "cli/table.h"
#include "cli/text.h"
#include "cli/units.h"

namespace cairn {
namespace {

constexpr std::size_t kWidestName = 44;
constexpr std::int64_t kLeastShare = 1000;  // groups below a thousandth are not worth a line

}  // namespace

std::string without_layer_numbers(const std::string& name) {
  std::string result;
  std::size_t part_begin = 0;
  for (std::size_t i = 0; i <= name.size(); ++i) {
    if (i < name.size() && name[i] != '.' && name[i] != ' ') continue;
    const std::string part = name.substr(part_begin, i - part_begin);
    const bool is_number =
        !part.empty() &&
        std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    result += is_number ? "*" : part;
    if (i < name.size()) result += name[i];
    part_begin = i + 1;
  }
  return result;
}

std::vector<LiveGroup> group_live_items(const std::vector<LiveItem>& items) {
  std::vector<LiveGroup> groups;
  std::vector<std::string> names;  // starred, of each group
  std::map<std::pair<std::string, MemoryCategory>, std::size_t> group_of_name;
  for (const LiveItem& item : items) {
    std::string name = without_layer_numbers(item.name);
    const auto [found, is_new] =
        group_of_name.emplace(std::pair(name, item.category), groups.size());
    if (is_new) {
      groups.push_back({.name = item.name, .category = item.category});
      names.push_back(std::move(name));
    }
    LiveGroup& group = groups[found->second];
    if (++group.count == 2) group.name = names[found->second];
    group.bytes += item.bytes;
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const LiveGroup& a, const LiveGroup& b) { return a.bytes > b.bytes; });
  return groups;
}

std::string group_text(const LiveGroup& group) {
  return group.count == 1 ? group.name : fmt::format("{} x {}", group.name, group.count);
}

bool is_training_state(MemoryCategory category) {
  return category == MemoryCategory::kParameters || category == MemoryCategory::kGradients ||
         category == MemoryCategory::kOptimizer;
}

std::string breakdown_text(const Trace& trace) {
  std::vector<std::pair<std::int64_t, std::string>> categories;
  for (std::size_t i = 0; i < kMemoryCategoryCount; ++i) {
    const std::int64_t bytes = trace.peak_breakdown[i];
    if (bytes == 0) continue;
    categories.emplace_back(bytes, memory_category_name(static_cast<MemoryCategory>(i)));
  }
  std::stable_sort(categories.begin(), categories.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  Table table{.columns = {{""}, {"", Align::kRight}, {"", Align::kRight}}};
  for (const auto& [bytes, name] : categories) {
    table.rows.push_back({"  " + name, bytes_text(bytes), share_text(bytes, trace.peak_bytes)});
  }
  return table_text(table);
}

std::string largest_groups_text(const Trace& trace, std::size_t limit, bool with_training_state) {
  Table table{.columns = {{""}, {"", Align::kRight}, {""}}};
  for (const LiveGroup& group : group_live_items(trace.live_at_peak)) {
    if (table.rows.size() == limit || group.bytes < trace.peak_bytes / kLeastShare) break;
    if (!with_training_state && is_training_state(group.category)) continue;
    table.rows.push_back({"  " + elide_middle(group_text(group), kWidestName),
                          bytes_text(group.bytes),
                          std::string(memory_category_name(group.category))});
  }
  return table_text(table);
}

}  // namespace cairn
