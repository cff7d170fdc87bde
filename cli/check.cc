#include "cli/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <system_error>

#include "graph/error.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

constexpr double kPercent = 100;

std::vector<fs::path> files_of(const std::vector<std::string>& paths) {
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      files.emplace_back(path);
      continue;
    }
    std::vector<fs::path> in_folder;
    for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
      if (entry.path().extension() == ".yaml") in_folder.push_back(entry.path());
    }
    if (in_folder.empty()) {
      throw InputError(fmt::format("{}: expected a folder with *.yaml, found none in it", path));
    }
    std::sort(in_folder.begin(), in_folder.end());
    files.insert(files.end(), in_folder.begin(), in_folder.end());
  }
  return files;
}

// "median=3%".
MeasuredBound parse_bound(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const std::optional<double> share =
      equals == std::string::npos ? std::nullopt : parse_percent(text.substr(equals + 1));
  MeasuredBound bound{.confidence = 3};
  if (name == "median") bound.median = share;
  if (name == "p90") bound.percentile_90 = share;
  if (name == "worst") bound.worst = share;
  if (!bound.median && !bound.percentile_90 && !bound.worst) {
    throw InputError(fmt::format(
        "--bound: expected median=P%, p90=P% or worst=P%, such as median=3%, found '{}'", text));
  }
  return bound;
}

bool has(const std::vector<std::string>& names, std::string_view name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

bool is_over(const MeasuredBound& bound, const CheckedCase& checked) {
  return checked.computed_bytes && has(bound.metrics, metric_name(checked.measured.metric)) &&
         has(bound.kinds, checked.measured.kind) &&
         (!bound.confidence || *bound.confidence == checked.measured.confidence);
}

CheckedBound checked_bound(const MeasuredBound& bound, const std::vector<CheckedCase>& cases) {
  std::vector<const CheckedCase*> among;
  for (const CheckedCase& checked : cases) {
    if (is_over(bound, checked)) among.push_back(&checked);
  }
  CheckedBound result{.bound = bound, .statistics = error_statistics(among)};
  const ErrorStatistics& statistics = result.statistics;
  result.is_met = (!bound.median || statistics.median <= *bound.median) &&
                  (!bound.percentile_90 || statistics.percentile_90 <= *bound.percentile_90) &&
                  (!bound.worst || statistics.worst <= *bound.worst);
  return result;
}

std::vector<ErrorGroup> groups_of(const std::vector<CheckedCase>& cases) {
  std::map<std::pair<MeasuredMetric, std::int64_t>, std::vector<const CheckedCase*>> by_key;
  for (const CheckedCase& checked : cases) {
    if (!checked.computed_bytes) continue;
    by_key[{checked.measured.metric, -checked.measured.confidence}].push_back(&checked);
  }
  std::vector<ErrorGroup> groups;
  for (const auto& [key, among] : by_key) {
    groups.push_back({.metric = std::string(metric_name(key.first)),
                      .confidence = -key.second,
                      .statistics = error_statistics(among)});
  }
  return groups;
}

void refuse_second(const std::vector<CheckedCase>& cases, const MeasuredCase& measured) {
  for (const CheckedCase& other : cases) {
    if (other.measured.id == measured.id) {
      throw InputError(fmt::format("{}: case '{}': the id is used twice, first in {}",
                                   measured.place, measured.id, other.measured.place));
    }
  }
}

}  // namespace

ErrorStatistics error_statistics(const std::vector<const CheckedCase*>& cases) {
  ErrorStatistics statistics{.count = cases.size()};
  if (cases.empty()) return statistics;
  std::vector<double> errors;
  for (const CheckedCase* const checked : cases) {
    errors.push_back(std::abs(error_of(*checked)));
    if (errors.size() == 1 || errors.back() > statistics.worst) {
      statistics.worst = errors.back();
      statistics.worst_id = checked->measured.id;
    }
  }
  std::sort(errors.begin(), errors.end());
  const std::size_t count = errors.size();
  statistics.median = (errors[(count - 1) / 2] + errors[count / 2]) / 2;
  constexpr std::size_t kNumerator = 9;
  constexpr std::size_t kDenominator = 10;
  const std::size_t rank = (count * kNumerator + kDenominator - 1) / kDenominator;
  statistics.percentile_90 = errors[rank - 1];
  return statistics;
}

CheckAnswer answer_check(const std::vector<std::string>& paths,
                         const std::vector<std::string>& more_bounds) {
  CheckAnswer answer;
  std::vector<MeasuredBound> bounds;
  for (const std::string& text : more_bounds) bounds.push_back(parse_bound(text));
  for (const fs::path& path : files_of(paths)) {
    MeasuredFile file = read_measured_file(read_document(path));
    bounds.insert(bounds.end(), file.bounds.begin(), file.bounds.end());
    for (MeasuredCase& measured : file.cases) {
      refuse_second(answer.cases, measured);
      answer.cases.push_back(check_case(std::move(measured)));
    }
  }
  answer.groups = groups_of(answer.cases);
  for (const MeasuredBound& bound : bounds) {
    answer.bounds.push_back(checked_bound(bound, answer.cases));
  }
  return answer;
}

bool all_bounds_met(const CheckAnswer& answer) {
  return std::all_of(answer.bounds.begin(), answer.bounds.end(),
                     [](const CheckedBound& bound) { return bound.is_met; });
}

std::string bound_scope(const MeasuredBound& bound) {
  std::vector<std::string> parts;
  parts.push_back(bound.metrics.empty() ? "all metrics" : join_names(bound.metrics));
  if (!bound.kinds.empty()) parts.push_back("kind " + join_names(bound.kinds));
  if (bound.confidence) parts.push_back(fmt::format("confidence {}", *bound.confidence));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string bound_limits(const MeasuredBound& bound) {
  std::vector<std::string> parts;
  const auto add = [&](const char* name, const std::optional<double>& limit) {
    if (limit) parts.push_back(fmt::format("{} {:g} %", name, *limit * kPercent));
  };
  add("median", bound.median);
  add("90th percentile", bound.percentile_90);
  add("worst", bound.worst);
  return join_names(parts);
}

std::string error_text(double error) {
  const std::string text = fmt::format("{:+.2f} %", error * kPercent);
  return text == "-0.00 %" ? "+0.00 %" : text;
}

std::string magnitude_text(double error) { return fmt::format("{:.2f} %", error * kPercent); }

}  // namespace cairn
