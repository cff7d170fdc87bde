#include "cli/text_batches.h"

#include <fmt/format.h>

#include "cli/units.h"
#include "cli/what_if.h"
#include "graph/error.h"
#include "models/read_file.h"

namespace cairn {
namespace {

constexpr std::int64_t kByteValues = 256;
constexpr std::size_t kMostBytes = std::size_t{1} << 28;

TensorId find_input(const Graph& graph, std::string_view name) {
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& tensor = graph.tensors[i];
    const bool is_found = tensor.role == TensorRole::kInput && tensor.name == name &&
                          tensor.data_type == DataType::kInt64;
    if (is_found) return static_cast<TensorId>(i);
  }
  return kNoTensor;
}

void set_numbers(Executor& executor, TensorId id, const std::vector<std::int64_t>& numbers) {
  executor.set_tensor(id, numbers.data());
}

}  // namespace

TextBatches::TextBatches(const std::string& path, const LoadedModel& model) {
  const Graph& graph = model.graph;
  ids_ = find_input(graph, "ids");
  labels_ = find_input(graph, "labels");
  positions_ = find_input(graph, "positions");
  const bool takes_tokens = ids_ != kNoTensor && labels_ != kNoTensor &&
                            graph.tensor(ids_).shape.size() == 2 &&
                            graph.tensor(ids_).shape == graph.tensor(labels_).shape;
  if (!takes_tokens) {
    throw InputError(fmt::format(
        "--text: expected a model with an input 'ids' and as many 'labels', found {}", model.name));
  }
  const std::int64_t vocab = dim_value(model, "vocab");
  if (vocab < kByteValues) {
    throw InputError(fmt::format(
        "--text: tokens are bytes; expected a vocabulary of at least {}, found {}: --vocab {}",
        kByteValues, vocab, kByteValues));
  }
  batch_ = graph.tensor(ids_).shape[0];
  tokens_ = graph.tensor(ids_).shape[1];
  text_ = read_file(path, kMostBytes);
  if (text_.size() > kMostBytes) {
    throw InputError(fmt::format("--text {}: expected at most {} bytes, found more", path,
                                 grouped_text(static_cast<std::int64_t>(kMostBytes))));
  }
  if (static_cast<std::int64_t>(text_.size()) <= tokens_) {
    throw InputError(
        fmt::format("--text {}: expected more than the {} bytes of one sample, found {}", path,
                    grouped_text(tokens_), grouped_text(static_cast<std::int64_t>(text_.size()))));
  }
}

void TextBatches::load(Executor& executor, std::int64_t training_step) const {
  const auto size = static_cast<std::int64_t>(text_.size());
  const std::int64_t count = batch_ * tokens_;
  const auto token = [&](std::int64_t i) -> std::int64_t {
    const std::int64_t place = (training_step % size * count + i) % size;
    return static_cast<unsigned char>(text_[static_cast<std::size_t>(place)]);
  };
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  std::vector<std::int64_t> labels(ids.size());
  for (std::int64_t i = 0; i < count; ++i) {
    ids[static_cast<std::size_t>(i)] = token(i);
    labels[static_cast<std::size_t>(i)] = token(i + 1);
  }
  set_numbers(executor, ids_, ids);
  set_numbers(executor, labels_, labels);
  if (positions_ == kNoTensor) return;
  std::vector<std::int64_t> positions(executor.tensor(positions_).size() / sizeof(std::int64_t));
  for (std::size_t i = 0; i < positions.size(); ++i) {
    positions[i] = static_cast<std::int64_t>(i) % tokens_;
  }
  set_numbers(executor, positions_, positions);
}

}  // namespace cairn
