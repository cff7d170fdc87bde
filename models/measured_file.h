#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/plan.h"
#include "models/document.h"
#include "models/find_model.h"
#include "models/model_request.h"

// Measurement files: what somebody published of a training run's memory, and the run it was, so
// that the program can be held against it. docs/formats.md describes them.

namespace cairn {

// What was measured. What each is in a simulated step, cli/check_case.h says.
enum class MeasuredMetric {
  kPeakBytes,
  kResidentBytes,
  kTransientBytes,
  kDeviceBytes,
  kReservedBytes,
  kAllocationBytes,
  kSavedBytesPerLayer,
  kOptimizerStateBytes,
  kLoadedBytes,
};

// "peak_bytes", ..., as files, reports and JSON name them.
std::string_view metric_name(MeasuredMetric metric);

// A model, how it is trained, and with which checkpoints.
struct MeasuredRun {
  ModelRequest request = {};
  std::optional<FoundModel> model = {};  // stated in the file itself; else request.model names it
  std::string checkpointing = "none";
  Extent extent = Extent::kPrefix;
};

struct MeasuredCase {
  std::string id = {};
  std::string kind = {};
  std::optional<MeasuredRun> run = {};    // may be absent where the case is not modelled
  std::optional<MeasuredRun> minus = {};  // the number is that of `run` less that of this
  MeasuredMetric metric = MeasuredMetric::kPeakBytes;
  std::string value_text = {};   // as published: "60.0 GiB"
  std::int64_t value_bytes = 0;  // the same
  std::string gpu = {};          // "": none named
  std::int64_t context_bytes = 0;
  std::optional<std::int64_t> cublas_workspace_bytes = {};  // of one handle, where the run set it
  std::int64_t library_workspace_bytes = 0;  // what a library that ran makes once and keeps
  std::string source = {};
  std::string date = {};
  std::int64_t confidence = 1;
  std::optional<bool> is_blind = {};  // whether the rules were there before the number was seen
  std::string not_modelled = {};      // why; "" for a case that counts
  std::string known = {};             // what is known about a miss
  std::string place = {};             // "full_step.yaml:12:5", for messages
};

// What the errors of some cases must not pass: shares, 0.03 is 3 %.
struct MeasuredBound {
  std::vector<std::string> metrics = {};  // empty: all
  std::vector<std::string> kinds = {};    // empty: all
  std::optional<std::int64_t> confidence = {};
  std::optional<double> median = {};
  std::optional<double> percentile_90 = {};
  std::optional<double> worst = {};
};

struct MeasuredFile {
  std::vector<MeasuredBound> bounds = {};
  std::vector<MeasuredCase> cases = {};
};

// Throws InputError at the place of the fault. Models are found, but not yet read as such.
MeasuredFile read_measured_file(const Document& document);

// A share from "3 %" or "3%"; empty for what is none.
std::optional<double> parse_percent(std::string_view text);

}  // namespace cairn
