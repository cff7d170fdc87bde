#include "models/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>

#include "graph/checked.h"
#include "graph/error.h"
#include "models/optimizer_bytes.h"

namespace cairn {
namespace {

using BytesOf = std::function<OptimizerBytes(const SteppedParameter&)>;

// One optimizer of one library, in the loops that it has. One without a fused form has its own loop
// under that name too, which is the default.
struct OptimizerRow {
  std::string name = {};
  BytesOf fused = {};
  BytesOf fused_with_full_embeddings = {};  // Recipe::has_full_embedding_states, where it matters
  BytesOf foreach = {};
  BytesOf for_loop = {};
  bool makes_states_one_by_one = false;
  bool needs_shapes = true;
  bool has_master_weights = false;  // a kernel reads 16-bit gradients beside them
  // Why its states have no other type than it gives them; "": some library's can have another.
  std::string own_states = "its states have types of their own";
};

BytesOf like(const TensorCounts& counts) { return like_parameters(counts).bytes_of; }

// torch.optim of torch 2.13. Adam's square roots: foreach has those of all parameters at once; the
// loop divides them into a second tensor, the denominator, which lasts until the next one's takes
// its name. Measured (tests/oracle/optimizer_test.py). SGD works in place.
const BytesOf& adam_fused() {
  static const BytesOf bytes_of = like({.state_count = 2});
  return bytes_of;
}

const BytesOf& adam_for_loop() {
  static const BytesOf bytes_of =
      like({.state_count = 2, .temporary_count = 2, .carried_count = 1});
  return bytes_of;
}

OptimizerRow torch_row(std::string name, const TensorCounts& foreach, BytesOf fused,
                       BytesOf for_loop) {
  return {.name = std::move(name),
          .fused = std::move(fused),
          .foreach = like(foreach),
          .for_loop = std::move(for_loop),
          .needs_shapes = false,
          .has_master_weights = true};
}

OptimizerRow adam_row(std::string name) {
  OptimizerRow row = torch_row(std::move(name), {.state_count = 2, .temporary_count = 1},
                               adam_fused(), adam_for_loop());
  row.own_states.clear();
  return row;
}

// torch 2.13, optim/sgd.py: the momentum begins as a clone of the gradient.
OptimizerRow sgd_row(std::string name, std::int64_t state_count) {
  const TensorCounts counts = {.state_count = state_count};
  OptimizerRow row = torch_row(std::move(name), counts, like(counts), like(counts));
  row.own_states =
      state_count == 0 ? "it has no states" : "its momentum is of the type of the gradients";
  return row;
}

// lion-pytorch 0.2.5: its Triton kernel, or an update that is a clone and a sum.
OptimizerRow lion_row() {
  return {.name = "lion",
          .fused = like({.state_count = 1}),
          .for_loop = like({.state_count = 1, .temporary_count = 2}),
          .makes_states_one_by_one = true,
          .needs_shapes = false,
          .has_master_weights = true,
          .own_states = "its momentum is of the type of the parameters"};
}

BytesOf bitsandbytes(const BitsAndBytes& optimizer) {
  return [optimizer](const SteppedParameter& parameter) {
    return bitsandbytes_bytes(optimizer, parameter);
  };
}

// 8 bits for embeddings too, unless the trainer says otherwise (GlobalOptimManager).
OptimizerRow bitsandbytes_row(std::string name, const BitsAndBytes& optimizer) {
  BitsAndBytes with_full_embeddings = optimizer;
  with_full_embeddings.has_full_embeddings = true;
  return {.name = std::move(name),
          .fused = bitsandbytes(optimizer),
          .fused_with_full_embeddings = bitsandbytes(with_full_embeddings),
          .makes_states_one_by_one = true};
}

// Its step is compiled (torch.compile), which decides its temporaries: none are counted.
OptimizerRow torchao_row(std::string name, const TorchAo& optimizer) {
  return {.name = std::move(name),
          .fused =
              [optimizer](const SteppedParameter& parameter) {
                return torchao_bytes(optimizer, parameter);
              },
          .makes_states_one_by_one = true};
}

// AdamW has what Muon does not step, and steps it behind Muon.
BytesOf muon_beside(const BytesOf& adamw) {
  return [adamw](const SteppedParameter& parameter) {
    if (is_stepped_by_muon(parameter)) return muon_bytes(parameter);
    OptimizerBytes bytes = adamw(parameter);
    bytes.part = 1;
    return bytes;
  };
}

std::vector<OptimizerRow> make_rows() {
  return {
      adam_row("adamw"),
      adam_row("adam"),
      sgd_row("sgd", 0),
      sgd_row("sgd-momentum", 1),
      lion_row(),
      bitsandbytes_row("adamw-8bit", {}),
      bitsandbytes_row("adam-8bit", {}),
      bitsandbytes_row("lion-8bit", {.state_count = 1}),
      bitsandbytes_row("adamw-32bit", {.is_8bit = false}),
      bitsandbytes_row("lion-32bit", {.state_count = 1, .is_8bit = false}),
      bitsandbytes_row("paged-adamw-8bit", {.is_paged = true}),
      bitsandbytes_row("paged-adamw-32bit", {.is_8bit = false, .is_paged = true}),
      bitsandbytes_row("paged-lion-8bit", {.state_count = 1, .is_paged = true}),
      bitsandbytes_row("paged-lion-32bit", {.state_count = 1, .is_8bit = false, .is_paged = true}),
      torchao_row("adamw-torch-8bit", {}),
      torchao_row("adamw-torch-4bit", {.code_bits = 4, .table_entries = 16}),
      torchao_row("adamw-torch-fp8", {.table_entries = 0}),
      {.name = "adafactor",
       .fused = adafactor_bytes,
       .for_loop = adafactor_bytes,
       .makes_states_one_by_one = true},
      {.name = "adafactor-torch",
       .fused = torch_adafactor_bytes,
       .foreach = torch_adafactor_foreach_bytes,
       .for_loop = torch_adafactor_bytes},
      {.name = "muon",
       .fused = muon_beside(adam_fused()),
       .for_loop = muon_beside(adam_for_loop())},
  };
}

const std::vector<OptimizerRow>& rows() {
  static const std::vector<OptimizerRow> all = make_rows();
  return all;
}

// What Transformers' Trainer also calls them (training_args.py, OptimizerNames).
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kOtherNames = {{
    {"adamw-bnb-8bit", "adamw-8bit"},
    {"paged-adamw", "paged-adamw-32bit"},
    {"paged-lion", "paged-lion-32bit"},
}};

constexpr std::array kLoops = {OptimizerLoop::kFused, OptimizerLoop::kForeach,
                               OptimizerLoop::kForLoop};

const OptimizerRow& optimizer_row(std::string_view name) {
  for (const OptimizerRow& row : rows()) {
    if (row.name == name) return row;
  }
  throw InputError(fmt::format("unknown optimizer '{}': expected one of {}{}", name,
                               join_names(optimizer_names()),
                               did_you_mean(name, optimizer_names())));
}

const BytesOf& bytes_in(const OptimizerRow& row, OptimizerLoop loop) {
  switch (loop) {
    case OptimizerLoop::kFused:
      return row.fused;
    case OptimizerLoop::kForeach:
      return row.foreach;
    case OptimizerLoop::kForLoop:
      return row.for_loop;
  }
  CAIRN_CHECK(false, "unknown optimizer loop");
}

// One kernel that reads states of another type than what it steps: torch 2.13's fused Adam, whose
// states torchtitan 0.3.0 makes in bf16 (fused_opt_states_bf16), and Megatron-LM's
// (--exp-avg-dtype).
BytesOf with_states_of(DataType type, const BytesOf& bytes_of) {
  return [type, bytes_of](const SteppedParameter& parameter) {
    OptimizerBytes bytes = bytes_of(parameter);
    const std::int64_t elements = bytes.state_bytes / bytes_per_element(parameter.type);
    bytes.state_bytes = checked_multiply(elements, bytes_per_element(type),
                                         "parameter '{}': its optimizer states", parameter.name);
    return bytes;
  };
}

void check_state_type(const OptimizerRow& row, const Recipe& recipe) {
  const std::string_view type = data_type_name(*recipe.optimizer_state_type);
  if (!row.own_states.empty()) {
    std::vector<std::string> names;
    for (const OptimizerRow& other : rows()) {
      if (other.own_states.empty()) names.push_back(other.name);
    }
    throw InputError(fmt::format("--optimizer-states {} and --optimizer {}: {}; expected one of {}",
                                 type, row.name, row.own_states, join_names(names)));
  }
  if (recipe.step.optimizer_loop != OptimizerLoop::kFused) {
    throw InputError(fmt::format(
        "--optimizer-states {} and --optimizer-loop {}: states of another type are counted in one "
        "kernel; expected fused",
        type, optimizer_loop_name(recipe.step.optimizer_loop)));
  }
}

}  // namespace

OptimizerRule optimizer_rule(const Recipe& recipe) {
  const OptimizerRow& row = optimizer_row(recipe.optimizer);
  if (recipe.precision.master_type && !row.has_master_weights) {
    std::vector<std::string> names;
    for (const OptimizerRow& other : rows()) {
      if (other.has_master_weights) names.push_back(other.name);
    }
    throw InputError(fmt::format(
        "--optimizer {} and --precision {}: it keeps no master weights; expected one of {}",
        row.name, precision_name(recipe.precision), join_names(names)));
  }
  const OptimizerLoop loop = recipe.step.optimizer_loop;
  const BytesOf& bytes_of = bytes_in(row, loop);
  if (!bytes_of) {
    std::vector<std::string> names;
    for (const OptimizerLoop other : kLoops) {
      if (bytes_in(row, other)) names.emplace_back(optimizer_loop_name(other));
    }
    throw InputError(fmt::format("--optimizer {} has no {} loop: expected --optimizer-loop {}",
                                 row.name, optimizer_loop_name(loop), fmt::join(names, " or ")));
  }
  if (recipe.optimizer_state_type) check_state_type(row, recipe);
  const bool has_full_embeddings =
      recipe.has_full_embedding_states && row.fused_with_full_embeddings;
  const BytesOf& taken = has_full_embeddings ? row.fused_with_full_embeddings : bytes_of;
  return {.bytes_of = recipe.optimizer_state_type
                          ? with_states_of(*recipe.optimizer_state_type, taken)
                          : taken,
          .makes_states_one_by_one = row.makes_states_one_by_one,
          .is_per_parameter = recipe.step.optimizer_in_backward,
          .main_gradient_type = recipe.step.main_gradient_type};
}

OptimizerRule optimizer_rule_without_shapes(const Recipe& recipe) {
  if (optimizer_row(recipe.optimizer).needs_shapes) {
    std::vector<std::string> names;
    for (const OptimizerRow& row : rows()) {
      if (!row.needs_shapes) names.push_back(row.name);
    }
    throw InputError(fmt::format(
        "--optimizer {}: its states are of the parameters' shapes, and a plain graph has only "
        "bytes; expected one of {}",
        recipe.optimizer, join_names(names)));
  }
  return optimizer_rule(recipe);
}

std::string optimizer_name(std::string_view text) {
  std::string name(text);
  std::replace(name.begin(), name.end(), '_', '-');
  for (const auto& [other, own] : kOtherNames) {
    if (name == other) return std::string(own);
  }
  return name;
}

bool takes_state_type(std::string_view optimizer) {
  return optimizer_row(optimizer).own_states.empty();
}

OptimizerLoop parse_optimizer_loop(std::string_view text) {
  for (const OptimizerLoop loop : kLoops) {
    if (text == optimizer_loop_name(loop)) return loop;
  }
  const std::vector<std::string> names = optimizer_loop_names();
  throw InputError(fmt::format("--optimizer-loop: expected one of {}, found '{}'{}",
                               join_names(names), text, did_you_mean(text, names)));
}

std::vector<std::string> optimizer_loop_names() {
  std::vector<std::string> names;
  for (const OptimizerLoop loop : kLoops) names.emplace_back(optimizer_loop_name(loop));
  return names;
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerRow& row : rows()) names.push_back(row.name);
  return names;
}

}  // namespace cairn
