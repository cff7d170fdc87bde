#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "models/plan_file.h"
#include "models/write_file.h"

// The writing half of models/plan_file.h.

namespace cairn {
namespace {

constexpr std::size_t kLongestLine = 100;

// Whether YAML reads the text as it stands, as this text: no mark, no null, no comment.
bool is_plain(std::string_view text) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+";
  if (text.empty() || text == "null" || text == "Null" || text == "NULL") return false;
  return text.find_first_not_of(kLetters) == std::string_view::npos &&
         std::string_view("./-+").find(text[0]) == std::string_view::npos;
}

std::string scalar(std::string_view text) {
  if (is_plain(text)) return std::string(text);
  std::string quoted = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') quoted += '\\';
    quoted += character;
  }
  return quoted + '"';
}

// "key: [a, b]" in lines of some length.
std::string list_text(std::size_t indent, std::string_view key,
                      const std::vector<std::string>& items) {
  std::string text = fmt::format("{:{}}{}: [", "", indent, key);
  std::size_t line_length = text.size();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string item = items[i] + (i + 1 == items.size() ? "]" : ",");
    if (i > 0 && line_length + 1 + item.size() > kLongestLine) {
      text += fmt::format("\n{:{}}", "", indent + 2);
      line_length = indent + 2;
    } else if (i > 0) {
      text += " ";
      ++line_length;
    }
    text += item;
    line_length += item.size();
  }
  return text + (items.empty() ? "]\n" : "\n");
}

class PlanWriter {
 public:
  PlanWriter(const Graph& graph, const Plan& plan) : graph_(graph), plan_(plan) {}

  std::string text() const {
    std::string text = fmt::format("cairn_plan: 1\nname: {}\nextent: {}\n", scalar(plan_.algorithm),
                                   extent_name(plan_.extent));
    if (plan_.order != keep_all_plan(graph_).order) {
      std::vector<std::string> names;
      for (const OpId op : plan_.order) names.push_back(scalar(graph_.op(op).name));
      text += list_text(0, "order", names);
    }
    return text + regions_text(plan_.regions, 0);
  }

 private:
  std::string op_at(std::int32_t position) const {
    return scalar(graph_.op(plan_.order[static_cast<std::size_t>(position)]).name);
  }

  std::string regions_text(const std::vector<Region>& regions, std::size_t indent) const {
    if (regions.empty()) return {};
    std::string text = fmt::format("{:{}}regions:\n", "", indent);
    for (const Region& region : regions) text += region_text(region, indent + 2);
    return text;
  }

  std::string region_text(const Region& region, std::size_t indent) const {
    const std::string first = op_at(region.begin);
    const std::string last = op_at(region.end - 1);
    if (region.keep.empty() && region.inner.empty()) {
      return region.end - region.begin == 1
                 ? fmt::format("{:{}}- {{first: {}}}\n", "", indent, first)
                 : fmt::format("{:{}}- {{first: {}, last: {}}}\n", "", indent, first, last);
    }
    std::string text = fmt::format("{:{}}- first: {}\n", "", indent, first);
    if (region.end - region.begin > 1) {
      text += fmt::format("{:{}}last: {}\n", "", indent + 2, last);
    }
    if (!region.keep.empty()) {
      std::vector<std::string> names;
      for (const TensorId kept : region.keep) names.push_back(scalar(graph_.tensor(kept).name));
      text += list_text(indent + 2, "keep", names);
    }
    return text + regions_text(region.inner, indent + 2);
  }

  const Graph& graph_;
  const Plan& plan_;
};

}  // namespace

std::string plan_file_text(const Graph& graph, const Plan& plan) {
  return PlanWriter(graph, plan).text();
}

void write_plan_file(const std::filesystem::path& path, const Graph& graph, const Plan& plan) {
  write_file(path, plan_file_text(graph, plan));
}

}  // namespace cairn
