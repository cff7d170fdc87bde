#include "models/plan_origin.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "graph/error.h"
#include "models/find_model.h"
#include "models/training_keys.h"
#include "models/yaml_text.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> scalars(const std::vector<std::string>& texts) {
  std::vector<std::string> items;
  for (const std::string& text : texts) items.push_back(yaml_scalar(text));
  return items;
}

std::string settings_text(const std::vector<std::pair<std::string, std::string>>& set) {
  std::vector<std::string> items;
  for (const auto& [dim, value] : set) {
    items.push_back(fmt::format("{}: {}", yaml_scalar(dim), yaml_value(value)));
  }
  return fmt::format("{{{}}}", fmt::join(items, ", "));
}

// With the links of its folders followed, not its own: it may give the model its name.
fs::path whole_path(const fs::path& path) {
  try {
    fs::path whole = fs::absolute(path);
    if (!whole.has_filename()) whole = whole.parent_path();
    const bool has_name = whole.filename() != "." && whole.filename() != "..";
    return has_name ? fs::weakly_canonical(whole.parent_path()) / whole.filename()
                    : fs::weakly_canonical(whole);
  } catch (const fs::filesystem_error& error) {
    throw InputError(fmt::format("{}: {}", path.string(), error.code().message()));
  }
}

// As a file in `folder` says it.
std::string path_seen_from(const fs::path& path, const fs::path& folder) {
  return whole_path(path).lexically_relative(whole_path(folder / ".")).string();
}

std::string hex(std::uint64_t value) { return fmt::format("\"{:016x}\"", value); }

std::string graph_text(const Fingerprint& fingerprint) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < kFingerprintParts.size(); ++i) {
    parts.push_back(fmt::format("{}: {}", kFingerprintParts[i], hex(fingerprint.parts[i])));
  }
  std::string marks;
  for (const std::uint16_t mark : fingerprint.marks) marks += fmt::format("{:04x}", mark);
  return fmt::format("graph:\n  ops: {}\n  tensors: {}\n  fingerprint: {}\n{}  marks: \"{}\"\n",
                     fingerprint.op_count, fingerprint.tensor_count, hex(combined(fingerprint)),
                     yaml_mapping_lines(2, "parts", parts), marks);
}

}  // namespace

std::vector<RequestWord> request_words(const ModelRequest& request, bool is_file) {
  std::vector<RequestWord> words;
  const auto add = [&](std::string_view key, std::string value, bool is_implied = false) {
    is_implied |= value.empty();
    words.push_back({std::string(key), std::move(value), is_implied});
  };
  const auto add_optional = [&](std::string_view key, const auto& value) {
    add(key, value ? fmt::format("{}", *value) : "");
  };
  const auto add_list = [&](std::string_view key, const std::vector<std::string>& texts) {
    add(key, texts.empty() ? "" : yaml_list(scalars(texts)));
  };
  const TrainingStep& step = request.step;
  add(is_file ? "file" : "name", yaml_scalar(request.model));
  const bool has_batch = request.batch != 1 || request.precision;  // a plain graph has none
  add("batch", std::to_string(request.batch), !has_batch);
  add_optional("tokens", request.tokens);
  add_optional("vocab", request.vocab);
  add("set", request.set.empty() ? "" : settings_text(request.set));
  add("precision", request.precision ? std::string(precision_name(*request.precision)) : "");
  add("optimizer", yaml_scalar(request.optimizer));
  add("optimizer_loop", std::string(optimizer_loop_name(step.optimizer_loop)),
      step.optimizer_loop == OptimizerLoop::kFused);
  add("optimizer_states", request.optimizer_state_type
                              ? std::string(data_type_name(*request.optimizer_state_type))
                              : "");
  add("optimizer_in_backward", step.optimizer_in_backward ? "true" : "");
  add("accumulate", std::to_string(step.micro_batches), step.micro_batches == 1);
  add("keep_gradients", step.keeps_gradients ? "true" : "");
  add("main_gradients",
      step.main_gradient_type ? std::string(data_type_name(*step.main_gradient_type)) : "");
  for (const std::string_view option : kImplementationOptions) {
    const auto choice = request.implementations.find(std::string(option));
    add(option, choice == request.implementations.end() ? "" : yaml_scalar(choice->second));
  }
  add("library", request.library.empty() ? "" : yaml_scalar(request.library));
  add_list("freeze", request.freeze);
  add_list("train_only", request.train_only);
  add("lora", request.adapters ? adapters_text(*request.adapters) : "");
  add("quantize", request.quantization ? quantization_text(*request.quantization) : "");
  add_optional("input_require_grads", request.input_require_grads);
  add_optional("expert_imbalance", request.expert_imbalance);
  add_optional("expert_capacity", request.expert_capacity);
  add("part", request.text_part_only ? "text" : "all", !request.text_part_only);
  std::vector<std::string> folders;
  for (const fs::path& folder : request.folders) folders.push_back(folder.string());
  add_list("models", folders);
  return words;
}

PlanOrigin plan_origin(const ModelRequest& request, const LoadedModel& model) {
  PlanOrigin origin{.model = request,
                    .is_file = is_model_path(request.model),
                    .graph = fingerprint_of(model.graph, model.recipe)};
  if (model.family.empty()) return origin;  // a plain graph has no defaults
  for (const ResolvedDim& dim : model.dims) {
    if (dim.name == "tokens") origin.model->tokens = dim.value.integer;
  }
  origin.model->precision = model.recipe.precision;
  origin.model->implementations = model.recipe.implementations;
  if (!model.attention.empty()) origin.model->implementations["attention"] = model.attention;
  return origin;
}

PlanOrigin plan_origin(const ModelRequest& request, const LoadedModel& model, const Plan& plan) {
  PlanOrigin origin = plan_origin(request, model);
  if (!model.family.empty() && request.is_checkpointed == plan.regions.empty()) {
    origin.model->input_require_grads = model.recipe.input_require_grads;
  }
  return origin;
}

PlanOrigin seen_from(PlanOrigin origin, const fs::path& folder) {
  if (!origin.model) return origin;
  if (origin.is_file) origin.model->model = path_seen_from(origin.model->model, folder);
  for (fs::path& path : origin.model->folders) path = path_seen_from(path, folder);
  return origin;
}

std::string plan_origin_text(const PlanOrigin& origin) {
  std::string text;
  if (origin.model) {
    std::vector<std::string> items;
    for (const RequestWord& word : request_words(*origin.model, origin.is_file)) {
      if (!word.is_implied) items.push_back(fmt::format("{}: {}", word.key, word.value));
    }
    text += yaml_mapping_lines(0, "model", items);
  }
  if (origin.graph) text += graph_text(*origin.graph);
  return text;
}

}  // namespace cairn
