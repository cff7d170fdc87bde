#include "cli/model_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "cli/option_kinds.h"
#include "cli/units.h"
#include "graph/error.h"
#include "models/gpu_catalogue.h"
#include "models/optimizer.h"
#include "models/recipe_file.h"
#include "models/training_keys.h"

namespace cairn {
namespace {

constexpr std::int64_t kTokensKilo = 1024;  // "--tokens 8k" is 8192
constexpr std::int64_t kKilo = 1000;        // "--vocab 248k" is 248000

constexpr std::string_view kOptimizerHelp =
    "adamw (default), adam, sgd, sgd-momentum, lion;\n"
    "bitsandbytes: adamw-8bit, adam-8bit, lion-8bit,\n"
    "adamw-32bit, lion-32bit, paged-adamw-8bit,\n"
    "paged-adamw-32bit, paged-lion-8bit,\n"
    "paged-lion-32bit; torchao: adamw-torch-8bit,\n"
    "adamw-torch-4bit, adamw-torch-fp8; adafactor,\n"
    "adafactor-torch, muon: decides bytes of states\nand of the step's temporaries";

// One for each of kImplementationOptions.
constexpr std::array<std::pair<std::string_view, std::string_view>, kImplementationOptions.size()>
    kImplementationHelp = {
        {{"attention", "Implementation: eager, sdpa or flash; default the\nmodel family's"},
         {"norm", "The same of norms: hf, torch, liger or megatron"},
         {"rope", "The same of rotary positions: hf or liger"},
         {"mlp", "The same of gated MLPs: hf, liger or megatron"},
         {"loss",
          "The same of the loss: hf, torch, liger, megatron;\nwithout a tensor of all logits: "
          "fused-linear,\nchunked, cut"}}};

std::pair<std::string, std::string> split_assignment(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw InputError(fmt::format("--set: expected DIM=VALUE, such as layers=4, found '{}'", text));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

Precision parse_precision(const std::string& typed) {
  const std::string text = short_type_name(typed);
  if (const std::optional<Precision> precision = find_precision(text)) return *precision;
  throw InputError(fmt::format("--precision: expected one of {}, found '{}'{}",
                               join_names(precision_names()), text,
                               did_you_mean(text, precision_names())));
}

}  // namespace

void add_model_options(CLI::App& command, ModelOptions& options) {
  command
      .add_option("MODEL", options.model,
                  "Catalogue name; config.json or its folder; model\nor graph file; org/name in "
                  "the Hugging Face cache")
      ->required()
      ->type_name("");
  command.add_option("--batch", options.batch, "Samples in a step, sequences or images; default 1")
      ->type_name("N");
  command
      .add_option(
          "--tokens,--seq", options.tokens,
          "Tokens of a sample, 8k is 8192; default 2048,\nor the model's limit where that is less")
      ->type_name("N");
  command.add_option("--vocab", options.vocab, "Size of the vocabulary, 248k is 248000")
      ->type_name("N");
  add_repeatable_option(
      command, "--set", "DIM=VALUE", options.set,
      "Change a dim, such as layers=4 or image=384;\nrepeatable; --explain-defaults lists them");
  command
      .add_option(
          "--recipe", options.recipe,
          "How a trainer trains (see cairn recipes), or a recipe\nfile; options in place of "
          "what it says")
      ->type_name("NAME|FILE");
  command
      .add_option("--precision", options.precision,
                  "fp32, bf16, fp16: all of that type; autocast-bf16,\nautocast-fp16: over fp32 "
                  "weights, bf16-autocast: over\nbf16; bf16-master: with an fp32 copy of weights;\n"
                  "default the model's")
      ->type_name("P");
  command.add_option("--optimizer", options.optimizer, std::string(kOptimizerHelp))->type_name("O");
  command
      .add_option("--optimizer-loop", options.optimizer_loop,
                  "fused (default), foreach (torch.optim's own) or\nfor-loop: decides the step's "
                  "temporaries")
      ->type_name("L");
  command
      .add_option("--optimizer-states", options.optimizer_states,
                  "Type of the optimizer's states: fp32, bf16 or fp16;\ndefault as it makes them")
      ->type_name("TYPE");
  add_undoable_flag(command, "--optimizer-in-backward", options.optimizer_in_backward,
                    "Step each parameter in backward, and drop its\ngradient at once");
  command
      .add_option(
          "--accumulate", options.accumulate,
          "Micro-batches, of --batch samples each, in one\nstep of the optimizer; default 1")
      ->type_name("N");
  add_undoable_flag(command, "--keep-gradients", options.keep_gradients,
                    "Gradients stay from step to step, as with\nzero_grad(set_to_none=False)");
  command
      .add_option("--main-gradients", options.main_gradients,
                  "Each gradient goes into a buffer of this type that\nstays, as Megatron-LM's "
                  "fp32 one, or none")
      ->type_name("TYPE");
  for (const auto& [name, help] : kImplementationHelp) {
    command
        .add_option_function<std::string>(
            fmt::format("--{}", name),
            [&options, option = std::string(name)](const std::string& choice) {
              options.implementations[option] = choice;
            },
            std::string(help))
        ->type_name("NAME");
  }
  add_repeatable_option(
      command, "--freeze", "PATTERN", options.freeze,
      "Do not train this module or parameter, such as\nmodel.embed_tokens, 'model.layers.?'"
      " or '*norm*';\nrepeatable");
  add_repeatable_option(command, "--train-only", "PATTERN", options.train_only,
                        "Train only this, and freeze all else; repeatable");
  add_adapter_options(command, options.adapters);
  add_quantization_options(command, options.quantization);
  add_undoable_flag(
      command, "--input-require-grads", options.input_require_grads,
      "What frozen embeddings make requires a gradient;\ndefault with checkpoints, as "
      "Transformers has it");
  command
      .add_option("--library", options.library,
                  "Whose code runs the model, such as hf or torchtune;\ndefault that of its family")
      ->type_name("NAME");
  command
      .add_option(
          "--expert-imbalance", options.expert_imbalance,
          "Rows of experts on the busiest of several GPUs,\nover the mean of all; default 1")
      ->type_name("F");
  command
      .add_option("--expert-capacity", options.expert_capacity,
                  "Pad each expert to C times the mean of rows, and\ndrop the rest; default: every "
                  "token is served")
      ->type_name("C");
  command
      .add_option(
          "--part", options.part,
          "Of a config with several parts: text takes its\nlanguage model alone; default all")
      ->type_name("P");
  command.add_flag("--explain-defaults", options.explain_defaults,
                   "Say of each dim which key, option or default\ngives it");
  add_folder_option(command, options.folders);
}

void add_folder_option(CLI::App& command, std::vector<std::string>& folders) {
  add_repeatable_option(command, "--models", "DIR", folders,
                        "Folder with families, models, recipes and GPUs of your\nown, repeatable");
}

void add_checkpointing_option(CLI::App& command, std::optional<std::string>& text) {
  command
      .add_option("--checkpointing", text,
                  "none, every-layer, uniform:K or sqrt; default the\nrecipe's, or none")
      ->type_name("S");
}

void add_json_option(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "One JSON object instead of text");
}

void add_extent_option(CLI::App& command, std::optional<std::string>& text) {
  command
      .add_option("--extent", text,
                  "How much a recompute reruns: needed, prefix\nor whole; default the plan's\nor "
                  "the recipe's, or prefix")
      ->type_name("E");
}

void add_gpu_option(CLI::App& command, std::optional<std::string>& gpu) {
  command.add_option("--gpu", gpu, "GPU (see cairn gpus), or a card's size: 24GiB")
      ->type_name("NAME|SIZE");
}

namespace {

// The type that a recipe gives its optimizer's states goes with it, where the one that was asked
// for has none to give.
void set_optimizer(const std::string& typed, ModelRequest& request) {
  const std::string before = std::exchange(request.optimizer, optimizer_name(typed));
  if (request.optimizer != before && !takes_state_type(request.optimizer)) {
    request.optimizer_state_type.reset();
  }
}

// What contradicts each other is refused, both sides named.
TrainingStep training_step(const ModelOptions& options, TrainingStep step) {
  if (options.accumulate) {
    step.micro_batches = parse_count(*options.accumulate, "--accumulate", kKilo);
  }
  if (options.keep_gradients) step.keeps_gradients = *options.keep_gradients;
  if (options.optimizer_in_backward) step.optimizer_in_backward = *options.optimizer_in_backward;
  if (options.main_gradients) {
    step.main_gradient_type =
        parse_floating_type_or_none(*options.main_gradients, "--main-gradients");
  }
  if (options.optimizer_loop) step.optimizer_loop = parse_optimizer_loop(*options.optimizer_loop);
  if (const std::optional<Contradiction> both = contradiction_in(step)) {
    throw InputError(fmt::format("--{} and --{}: {}", both->first, both->second, both->reason));
  }
  return step;
}

void set_implementations(const ModelOptions& options, ModelRequest& request) {
  for (const auto& [option, choice] : options.implementations) {
    if (choice.empty()) {
      throw InputError(
          fmt::format("--{}: expected an implementation, found an empty name", option));
    }
    request.implementations[option] = choice;
    std::erase(request.recipe.implementations, option);  // no longer the recipe's
  }
}

// A dim that is set here replaces what was set before, but not twice.
void set_dims(const ModelOptions& options, ModelRequest& request) {
  const std::vector<std::pair<std::string, std::string>> before = std::move(request.set);
  request.set.clear();
  for (const std::string& text : options.set) request.set.push_back(split_assignment(text));
  for (const std::pair<std::string, std::string>& old : before) {
    const bool is_set =
        std::any_of(request.set.begin(), request.set.end(),
                    [&](const auto& setting) { return setting.first == old.first; });
    if (!is_set) request.set.push_back(old);
  }
}

std::string parse_library(const std::string& name) {
  if (name.empty()) throw InputError("--library: expected a name, found an empty text");
  return name;
}

bool parse_text_part(const std::string& part) {
  if (part != "all" && part != "text") {
    throw InputError(fmt::format("--part: expected all or text, found '{}'{}", part,
                                 did_you_mean(part, {"all", "text"})));
  }
  return part == "text";
}

// Reads the recipe that was asked for into the request.
void set_recipe(const std::string& name, ModelRequest& request) {
  const RecipeFile recipe = find_recipe(name, request.folders);
  apply_recipe(recipe, request);
  if (!request.recipe.checkpointing) return;
  try {
    parse_strategy(*request.recipe.checkpointing);
  } catch (const InputError& error) {
    fail_at(recipe.document, recipe.strategy_position,
            fmt::format("a recipe: key 'checkpointing': key 'strategy': {}", error.what()));
  }
}

}  // namespace

ModelRequest model_request(const ModelOptions& options, ModelRequest otherwise) {
  ModelRequest request = std::move(otherwise);
  const std::vector<std::filesystem::path> folders = folder_paths(options.folders);
  request.folders.insert(request.folders.begin(), folders.begin(), folders.end());
  if (options.recipe) set_recipe(*options.recipe, request);
  if (request.model.empty()) request.model = options.model;
  if (options.batch) request.batch = parse_count(*options.batch, "--batch", kKilo);
  if (options.optimizer) set_optimizer(*options.optimizer, request);
  request.step = training_step(options, request.step);
  if (options.optimizer_states) {
    request.optimizer_state_type =
        parse_floating_type(*options.optimizer_states, "--optimizer-states");
  }
  set_implementations(options, request);
  if (!options.freeze.empty()) request.freeze = options.freeze;
  if (!options.train_only.empty()) request.train_only = options.train_only;
  request.adapters = requested_adapters(options.adapters, std::move(request.adapters));
  request.quantization =
      requested_quantization(options.quantization, std::move(request.quantization));
  if (options.input_require_grads) request.input_require_grads = options.input_require_grads;
  if (options.library) {
    request.library = parse_library(*options.library);
    request.recipe.library.clear();
  }
  if (options.tokens) {
    request.tokens = parse_count(*options.tokens, "--tokens", kTokensKilo);
  }
  if (options.vocab) request.vocab = parse_count(*options.vocab, "--vocab", kKilo);
  if (options.expert_imbalance) {
    request.expert_imbalance = parse_factor(*options.expert_imbalance, "--expert-imbalance");
  }
  if (options.expert_capacity) {
    request.expert_capacity = parse_factor(*options.expert_capacity, "--expert-capacity");
  }
  if (options.part) request.text_part_only = parse_text_part(*options.part);
  set_dims(options, request);
  if (options.precision) request.precision = parse_precision(*options.precision);
  return request;
}

Extent parse_extent(const std::string& text) {
  if (const std::optional<Extent> extent = find_extent(text)) return *extent;
  throw InputError(fmt::format("--extent: expected one of {}, found '{}'{}",
                               join_names(extent_names()), text,
                               did_you_mean(text, extent_names())));
}

Strategy requested_strategy(const std::optional<std::string>& text, const ModelRequest& request) {
  return parse_strategy(text.value_or(request.recipe.checkpointing.value_or("none")));
}

Extent requested_extent(const std::optional<std::string>& text, const ModelRequest& request) {
  return text ? parse_extent(*text) : request.recipe.extent.value_or(Extent::kPrefix);
}

std::vector<std::filesystem::path> folder_paths(const std::vector<std::string>& folders) {
  return {folders.begin(), folders.end()};
}

std::optional<DeviceSpec> requested_gpu(const std::optional<std::string>& gpu,
                                        const std::vector<std::string>& folders) {
  if (!gpu) return std::nullopt;
  return find_gpu(*gpu, folder_paths(folders));
}

}  // namespace cairn
