#include "models/load_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "graph/error.h"
#include "graph/grouped_text.h"
#include "models/adapter_targets.h"
#include "models/dims.h"
#include "models/expert_options.h"
#include "models/families.h"
#include "models/fields.h"
#include "models/find_model.h"
#include "models/implementations.h"
#include "models/instantiate.h"
#include "models/library.h"
#include "models/link_layers.h"
#include "models/model_names.h"
#include "models/model_numbers.h"
#include "models/optimizer.h"
#include "models/per_layer.h"
#include "models/plain_graph.h"
#include "models/quantization.h"
#include "models/requirements.h"

namespace cairn {

struct OpenedModel {
  FoundModel found = {};
  std::optional<ModelNumbers> numbers = {};  // into `found`; none of a plain graph
  std::map<std::string, Layer> layers = {};
};

namespace {

constexpr std::int64_t kDefaultTokens = 2048;

void refuse_overrides_of_plain_graph(const ModelRequest& request) {
  const auto refuse = [](const std::string& option) {
    throw InputError(option + " has no meaning for a plain graph: its numbers are fixed");
  };
  if (!request.recipe.name.empty()) refuse("--recipe");
  if (request.batch != 1) refuse("--batch");
  if (request.tokens) refuse("--tokens");
  if (request.vocab) refuse("--vocab");
  if (request.precision) refuse("--precision");
  if (!request.set.empty()) refuse("--set");
  for (const auto& [option, choice] : request.implementations) refuse("--" + option);
  if (!request.freeze.empty()) refuse("--freeze");
  if (!request.train_only.empty()) refuse("--train-only");
  if (request.optimizer_state_type) refuse("--optimizer-states");
  if (request.step.main_gradient_type) refuse("--main-gradients");
  if (request.adapters) refuse("--lora");
  if (request.quantization) refuse("--quantize");
  if (request.input_require_grads) refuse("--input-require-grads");
  if (!request.library.empty()) refuse("--library");
  if (request.expert_imbalance) refuse("--expert-imbalance");
  if (request.expert_capacity) refuse("--expert-capacity");
  if (request.text_part_only) refuse("--part");
}

LoadedModel load_plain_graph(const ModelRequest& request, const FoundModel& found) {
  refuse_overrides_of_plain_graph(request);
  LoadedModel model{.name = found.name};
  model.recipe.optimizer = request.optimizer;
  model.recipe.step = request.step;
  model.graph = read_plain_graph(found.document, optimizer_rule_without_shapes(model.recipe));
  return model;
}

std::vector<DimOverride> overrides_of(const ModelRequest& request) {
  std::vector<DimOverride> overrides;
  std::set<std::string> seen;
  const auto add = [&](std::string name, std::string value, std::string option) {
    if (name == "batch" || name == "tokens") {
      throw InputError(fmt::format("{}: use --{}", option, name));
    }
    if (!seen.insert(name).second) {
      throw InputError(fmt::format("{}: dim '{}' is set twice", option, name));
    }
    overrides.push_back({std::move(name), std::move(value), std::move(option)});
  };
  for (const auto& [name, value] : request.set) add(name, value, "--set " + name);
  if (request.vocab) add("vocab", std::to_string(*request.vocab), "--vocab");
  return overrides;
}

void check_positive(std::int64_t value, const char* option) {
  if (value >= 1) return;
  throw InputError(fmt::format("{}: expected a positive integer, found {}", option, value));
}

std::int64_t default_tokens(const Family& family, const std::vector<ResolvedDim>& dims) {
  for (const ResolvedDim& dim : dims) {
    if (dim.name == family.token_limit_dim) return std::min(kDefaultTokens, dim.value.integer);
  }
  return kDefaultTokens;
}

void add_sample_dims(const Family& family, const ModelRequest& request,
                     std::vector<ResolvedDim>& dims) {
  const auto add = [&](const char* name, std::int64_t value, bool is_given,
                       const std::string& default_text) {
    const std::string option = std::string("--") + name;
    check_positive(value, option.c_str());
    dims.push_back({.name = name,
                    .value = integer_value(value),
                    .origin = is_given ? DimOrigin::kOption : DimOrigin::kDefault,
                    .origin_text = is_given ? option : default_text});
  };
  add("batch", request.batch, request.batch != 1, "1");
  if (family.samples == Samples::kTokens) {
    const std::string limit = family.token_limit_dim;
    add("tokens", request.tokens.value_or(default_tokens(family, dims)), request.tokens.has_value(),
        limit.empty() ? std::to_string(kDefaultTokens)
                      : fmt::format("min({}, {})", kDefaultTokens, limit));
  } else if (request.tokens) {
    throw InputError(fmt::format(
        "--tokens has no meaning for family '{}': its samples are images (--set image=PIXELS)",
        family.name));
  }
}

// What a recipe names has to be there, but for what it says is to be taken where it is.
void take_implementations(const RecipeInUse& recipe, const Family& family,
                          const std::map<std::string, Layer>& layers, LoadedModel& model) {
  std::map<std::string, std::string>& chosen = model.recipe.implementations;
  for (const std::string& option : recipe.implementations) {
    try {
      check_choice(family, layers, option, chosen.at(option));
    } catch (const InputError& error) {
      throw InputError(fmt::format("recipe '{}': {}", recipe.name, error.what()));
    }
  }
  for (const auto& [option, choice] : recipe.where_available) {
    if (chosen.contains(option)) continue;
    const std::vector<std::string> known = known_choices(family, layers, option);
    if (std::find(known.begin(), known.end(), choice) != known.end()) {
      chosen[option] = choice;
    } else {
      model.notes.push_back(fmt::format("recipe '{}': family '{}' has no {} '{}', its own is taken",
                                        recipe.name, family.name, option, choice));
    }
  }
}

// The type that the config says, the implementations, and what attention in that type means.
void set_recipe(const ModelRequest& request, const OpenedModel& opened, LoadedModel& model) {
  const ModelNumbers& numbers = *opened.numbers;
  const std::optional<DataType> own =
      numbers.data_type ? config_data_type(*numbers.data_type) : std::nullopt;
  const Precision own_precision = {.parameter_type = own.value_or(DataType::kBFloat16)};
  model.recipe = {
      .precision = request.precision.value_or(own_precision),
      .optimizer = request.optimizer,
      .optimizer_state_type = request.optimizer_state_type,
      .has_full_embedding_states = numbers.family.has_full_embedding_states,
      .implementations = request.implementations,
      .step = request.step,
      .freeze = request.freeze,
      .train_only = request.train_only,
      .adapters = request.adapters,
      .quantization = request.quantization,
      .input_require_grads = request.input_require_grads.value_or(request.is_checkpointed)};
  if (model.recipe.quantization) skip_unquantized(numbers.family, *model.recipe.quantization);
  if (model.recipe.precision.master_type && request.step.optimizer_loop != OptimizerLoop::kFused) {
    throw InputError(
        fmt::format("--optimizer-loop {}: an optimizer with master weights is counted as one "
                    "kernel, which reads gradients of {}; expected fused",
                    optimizer_loop_name(request.step.optimizer_loop),
                    data_type_name(model.recipe.precision.parameter_type)));
  }
  take_implementations(request.recipe, numbers.family, opened.layers, model);
  if (model.recipe.adapters && model.recipe.adapters->targets.empty()) {
    model.recipe.adapters->targets = numbers.family.adapter_targets;
  }
  model.implementations = implementation_choices(numbers.family, opened.layers, model.recipe);
  model.losses_with_the_head = losses_with_the_head(numbers.family, opened.layers);
  if (const auto attention = model.implementations.find("attention");
      attention != model.implementations.end()) {
    model.attention = attention->second;
  }
  if (numbers.data_type && !own && !request.precision) {
    model.notes.push_back(
        fmt::format("the config's dtype '{}' is not known: bf16 is taken", *numbers.data_type));
  }
  if (compute_type(model.recipe.precision) == DataType::kFloat32 &&
      (model.attention == "sdpa" || model.attention == "flash")) {
    model.notes.push_back(fmt::format(
        "CUDA's flash kernel has no fp32: {} attention runs another kernel there, with other "
        "workspaces",
        model.attention));
  }
}

// What is at fault is what the user typed last: an option before a file.
void check_requirements(const Family& family, const ModelNumbers& numbers,
                        const std::vector<ResolvedDim>& dims, const Scope& scope) {
  const std::optional<UnmetRequirement> unmet = unmet_requirement(family.requirements, scope);
  if (!unmet) return;
  for (const ResolvedDim& dim : dims) {
    const bool is_named =
        std::find(unmet->dims.begin(), unmet->dims.end(), dim.name) != unmet->dims.end();
    if (is_named && dim.origin == DimOrigin::kOption) {
      throw InputError(fmt::format("{}: {}", dim.origin_text, unmet->text));
    }
  }
  const std::optional<DimPlace> place = place_of_dims(family, numbers.sources, unmet->dims);
  if (place) fail_at(*place->document, place->position, unmet->text);
}

bool has_input_embeddings(const Family& family) {
  return std::any_of(family.items.begin(), family.items.end(),
                     [](const FamilyItem& item) { return item.op.is_input_embeddings; });
}

// A family that marks no op for it is of code that does not do it.
void check_input_require_grads(const ModelRequest& request, const Family& family) {
  if (request.input_require_grads != true || has_input_embeddings(family)) return;
  throw InputError(
      fmt::format("--input-require-grads: family '{}' has no input embeddings of "
                  "Transformers', whose output it makes require a gradient",
                  family.name));
}

// The optimizer reads them as they are: in another type than it steps a parameter in, it would be
// given a copy (Megatron-LM d98e8a64, optimizer/optimizer.py: main_grad.float()).
void check_main_gradients(const Graph& graph, const Recipe& recipe) {
  if (!recipe.step.main_gradient_type) return;
  const std::string_view type = data_type_name(*recipe.step.main_gradient_type);
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.main_gradient_bytes == 0) continue;
    const DataType stepped = recipe.precision.master_type.value_or(tensor.data_type);
    if (stepped == *recipe.step.main_gradient_type) continue;
    throw InputError(
        fmt::format("--main-gradients {}: the optimizer steps '{}' in {}, and a copy of its main "
                    "gradient in that type is not counted; expected {}",
                    type, tensor.name, data_type_name(stepped), data_type_name(stepped)));
  }
}

LoadedModel load_family_model(const ModelRequest& request, const OpenedModel& opened) {
  const ModelNumbers& numbers = *opened.numbers;
  const Family& family = numbers.family;
  LoadedModel model{.name = opened.found.name,
                    .family = family.name,
                    .library = family.library,
                    .notes = numbers.notes};
  model.dims = resolve_dims(family, numbers.sources, overrides_of(request));
  std::vector<PerLayerValues> per_layer = resolve_per_layer(family, numbers.sources);
  for (const PerLayerValues& values : per_layer) {
    model.per_layer.push_back({.name = values.dim->name,
                               .origin = origin_of(values),
                               .origin_text = origin_text_of(values)});
  }
  add_sample_dims(family, request, model.dims);
  model.recipe_name = request.recipe.name;
  model.notes.insert(model.notes.end(), request.recipe.notes.begin(), request.recipe.notes.end());
  set_recipe(request, opened, model);
  check_input_require_grads(request, family);
  for (std::string& note : set_expert_load(request, family.name, model.dims, model.recipe)) {
    model.notes.push_back(std::move(note));
  }
  Scope scope;
  for (const ResolvedDim& dim : model.dims) scope.values[dim.name] = dim.value;
  scope.values["expert_imbalance"] = number_value(model.recipe.expert_imbalance);
  scope.values["expert_capacity"] = number_value(model.recipe.expert_capacity);
  for (std::string& note : family_notes(family, scope)) model.notes.push_back(std::move(note));
  check_requirements(family, numbers, model.dims, scope);
  model.graph = instantiate({.family = family,
                             .layers = opened.layers,
                             .dims = scope,
                             .per_layer = std::move(per_layer),
                             .recipe = model.recipe,
                             .model_name = model.name});
  check_main_gradients(model.graph, model.recipe);
  if (model.recipe.adapters) {
    for (std::string& note : adapter_notes(model.graph, *model.recipe.adapters)) {
      model.notes.push_back(std::move(note));
    }
  }
  if (request.quantization) {
    check_quantized(model.graph, model.recipe, *request.quantization);
    for (std::string& note : quantization_notes(model.graph, model.recipe)) {
      model.notes.push_back(std::move(note));
    }
  }
  return model;
}

Family family_of_library(Family family, const ModelRequest& request) {
  try {
    return family_in_library(std::move(family), request.library, request.folders);
  } catch (const InputError& error) {
    if (request.recipe.library.empty()) throw;
    throw InputError(fmt::format("recipe '{}': {}", request.recipe.name, error.what()));
  }
}

std::shared_ptr<const OpenedModel> open_found_model(const ModelRequest& request, FoundModel found) {
  const auto opened = std::make_shared<OpenedModel>();
  opened->found = std::move(found);
  if (opened->found.kind == ModelFileKind::kPlainGraph) return opened;
  opened->numbers =
      opened->found.kind == ModelFileKind::kModelFile
          ? numbers_of_model_file(opened->found, request.folders)
          : numbers_of_hf_config(opened->found, request.folders, request.text_part_only);
  opened->numbers->family = family_of_library(std::move(opened->numbers->family), request);
  opened->layers = link_layers(opened->numbers->family, request.folders);
  return opened;
}

}  // namespace

LoadedModel load_opened_model(const ModelRequest& request, const OpenedModel& opened) {
  LoadedModel model =
      opened.numbers ? load_family_model(request, opened) : load_plain_graph(request, opened.found);
  if (!opened.found.note.empty()) model.notes.insert(model.notes.begin(), opened.found.note);
  if (!model.graph.tensor(model.graph.loss).has_gradient) {
    model.notes.emplace_back(
        "nothing that the loss depends on requires a gradient: there is no backward pass");
  }
  if (const std::int64_t bytes = optimizer_paged_bytes(model.graph); bytes > 0) {
    model.notes.push_back(fmt::format(
        "{} bytes of paged optimizer states are in unified memory, and in no number here: they "
        "are on the GPU while it has room, else on the host",
        grouped_text(bytes)));
  }
  return model;
}

LoadedModel load_found_model(const ModelRequest& request, FoundModel found) {
  return load_opened_model(request, *open_found_model(request, std::move(found)));
}

std::shared_ptr<const OpenedModel> open_model(const ModelRequest& request) {
  return open_found_model(request, find_model(request.model, request.folders));
}

LoadedModel load_model(const ModelRequest& request) {
  return load_opened_model(request, *open_model(request));
}

std::optional<LoadedModel> load_checkpointed_model(const ModelRequest& request,
                                                   const OpenedModel& opened,
                                                   const LoadedModel& model) {
  const bool may_differ =
      !request.input_require_grads && opened.numbers &&
      has_input_embeddings(opened.numbers->family) &&
      std::any_of(model.graph.tensors.begin(), model.graph.tensors.end(), [](const Tensor& tensor) {
        return tensor.role == TensorRole::kParameter && !tensor.requires_grad;
      });
  if (!may_differ) return std::nullopt;
  ModelRequest with_checkpoints = request;
  with_checkpoints.is_checkpointed = true;
  LoadedModel checkpointed = load_opened_model(with_checkpoints, opened);
  if (checkpointed.graph.ops.size() == model.graph.ops.size()) return std::nullopt;
  return checkpointed;
}

std::vector<CatalogueEntry> list_catalogue(const std::string& part,
                                           const std::vector<std::filesystem::path>& folders) {
  std::vector<CatalogueEntry> entries;
  const std::map<std::string, std::string> titles = family_titles(folders);
  for (const LibraryFile& file : library_files("catalogue", folders)) {
    const FoundModel found = read_catalogue_model(file);
    Fields fields(found.document, found.document.root, "a model");
    const std::string source = fields.optional_text("source").value_or("");
    const std::string family = fields.optional_text("family").value_or("");
    const auto title = titles.find(family);
    if (!is_part_of_name(part, file.stem) && !is_part_of_name(part, source) &&
        !is_part_of_name(part, family) &&
        (title == titles.end() || !is_part_of_name(part, title->second))) {
      continue;
    }
    const LoadedModel model = load_found_model({.folders = folders}, found);
    entries.push_back({.name = model.name,
                       .family = model.family,
                       .source = source,
                       .parameter_count = parameter_count(model.graph),
                       .active_parameter_count = active_parameter_count(model.graph)});
  }
  return entries;
}

}  // namespace cairn
