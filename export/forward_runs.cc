#include "export/forward_runs.h"

#include <algorithm>

namespace cairn {
namespace {

class ForwardRuns {
 public:
  explicit ForwardRuns(ExportAnswer& answer)
      : answer_(answer), recomputes_(answer.graph->ops.size(), 0) {
    for (const Step& step : answer.exported.evaluation.schedule.steps) {
      if (step.kind == StepKind::kRecompute && step.micro_batch == 0) {
        ++recomputes_[index(step.op)];
      }
    }
  }

  void count() {
    for (const ModelLayer& layer : answer_.exported.layers.layers) {
      answer_.layer_runs.push_back(runs(layer.begin, layer.end));
    }
    add_modules(answer_.exported.layers.regions);
  }

 private:
  void add_modules(const std::vector<LayerRegion>& regions) {
    for (const LayerRegion& region : regions) {
      add_modules(region.inner);
      if (region.first_layer >= 0) continue;
      for (const std::string& path : region.modules) add_module(path);
    }
  }

  void add_module(const std::string& path) {
    std::int32_t begin = -1;
    std::int32_t end = 0;
    for (std::size_t i = 0; i < answer_.graph->ops.size(); ++i) {
      const std::string& module = answer_.graph->ops[i].module;
      if (module != path && !module.starts_with(path + ".")) continue;
      if (begin < 0) begin = static_cast<std::int32_t>(i);
      end = static_cast<std::int32_t>(i) + 1;
    }
    if (begin >= 0) answer_.module_runs.emplace_back(path, runs(begin, end));
  }

  // 1 and how often the ops there are run again: all at a time but those of smaller regions there,
  // which are run again by themselves, and those that an early stop leaves out.
  std::int64_t runs(std::int32_t begin, std::int32_t end) const {
    std::vector<bool> is_smaller(recomputes_.size(), false);
    mark_smaller(answer_.exported.layers.regions, begin, end, is_smaller);
    std::int64_t most = 0;
    bool is_any = false;
    for (std::int32_t i = begin; i < end; ++i) {
      const auto op = static_cast<std::size_t>(i);
      if (is_smaller[op] || !answer_.graph->ops[op].has_backward) continue;
      most = std::max(most, recomputes_[op]);
      is_any = true;
    }
    return 1 + (is_any ? most : around(answer_.exported.layers.regions, begin, end));
  }

  static void mark_smaller(const std::vector<LayerRegion>& regions, std::int32_t begin,
                           std::int32_t end, std::vector<bool>& is_smaller) {
    for (const LayerRegion& region : regions) {
      const bool is_inside = region.begin >= begin && region.end <= end;
      const bool is_all = region.begin == begin && region.end == end;
      if (is_inside && !is_all) {
        std::fill(is_smaller.begin() + region.begin, is_smaller.begin() + region.end, true);
      }
      mark_smaller(region.inner, begin, end, is_smaller);
    }
  }

  // Regions that hold all of it.
  static std::int64_t around(const std::vector<LayerRegion>& regions, std::int32_t begin,
                             std::int32_t end) {
    std::int64_t count = 0;
    for (const LayerRegion& region : regions) {
      if (region.begin > begin || region.end < end) continue;
      count += 1 + around(region.inner, begin, end);
    }
    return count;
  }

  ExportAnswer& answer_;
  std::vector<std::int64_t> recomputes_ = {};
};

}  // namespace

void count_forward_runs(ExportAnswer& answer) { ForwardRuns(answer).count(); }

}  // namespace cairn
