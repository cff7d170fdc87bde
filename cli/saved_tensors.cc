#include "cli/saved_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <cstring>
#include <fstream>
#include <map>
#include <string>

#include "executor/functors/elements.h"
#include "graph/error.h"

namespace cairn {
namespace {

// NumPy's name of the type that is written.
std::string numpy_type(DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return "<f8";
    case DataType::kInt64:
      return "<i8";
    case DataType::kInt32:
      return "<i4";
    case DataType::kBool:
      return "|b1";
    default:
      return "<f4";
  }
}

std::vector<std::uint8_t> widened(const std::vector<std::uint8_t>& bf16) {
  std::vector<std::uint8_t> wide(2 * bf16.size());
  for (std::size_t i = 0; i + 1 < bf16.size(); i += 2) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, &bf16[i], sizeof(bits));
    const float value = float_of_bf16(bits);
    std::memcpy(&wide[2 * i], &value, sizeof(value));
  }
  return wide;
}

// numpy.lib.format, version 1.0: the header fills up to a multiple of 64 bytes.
std::string npy_header(DataType type, const Shape& shape) {
  std::string dict =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", numpy_type(type),
                  fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  constexpr std::size_t kBefore = 10;  // magic, version, length
  dict.append(63 - (kBefore + dict.size()) % 64, ' ');
  dict += '\n';
  std::string header = "\x93NUMPY";
  header += '\x01';
  header += '\0';
  header += static_cast<char>(dict.size() % 256);
  header += static_cast<char>(dict.size() / 256);
  return header + dict;
}

std::string file_name(const std::string& tensor, bool is_gradient) {
  std::string name;
  for (const char c : tensor) {
    const bool is_plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
    name += is_plain ? c : '_';
  }
  return name + (is_gradient ? ".grad.npy" : ".npy");
}

class TensorFolder {
 public:
  TensorFolder(const Graph& graph, std::filesystem::path folder)
      : graph_(graph), folder_(std::move(folder)) {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error) {
      throw InputError(fmt::format("--save-tensors: expected a folder to write to, found {}: {}",
                                   folder_.string(), error.message()));
    }
  }

  // Names that are one file's are refused: one tensor would be lost.
  void check_names() const {
    std::map<std::string, std::string> owners;
    for (const Tensor& tensor : graph_.tensors) {
      for (const bool is_gradient : {false, true}) {
        const std::string file = file_name(tensor.name, is_gradient);
        const auto [found, is_new] = owners.emplace(file, tensor.name);
        if (is_new) continue;
        throw InputError(fmt::format("--save-tensors: tensors '{}' and '{}' would both be {}",
                                     found->second, tensor.name, file));
      }
    }
  }

  void write(const TensorSeen& seen) const {
    const Tensor& tensor = graph_.tensor(seen.tensor);
    Shape shape = tensor.shape;
    if (shape.empty()) {
      shape = {static_cast<std::int64_t>(seen.bytes.size()) / bytes_per_element(seen.type)};
    }
    const std::filesystem::path path = folder_ / file_name(tensor.name, seen.is_gradient);
    std::ofstream file(path, std::ios::binary);
    const std::string header = npy_header(seen.type, shape);
    const std::vector<std::uint8_t> bytes =
        seen.type == DataType::kBFloat16 ? widened(seen.bytes) : seen.bytes;
    file.write(header.data(), static_cast<std::streamsize>(header.size()));
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (!file) throw InputError(fmt::format("--save-tensors: cannot write {}", path.string()));
  }

 private:
  const Graph& graph_;
  std::filesystem::path folder_ = {};
};

}  // namespace

void save_tensors(const Execution& execution, const Evaluation& evaluation,
                  const std::filesystem::path& folder) {
  const Graph& graph = execution.graph;
  const TensorFolder files(graph, folder);
  files.check_names();
  ExecutorOptions options = execution.options;
  options.tensor_observer = [&](const TensorSeen& seen) { files.write(seen); };
  Executor executor(graph, evaluation.schedule, execution.device, options);
  if (execution.text != nullptr) execution.text->load(executor, 0);
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const auto id = static_cast<TensorId>(i);
    const Tensor& tensor = graph.tensor(id);
    if (!is_resident(tensor) || graph.storage(tensor.storage).owner != id) continue;
    files.write({.tensor = id, .type = tensor.data_type, .bytes = executor.tensor(id)});
  }
  executor.run_step();
}

}  // namespace cairn
