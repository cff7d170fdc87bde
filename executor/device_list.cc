#include "executor/device_list.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "executor/cuda/device_cuda.h"
#include "graph/error.h"

namespace cairn {
namespace {

constexpr std::string_view kNumbered = "cuda:";

// N of "cuda:N".
std::optional<int> number_of(std::string_view name) {
  if (name.substr(0, kNumbered.size()) != kNumbered) return std::nullopt;
  const char* const begin = name.data() + kNumbered.size();
  const char* const end = name.data() + name.size();
  int number = 0;
  const auto [stop, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || stop != end || number < 0) return std::nullopt;
  return number;
}

}  // namespace

std::unique_ptr<Device> make_device(std::string_view name) {
  if (name == "cpu") return make_cpu_device();
  const std::optional<int> number = name == "cuda" ? 0 : number_of(name);
  if (!number) {
    throw InputError(fmt::format("--device: expected cpu, cuda or cuda:N, found '{}'{}", name,
                                 did_you_mean(name, {"cpu", "cuda", "cuda:0"})));
  }
  try {
    return make_cuda_device(*number);
  } catch (const DeviceError& error) {
    throw DeviceError(fmt::format("--device {}: {}", name, error.what()));
  }
}

}  // namespace cairn
