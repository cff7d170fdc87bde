#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/model_options.h"
#include "export/export_plan.h"
#include "graph/device_spec.h"
#include "models/load_model.h"

// `cairn export` in three steps: choose the plan, say it to the trainer, print what came of it.

namespace cairn {

struct ExportOptions {
  ModelOptions model = {};
  std::optional<std::string> gpu = {};
  std::optional<std::string> checkpointing = {};
  std::optional<std::string> extent = {};
  std::optional<std::string> plan = {};
  std::optional<std::string> target = {};
  std::optional<std::string> budget = {};
  std::optional<std::string> output = {};
  bool best = false;
  bool force = false;
  bool list = false;
  bool json = false;
};

struct ExportReport {
  LoadedModel model = {};
  std::optional<DeviceSpec> gpu = {};
  ExportAnswer answer = {};  // refers to the graph in `model`
};

// Made in place, for the answer refers to it. Throws InputError.
void make_export_report(const ExportOptions& options, ExportReport& report);

// The emitted text below a header of comments, where the format has them.
std::string exported_text(const ExportReport& report);
// Whether a file begins as exported_text() does.
bool is_exported_text(const std::string& text);
// One sentence.
std::string export_verdict(const ExportReport& report);
std::string export_text(const ExportReport& report);
std::string export_json(const ExportReport& report);

std::string export_targets_text();
std::string export_targets_json();

}  // namespace cairn
