#include "planner/target.h"

#include <array>
#include <utility>

#include "graph/error.h"

namespace cairn {
namespace {

constexpr std::array<std::pair<Target, std::string_view>, 6> kNames = {{
    {Target::kAny, "any"},
    {Target::kTorch, "torch"},
    {Target::kHf, "hf"},
    {Target::kMegatron, "megatron"},
    {Target::kTorchtitan, "torchtitan"},
    {Target::kJax, "jax"},
}};

}  // namespace

std::string_view target_name(Target target) {
  for (const auto& [named, name] : kNames) {
    if (named == target) return name;
  }
  CAIRN_CHECK(false, "unknown target");
}

std::optional<Target> find_target(std::string_view name) {
  for (const auto& [target, known] : kNames) {
    if (known == name) return target;
  }
  return std::nullopt;
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const auto& [target, name] : kNames) names.emplace_back(name);
  return names;
}

bool runs_all_plans(Target target) {
  return target == Target::kAny || target == Target::kTorch || target == Target::kJax;
}

bool runs_algorithm(Target target, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kNone:
    case Algorithm::kEveryLayer:
    case Algorithm::kAuto:
      return true;
    case Algorithm::kUniform:
    case Algorithm::kSqrt:
      return runs_all_plans(target) || target == Target::kMegatron;
    case Algorithm::kSelective:
      return runs_all_plans(target) || target == Target::kTorchtitan;
    case Algorithm::kChain:
      return runs_all_plans(target) || target == Target::kHf;
    case Algorithm::kChenGreedy:
    case Algorithm::kRevolve:
      return runs_all_plans(target);
  }
  CAIRN_CHECK(false, "unknown algorithm");
}

bool runs_keep_lists(Target target) { return runs_all_plans(target); }

Extent target_extent(Target target) {
  switch (target) {
    case Target::kAny:
    case Target::kJax:
      return Extent::kNeeded;
    case Target::kTorch:
    case Target::kHf:
      return Extent::kPrefix;
    case Target::kMegatron:
    case Target::kTorchtitan:
      return Extent::kWhole;
  }
  CAIRN_CHECK(false, "unknown target");
}

}  // namespace cairn
