#include "models/gpu_catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <system_error>

#include "graph/error.h"
#include "models/gpu_file.h"
#include "models/source_text.h"

namespace cairn {
namespace {

// The *.yaml files of folder/gpus, by name; none where there is no such folder.
std::vector<std::filesystem::path> gpu_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  const std::filesystem::path gpus = folder / "gpus";
  if (!std::filesystem::is_directory(gpus, error)) return files;
  std::filesystem::directory_iterator entry(gpus, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == ".yaml") files.push_back(entry->path());
  }
  if (error) {
    throw InputError(
        fmt::format("{}: the folder cannot be read: {}", gpus.string(), error.message()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

void merge(std::vector<GpuEntry>& gpus, GpuEntry entry) {
  const auto found = std::find_if(gpus.begin(), gpus.end(), [&](const GpuEntry& other) {
    return other.device.id == entry.device.id;
  });
  if (found == gpus.end()) {
    gpus.push_back(std::move(entry));
  } else {
    *found = std::move(entry);
  }
}

std::vector<GpuEntry> all_gpus(GpuFile builtin, const std::vector<std::filesystem::path>& folders) {
  std::vector<GpuEntry> gpus = std::move(builtin.entries);
  // The first folder's entry of an id counts, as for every other file: it is merged last.
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    for (const std::filesystem::path& path : gpu_files(*folder)) {
      GpuFile file = read_gpus(read_document(path), builtin.defaults);
      for (GpuEntry& entry : file.entries) merge(gpus, std::move(entry));
    }
  }
  return gpus;
}

// Letters and digits in lower case, without the makers' names: "NVIDIA GeForce RTX 4090" is
// "rtx4090".
std::string normalised(std::string_view name) {
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80u && std::isalnum(byte) != 0) text += static_cast<char>(std::tolower(byte));
  }
  for (const std::string_view maker : {"nvidia", "geforce", "tesla", "amd"}) {
    const std::size_t found = text.find(maker);
    if (found != std::string::npos) text.erase(found, maker.size());
  }
  return text;
}

bool begins_as_number(std::string_view text) {
  return !text.empty() && std::string_view("0123456789.-").find(text.front()) != text.npos;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "24GiB" and "-1" are sizes, right or wrong; "4090" and "3090ti" may yet be parts of a name.
bool is_size(std::string_view text) {
  return begins_as_number(text) &&
         (text.front() == '-' || text.back() == 'b' || text.back() == 'B');
}

DeviceSpec verified(const GpuEntry& entry) {
  if (entry.has_capacity) return entry.device;
  throw InputError(fmt::format(
      "GPU '{}': the catalogue has no verified capacity of the {}; expected its total instead, as "
      "nvidia-smi prints it, such as 24GiB",
      entry.device.id, entry.device.name));
}

DeviceSpec device_of_size(const std::string& text, const GpuDefaults& defaults) {
  DeviceSpec device{.id = text,
                    .name = text + " card",
                    .total_bytes = parse_bytes(text, "GPU"),
                    .total_origin = "as given, taken for the total that nvidia-smi prints",
                    .reserves = {{.what = "driver", .bytes = defaults.driver_gap_bytes},
                                 {.what = "CUDA context", .bytes = defaults.context_bytes},
                                 {.what = "cuBLAS workspace", .bytes = defaults.workspace_bytes}}};
  const char before_last = text.size() < 2 ? ' ' : text[text.size() - 2];
  if (before_last == 'G' || before_last == 'g') {
    device.note = fmt::format("{} is {:.1f} GiB; a card that is sold as 80 GB holds 80GiB", text,
                              static_cast<double>(device.total_bytes) / double{1 << 30});
  }
  if (capacity_bytes(device) > 0) return device;
  const bool has_unit = !is_digit(text.back());
  std::int64_t reserved_bytes = 0;
  for (const MemoryReserve& reserve : device.reserves) reserved_bytes += reserve.bytes;
  throw InputError(fmt::format(
      "GPU: expected a name, or a total above the {} MiB that the driver, CUDA and cuBLAS take, "
      "found {}{}",
      reserved_bytes >> 20, in_quotes(text),
      has_unit ? "" : fmt::format("; did you mean {}GiB?", text)));
}

// The ids that `name` is a part of; of a name that begins with a digit ("4090"), in ids alone.
std::vector<std::string> ids_around(const std::string& name, const std::vector<GpuEntry>& gpus) {
  std::vector<std::string> ids;
  if (name.empty()) return ids;
  const bool ids_only = begins_as_number(name);
  for (const GpuEntry& entry : gpus) {
    const bool in_id = normalised(entry.device.id).find(name) != std::string::npos;
    const bool in_name = !ids_only && normalised(entry.device.name).find(name) != std::string::npos;
    if (in_id || in_name) ids.push_back(entry.device.id);
  }
  return ids;
}

[[noreturn]] void refuse_name(const std::string& text, const std::vector<GpuEntry>& gpus) {
  const std::string begin = "GPU " + in_quotes(text) + ": ";
  const std::vector<std::string> around = ids_around(normalised(text), gpus);
  if (around.size() > 1) {
    throw InputError(begin + "several cards fit; expected one of: " + join_names(around) +
                     (begins_as_number(text) ? "; or a total with its unit, such as 24GiB" : ""));
  }
  std::vector<std::string> ids;
  for (const GpuEntry& entry : gpus) ids.push_back(entry.device.id);
  const std::string nearest = around.size() == 1 ? around[0] : nearest_name(text, ids);
  const std::string offer = nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
  throw InputError(begin + "expected a GPU of the catalogue, or a card's total such as 24GiB" +
                   offer);
}

}  // namespace

std::vector<GpuEntry> list_gpus(const std::vector<std::filesystem::path>& folders) {
  return all_gpus(read_builtin_gpus(), folders);
}

DeviceSpec find_gpu(const std::string& name_or_size,
                    const std::vector<std::filesystem::path>& folders) {
  GpuFile builtin = read_builtin_gpus();
  const GpuDefaults defaults = builtin.defaults;
  const std::vector<GpuEntry> gpus = all_gpus(std::move(builtin), folders);
  for (const GpuEntry& entry : gpus) {
    if (entry.device.id == name_or_size) return verified(entry);
  }
  if (is_size(name_or_size)) return device_of_size(name_or_size, defaults);
  const std::string name = normalised(name_or_size);
  std::vector<const GpuEntry*> matches;
  for (const GpuEntry& entry : gpus) {
    const bool fits = name == normalised(entry.device.id) || name == normalised(entry.device.name);
    if (fits && !name.empty()) matches.push_back(&entry);
  }
  if (matches.size() == 1) return verified(*matches[0]);
  const bool may_be_size = begins_as_number(name_or_size) && ids_around(name, gpus).empty();
  if (may_be_size) return device_of_size(name_or_size, defaults);
  refuse_name(name_or_size, gpus);
}

}  // namespace cairn
