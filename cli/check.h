#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/check_case.h"
#include "cli/json.h"

// `cairn check`: published measurements held against the simulator.

namespace cairn {

// Of the sizes of the errors of some cases, as shares.
struct ErrorStatistics {
  std::size_t count = 0;
  double median = 0;         // of an even number, the mean of the two in the middle
  double percentile_90 = 0;  // the smallest error that at least 90 % of the cases do not pass
  double worst = 0;
  std::string worst_id = {};
};

// All cases of one metric and confidence.
struct ErrorGroup {
  std::string metric = {};
  std::int64_t confidence = 0;
  ErrorStatistics statistics = {};
};

struct CheckedBound {
  MeasuredBound bound = {};
  ErrorStatistics statistics = {};  // of the cases that it is over
  bool is_met = true;
};

struct CheckAnswer {
  std::vector<CheckedCase> cases = {};  // in the order of the files
  std::vector<ErrorGroup> groups = {};  // by metric, as in models/measured_file.h; 3 to 1
  std::vector<CheckedBound> bounds = {};
};

ErrorStatistics error_statistics(const std::vector<const CheckedCase*>& cases);

// Files, and of folders all *.yaml in them, by name. `more_bounds` are over the cases of
// confidence 3. Throws InputError.
CheckAnswer answer_check(const std::vector<std::string>& paths,
                         const std::vector<std::string>& more_bounds);
bool all_bounds_met(const CheckAnswer& answer);

// "peak_bytes, resident_bytes of confidence 3".
std::string bound_scope(const MeasuredBound& bound);
// "median 3 %, 90th percentile 8 %".
std::string bound_limits(const MeasuredBound& bound);
// "+2.1 %", "-0.4 %"; "2.1 %" of one without a sign.
std::string error_text(double error);
std::string magnitude_text(double error);

std::string check_text(const CheckAnswer& answer);
std::string check_json(const CheckAnswer& answer);
std::string check_markdown(const CheckAnswer& answer);

}  // namespace cairn
