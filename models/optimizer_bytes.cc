#include "models/optimizer_bytes.h"

#include <algorithm>

#include "graph/checked.h"

namespace cairn {
namespace {

constexpr std::int64_t kFloatBytes = 4;
// Below so many elements states stay as they were (bitsandbytes' min_8bit_size, torchao's too).
constexpr std::int64_t kFewestQuantized = 4096;
constexpr std::int64_t kBlockElements = 256;
constexpr std::int64_t kFewestPaged = 100'000;  // bitsandbytes' get_state_buffer

std::int64_t element_count_of(const SteppedParameter& parameter) {
  return parameter.bytes / bytes_per_element(parameter.type);
}

std::int64_t times(const SteppedParameter& parameter, std::int64_t a, std::int64_t b) {
  return checked_multiply(a, b, "parameter '{}': bytes of the optimizer", parameter.name);
}

std::int64_t block_count(std::int64_t elements) {
  return elements / kBlockElements + (elements % kBlockElements > 0 ? 1 : 0);
}

// Of a matrix's last two dims: sums over each row and column, of the matrices of a stack apart.
struct Factors {
  std::int64_t matrix_count = 0;
  std::int64_t entry_count = 0;  // of rows and columns together
};

Factors factors_of(const SteppedParameter& parameter) {
  const std::int64_t rows = parameter.shape[parameter.shape.size() - 2];
  const std::int64_t columns = parameter.shape.back();
  const std::int64_t matrices = element_count_of(parameter) / rows / columns;
  return {.matrix_count = matrices, .entry_count = matrices * (rows + columns)};
}

bool is_factored(const SteppedParameter& parameter) {
  return parameter.shape.size() >= 2 && parameter.bytes > 0;
}

}  // namespace

OptimizerBytes bitsandbytes_bytes(const BitsAndBytes& optimizer,
                                  const SteppedParameter& parameter) {
  const std::int64_t elements = element_count_of(parameter);
  const bool is_full = optimizer.has_full_embeddings && parameter.is_table;
  const bool is_8bit = optimizer.is_8bit && elements >= kFewestQuantized && !is_full;
  const std::int64_t buffer_bytes =
      times(parameter, elements, optimizer.state_count * (is_8bit ? 1 : kFloatBytes));
  const bool is_paged = optimizer.is_paged && elements >= kFewestPaged;
  OptimizerBytes bytes{.state_bytes = is_paged ? 0 : buffer_bytes,
                       .paged_state_bytes = is_paged ? buffer_bytes : 0};
  if (!is_8bit) return bytes;
  bytes.state_bytes += optimizer.state_count * kFloatBytes * block_count(elements);
  bytes.shared_state_bytes = optimizer.state_count * kFloatBytes * 256;  // a table for each state
  return bytes;
}

OptimizerBytes torchao_bytes(const TorchAo& optimizer, const SteppedParameter& parameter) {
  const std::int64_t elements = element_count_of(parameter);
  if (elements < kFewestQuantized || elements % kBlockElements != 0) {
    return {.state_bytes = times(parameter, parameter.bytes, 2)};
  }
  const std::int64_t code_bytes = elements / 8 * optimizer.code_bits;
  const std::int64_t scale_bytes = kFloatBytes * (elements / kBlockElements);
  return {.state_bytes = times(parameter, 2,
                               code_bytes + scale_bytes + kFloatBytes * optimizer.table_entries)};
}

// A step makes fp32 copies of a 16-bit gradient and parameter. Early, the squared gradient and its
// sum with epsilon stand beside the last parameter's update; then the update is made anew, beside
// that sum, from factors of rows and columns.
OptimizerBytes adafactor_bytes(const SteppedParameter& parameter) {
  const std::int64_t float_bytes = times(parameter, element_count_of(parameter), kFloatBytes);
  const bool has_copies = parameter.type != DataType::kFloat32;
  const std::int64_t temporary_bytes = times(parameter, float_bytes, has_copies ? 4 : 2);
  OptimizerBytes bytes{.state_bytes = float_bytes,
                       .early_temporary_bytes = temporary_bytes,
                       .early_carried_bytes = float_bytes,
                       .temporary_bytes = temporary_bytes,
                       // Trainer's second group: biases and weights of norms, which do not decay.
                       .part = parameter.shape.size() >= 2 ? 0 : 1};
  if (!is_factored(parameter)) return bytes;
  bytes.state_bytes = kFloatBytes * factors_of(parameter).entry_count;
  bytes.temporary_bytes = checked_add(temporary_bytes, bytes.state_bytes, "bytes of the optimizer");
  return bytes;
}

// One parameter after the other: means of rows and columns, the estimate of the variance, which is
// still there in the next one's, and its mean.
OptimizerBytes torch_adafactor_bytes(const SteppedParameter& parameter) {
  if (!is_factored(parameter)) {
    const std::int64_t both_bytes = times(parameter, parameter.bytes, 2);
    return {
        .state_bytes = parameter.bytes, .temporary_bytes = both_bytes, .carried_bytes = both_bytes};
  }
  const Factors factors = factors_of(parameter);
  const std::int64_t element_bytes = bytes_per_element(parameter.type);
  const std::int64_t mean_bytes = element_bytes * (factors.entry_count + factors.matrix_count);
  return {.state_bytes = element_bytes * factors.entry_count,
          .temporary_bytes = checked_add(parameter.bytes, mean_bytes, "bytes of the optimizer"),
          .carried_bytes = parameter.bytes};
}

OptimizerBytes torch_adafactor_foreach_bytes(const SteppedParameter& parameter) {
  return {.state_bytes = torch_adafactor_bytes(parameter).state_bytes,
          .temporary_bytes = parameter.bytes};
}

bool is_stepped_by_muon(const SteppedParameter& parameter) {
  return parameter.shape.size() == 2 && !parameter.is_table && !parameter.is_head;
}

// The update stays beside five Newton-Schulz steps in bf16, each of which makes the next matrix and
// two squares of the smaller side beside those of the step before. The last bf16 matrix is still
// there when the next parameter's update is made.
OptimizerBytes muon_bytes(const SteppedParameter& parameter) {
  constexpr std::int64_t kBf16Bytes = 2;
  const std::int64_t matrix_bytes = times(parameter, element_count_of(parameter), kBf16Bytes);
  const std::int64_t side = std::min(parameter.shape[0], parameter.shape[1]);
  const std::int64_t square_bytes = times(parameter, side * side, kBf16Bytes);
  const std::int64_t step_bytes =
      times(parameter, checked_add(matrix_bytes, square_bytes, "bytes of the optimizer"), 2);
  return {.state_bytes = parameter.bytes,
          .early_temporary_bytes = parameter.bytes,
          .early_carried_bytes = matrix_bytes,
          .temporary_bytes = checked_add(parameter.bytes, step_bytes, "bytes of the optimizer")};
}

}  // namespace cairn
