#include "models/gpu_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "graph/error.h"
#include "models/embedded_files.h"
#include "models/fields.h"

namespace cairn {
namespace {

constexpr std::string_view kBuiltinPath = "gpus/gpus.yaml";
constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr double kMaxGiB = 1 << 20;     // 1024 TiB
constexpr double kMaxRate = 1'000'000;  // an EFLOP/s, a PB/s
constexpr double kMaxLaunchUs = 1'000'000;

// A number above zero and at most `max`.
double number_up_to(const Document& document, const Node& node, const std::string& what,
                    double max) {
  const double value = to_number(document, node, what);
  if (value > 0 && value <= max) return value;
  fail_at(document, node.position,
          fmt::format("{}: expected a number above 0 and at most {:.0f}, found {}", what, max,
                      describe(node)));
}

std::optional<double> optional_up_to(const Document& document, Fields& fields, std::string_view key,
                                     double max) {
  const Node* node = fields.find(key);
  if (node == nullptr) return std::nullopt;
  return number_up_to(document, *node, fields.what_of(key), max);
}

// A whole number of `unit` bytes, above zero and at most 1024 TiB together.
std::optional<std::int64_t> optional_bytes(const Document& document, Fields& fields,
                                           std::string_view key, std::int64_t unit) {
  const Node* node = fields.find(key);
  if (node == nullptr) return std::nullopt;
  const std::int64_t value = fields.integer(key);
  const std::int64_t max = (std::int64_t{1} << 50) / unit;
  if (value > 0 && value <= max) return value * unit;
  fail_at(document, node->position,
          fmt::format("{}: expected an integer from 1 to {}, found {}", fields.what_of(key), max,
                      describe(*node)));
}

// GiB of a few decimals; scaling by a power of two is exact.
double bytes_of_gib(double gib) { return std::ldexp(gib, 30); }

void read_workspaces(const Document& document, Fields& defaults, GpuDefaults& result) {
  const Node* node = defaults.find("cublas_workspace_bytes");
  if (node == nullptr) return;
  Fields fields(document, *node, defaults.what_of("cublas_workspace_bytes"));
  const auto read = [&](std::string_view key, std::int64_t& bytes) {
    bytes = optional_bytes(document, fields, key, 1).value_or(bytes);
  };
  read("default", result.workspace_bytes);
  read("sm90_sm100_sm120", result.workspace_sm90_bytes);
  read("rocm", result.workspace_rocm_bytes);
  read("gfx94x_gfx95x", result.workspace_gfx94x_bytes);
  fields.refuse_unknown();
}

GpuDefaults read_defaults(const Document& document, const Node& node,
                          const GpuDefaults& inherited) {
  GpuDefaults result = inherited;
  Fields fields(document, node, "GPU defaults");
  result.driver_gap_bytes =
      optional_bytes(document, fields, "driver_gap_mib", kMiB).value_or(result.driver_gap_bytes);
  if (const auto gib = optional_up_to(document, fields, "context_gib", kMaxGiB)) {
    result.context_bytes = static_cast<std::int64_t>(std::ceil(bytes_of_gib(*gib)));
  }
  read_workspaces(document, fields, result);
  const auto read_fraction = [&](std::string_view key, double& fraction) {
    fraction = optional_up_to(document, fields, key, 1).value_or(fraction);
  };
  read_fraction("matmul_fraction", result.matmul_fraction);
  read_fraction("matmul_fraction_cdna", result.matmul_fraction_cdna);
  read_fraction("bandwidth_fraction", result.bandwidth_fraction);
  if (const auto us = optional_up_to(document, fields, "launch_us", kMaxLaunchUs)) {
    result.launch_ns = std::llround(*us * 1000);
  }
  fields.refuse_unknown();
  return result;
}

// Reads the keys that no answer uses yet, so that their values are right and others are refused.
void read_facts(const Document& document, Fields& fields) {
  for (const std::string_view key : {"host_gbps_per_dir", "nvlink_total_gbs"}) {
    const std::optional<double> value = fields.optional_number(key);
    if (value && (*value < 0 || *value > kMaxRate)) {
      fail_at(
          document, fields.find(key)->position,
          fields.what_of(key) + ": expected a rate in GB/s, found " + describe(*fields.find(key)));
    }
  }
  fields.optional_text("host_link");
  fields.optional_names("sources");
}

void read_total(const Document& document, Fields& fields, const GpuDefaults& defaults,
                GpuEntry& entry) {
  const auto smi_bytes = optional_bytes(document, fields, "nvidia_smi_total_mib", kMiB);
  double smallest_gib = std::numeric_limits<double>::infinity();
  if (fields.find("torch_total_gib_seen") != nullptr) {
    for (const Node& seen : fields.list("torch_total_gib_seen")) {
      const std::string what = fields.what_of("torch_total_gib_seen");
      smallest_gib = std::min(smallest_gib, number_up_to(document, seen, what, kMaxGiB));
    }
  }
  DeviceSpec& device = entry.device;
  if (std::isfinite(smallest_gib)) {
    device.total_bytes = static_cast<std::int64_t>(std::floor(bytes_of_gib(smallest_gib)));
    device.total_origin = fmt::format("smallest total that PyTorch printed, {} GiB", smallest_gib);
  } else if (smi_bytes) {
    device.total_bytes = *smi_bytes - defaults.driver_gap_bytes;
    device.total_origin = fmt::format("nvidia-smi's {} MiB less {} MiB for the driver",
                                      *smi_bytes / kMiB, defaults.driver_gap_bytes / kMiB);
  } else {
    return;
  }
  entry.has_capacity = true;
  if (capacity_bytes(device) == 0) {
    fields.fail("its total leaves nothing behind what the driver, CUDA and cuBLAS take");
  }
}

void read_rates(const Document& document, Fields& fields, const GpuDefaults& defaults, bool is_cdna,
                DeviceSpec& device) {
  const auto read = [&](std::string_view key) {
    return optional_up_to(document, fields, key, kMaxRate);
  };
  const std::optional<double> bf16 = read("bf16_dense_tflops");
  const std::optional<double> fp16 = read("fp16_dense_tflops");
  const std::optional<double> fp32 = read("fp32_tflops");
  const std::optional<double> achievable = read("achievable_bf16_tflops");
  const std::optional<double> bandwidth = read("mem_bw_gbs");
  const std::optional<double> peak = bf16 ? bf16 : fp16;  // before Ampere, fp16 only
  if (!(achievable || peak) || !fp32 || !bandwidth) return;
  const double fraction = is_cdna ? defaults.matmul_fraction_cdna : defaults.matmul_fraction;
  device.has_rates = true;
  device.lacks_bf16 = !achievable && !bf16;
  device.matmul_16bit_flops = (achievable ? *achievable : *peak * fraction) * 1e12;
  device.matmul_fp32_flops = *fp32 * fraction * 1e12;
  device.bandwidth_bytes = *bandwidth * defaults.bandwidth_fraction * 1e9;
  device.launch_ns = defaults.launch_ns;
}

std::int64_t workspace_bytes(const std::string& compute, bool is_cdna,
                             const GpuDefaults& defaults) {
  if (is_cdna) {
    const bool is_gfx94x = compute.starts_with("gfx94") || compute.starts_with("gfx95");
    return is_gfx94x ? defaults.workspace_gfx94x_bytes : defaults.workspace_rocm_bytes;
  }
  for (const std::string_view major : {"9.0", "10.", "12."}) {
    if (compute.starts_with(major)) return defaults.workspace_sm90_bytes;
  }
  return defaults.workspace_bytes;
}

std::string read_id(const Document& document, const Node& node) {
  Fields fields(document, node, "GPU");
  std::string id = fields.text("id");
  const bool is_letter =
      !id.empty() && ((id[0] >= 'a' && id[0] <= 'z') || (id[0] >= 'A' && id[0] <= 'Z'));
  if (!is_letter) {
    fail_at(document, fields.find("id")->position,
            "GPU: key 'id': expected a name that begins with a letter, found " +
                describe(*fields.find("id")));
  }
  return id;
}

GpuEntry read_entry(const Document& document, const Node& node, const GpuDefaults& defaults) {
  GpuEntry entry;
  DeviceSpec& device = entry.device;
  device.id = read_id(document, node);
  Fields fields(document, node, "GPU '" + device.id + "'");
  fields.text("id");
  device.name = fields.text("name");
  entry.arch = fields.optional_text("arch").value_or("");
  const bool is_cdna = entry.arch.starts_with("cdna");
  const std::string compute = fields.optional_text("compute").value_or("");
  device.reserves = {
      {.what = is_cdna ? "ROCm context" : "CUDA context", .bytes = defaults.context_bytes},
      {.what = is_cdna ? "hipBLAS workspace" : "cuBLAS workspace",
       .bytes = workspace_bytes(compute, is_cdna, defaults)}};
  read_total(document, fields, defaults, entry);
  read_rates(document, fields, defaults, is_cdna, device);
  read_facts(document, fields);
  entry.note = fields.optional_text("note").value_or("");
  entry.confidence = fields.optional_text("confidence").value_or("");
  const std::vector<std::string> grades = {"low", "med", "high", ""};
  if (std::find(grades.begin(), grades.end(), entry.confidence) == grades.end()) {
    fail_at(document, fields.find("confidence")->position,
            fields.what_of("confidence") + ": expected low, med or high, found " +
                describe(*fields.find("confidence")));
  }
  fields.refuse_unknown();
  return entry;
}

}  // namespace

GpuFile read_gpus(const Document& document, const GpuDefaults& inherited) {
  GpuFile file{.defaults = inherited};
  Fields fields(document, document.root, "GPU file");
  fields.find("sources");  // prose, for readers of the file
  if (const Node* defaults = fields.find("defaults")) {
    file.defaults = read_defaults(document, *defaults, inherited);
  }
  for (const Node& node : fields.list("gpus")) {
    GpuEntry entry = read_entry(document, node, file.defaults);
    const bool is_repeated =
        std::any_of(file.entries.begin(), file.entries.end(),
                    [&](const GpuEntry& other) { return other.device.id == entry.device.id; });
    if (is_repeated) {
      fail_at(document, node.position, "GPU '" + entry.device.id + "': the file has it twice");
    }
    file.entries.push_back(std::move(entry));
  }
  fields.refuse_unknown();
  return file;
}

GpuFile read_builtin_gpus() {
  const EmbeddedFile* file = find_embedded_file(kBuiltinPath);
  CAIRN_CHECK(file != nullptr, std::string(kBuiltinPath));
  return read_gpus(parse_document("models/" + std::string(kBuiltinPath), std::string(file->text)),
                   {});
}

}  // namespace cairn
