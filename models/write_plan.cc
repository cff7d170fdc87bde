#include <fmt/format.h>

#include <string>
#include <vector>

#include "graph/error.h"
#include "models/plan_file.h"
#include "models/source_text.h"
#include "models/write_file.h"
#include "models/yaml_text.h"

// The writing half of models/plan_file.h.

namespace cairn {
namespace {

class PlanWriter {
 public:
  PlanWriter(const Graph& graph, const Plan& plan) : graph_(graph), plan_(plan) {}

  std::string text(const PlanOrigin& origin) const {
    std::string text = fmt::format("cairn_plan: 1\nname: {}\nextent: {}\n",
                                   yaml_scalar(plan_.algorithm), extent_name(plan_.extent));
    text += plan_origin_text(origin);
    if (plan_.order != keep_all_plan(graph_).order) {
      std::vector<std::string> names;
      for (const OpId op : plan_.order) names.push_back(yaml_scalar(graph_.op(op).name));
      text += yaml_list_lines(0, "order", names);
    }
    return text + regions_text(plan_.regions, 0);
  }

 private:
  std::string op_at(std::int32_t position) const {
    return yaml_scalar(graph_.op(plan_.order[static_cast<std::size_t>(position)]).name);
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
      for (const TensorId kept : region.keep)
        names.push_back(yaml_scalar(graph_.tensor(kept).name));
      text += yaml_list_lines(indent + 2, "keep", names);
    }
    return text + regions_text(region.inner, indent + 2);
  }

  const Graph& graph_;
  const Plan& plan_;
};

}  // namespace

std::string plan_file_text(const Graph& graph, const Plan& plan, const PlanOrigin& origin) {
  return PlanWriter(graph, plan).text(origin);
}

void write_plan_file(const std::filesystem::path& path, const Graph& graph, const Plan& plan) {
  write_file(path, plan_file_text(graph, plan));
}

void write_plan_file(const std::filesystem::path& path, const ModelRequest& request,
                     const LoadedModel& model, const Plan& plan) {
  const PlanOrigin origin = seen_from(plan_origin(request, model, plan), path.parent_path());
  const std::string text = plan_file_text(model.graph, plan, origin);
  if (find_non_utf8_byte(text) != std::string::npos) {
    throw InputError(path.string() +
                     ": a plan file is UTF-8: a path or pattern of the model's options is not");
  }
  write_file(path, text);
}

}  // namespace cairn
