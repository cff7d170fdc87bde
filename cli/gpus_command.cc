#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <memory>

#include "cli/command.h"
#include "cli/json.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/units.h"
#include "models/gpu_catalogue.h"

namespace cairn {
namespace {

struct GpusOptions {
  std::string part = {};
  std::vector<std::string> folders = {};
  bool json = false;
};

bool contains_ignoring_case(const std::string& text, const std::string& part) {
  const auto is_same = [](unsigned char a, unsigned char b) {
    return std::tolower(a) == std::tolower(b);
  };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), is_same) != text.end() ||
         part.empty();
}

std::string gpus_text(const std::vector<GpuEntry>& entries) {
  Table table{.columns = {{"GPU"},
                          {"total", Align::kRight},
                          {"for\ntensors", Align::kRight},
                          {"16-bit\nmatmul", Align::kRight},
                          {"memory\nbandwidth", Align::kRight},
                          {"name"}}};
  for (const GpuEntry& entry : entries) {
    const DeviceSpec& gpu = entry.device;
    table.rows.push_back({gpu.id, entry.has_capacity ? bytes_text(gpu.total_bytes) : "-",
                          entry.has_capacity ? bytes_text(capacity_bytes(gpu)) : "-",
                          gpu.has_rates ? rate_text(gpu.matmul_16bit_flops, "FLOP/s") : "-",
                          gpu.has_rates ? rate_text(gpu.bandwidth_bytes, "B/s") : "-", gpu.name});
  }
  std::string text = table_text(table);
  const bool has_unverified = std::any_of(
      entries.begin(), entries.end(),
      [](const GpuEntry& entry) { return !entry.has_capacity || !entry.device.has_rates; });
  if (has_unverified) text += "-: not verified; give the card's size instead, as in --gpu 24GiB\n";
  return text;
}

std::string gpus_json(const std::vector<GpuEntry>& entries) {
  Json document = new_document();
  document["gpus"] = Json::array();
  for (const GpuEntry& entry : entries) {
    const DeviceSpec& gpu = entry.device;
    Json json = {{"id", gpu.id}, {"name", gpu.name}, {"arch", entry.arch}};
    json["total_bytes"] = entry.has_capacity ? Json(gpu.total_bytes) : Json();
    json["total_origin"] = gpu.total_origin;
    json["reserves"] = Json::array();
    for (const MemoryReserve& reserve : gpu.reserves) {
      json["reserves"].push_back({{"what", reserve.what}, {"bytes", reserve.bytes}});
    }
    json["capacity_bytes"] = entry.has_capacity ? Json(capacity_bytes(gpu)) : Json();
    json["matmul_16bit_flops"] = gpu.has_rates ? Json(gpu.matmul_16bit_flops) : Json();
    json["matmul_fp32_flops"] = gpu.has_rates ? Json(gpu.matmul_fp32_flops) : Json();
    json["bandwidth_bytes"] = gpu.has_rates ? Json(gpu.bandwidth_bytes) : Json();
    json["note"] = entry.note;
    document["gpus"].push_back(std::move(json));
  }
  return json_text(document);
}

ExitCode run_gpus(const GpusOptions& options) {
  std::vector<GpuEntry> entries = list_gpus(folder_paths(options.folders));
  std::erase_if(entries, [&](const GpuEntry& entry) {
    return !contains_ignoring_case(entry.device.id, options.part) &&
           !contains_ignoring_case(entry.device.name, options.part);
  });
  write_output(options.json ? gpus_json(entries) : gpus_text(entries));
  if (entries.empty()) write_error("no GPU has '" + options.part + "' in its name");
  return ExitCode::kDone;
}

}  // namespace

Command add_gpus_command(CLI::App& app) {
  const auto options = std::make_shared<GpusOptions>();
  CLI::App* const command = app.add_subcommand("gpus", "The GPUs Cairn knows by name");
  command->add_option("PART", options->part, "List those with this in their name")->type_name("");
  add_folder_option(*command, options->folders);
  add_json_option(*command, options->json);
  command->footer("Example: cairn gpus a100");
  return {.app = command, .run = [options] { return run_gpus(*options); }};
}

}  // namespace cairn
