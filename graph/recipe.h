#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/data_type.h"
#include "graph/precision.h"
#include "graph/training_step.h"

// How a model is trained, as far as it decides bytes and FLOPs.

namespace cairn {

// What may be run by one library's kernels or another's. A family names its choices for each.
inline constexpr std::array<std::string_view, 5> kImplementationOptions = {"attention", "norm",
                                                                           "rope", "mlp", "loss"};

// Low-rank adapters (LoRA, Hu et al. 2021) beside linear layers, all else frozen.
struct Adapters {
  std::int64_t rank = 16;
  // Patterns of the modules that have one, as those of `freeze`; "all-linear": every linear layer
  // but the head. Empty: the family's own (PEFT's for the model type).
  std::vector<std::string> targets = {};
  double dropout = 0.0;
  // What the adapter makes is multiplied by alpha over the rank, or with rsLoRA over its root: no
  // byte. Without alpha, the library's default.
  std::optional<double> alpha = {};
  bool scales_by_root = false;
  // Of the adapters' weights; without, the library's default (PEFT: fp32 over a 16-bit model).
  std::optional<DataType> data_type = {};
  bool has_magnitudes = false;  // DoRA (Liu et al. 2024)
  // Modules trained beside the adapters, whole (PEFT's modules_to_save: a copy of each).
  std::vector<std::string> trained_modules = {};

  friend bool operator==(const Adapters&, const Adapters&) = default;
};

// Weights of linear layers in fewer bits, frozen, as bitsandbytes stores and multiplies them.
enum class QuantizedFormat { kNf4, kFp4, kInt8 };

struct Quantization {
  QuantizedFormat format = QuantizedFormat::kNf4;
  // The scales of 4-bit blocks are quantised again (bnb_4bit_use_double_quant, off by default).
  bool is_double = false;
  // What a 4-bit product is computed in (bnb_4bit_compute_dtype); without, the type that autocast
  // or the parameters have.
  std::optional<DataType> compute_type = {};
  // Patterns of linear layers that are left as they are; the head is in any case.
  std::vector<std::string> skipped_modules = {};

  friend bool operator==(const Quantization&, const Quantization&) = default;
};

struct Recipe {
  Precision precision = {};
  std::string optimizer = "adamw";
  // Of the optimizer's states; without, the type of what it works on.
  std::optional<DataType> optimizer_state_type = {};
  // Of optimizers in 8 bits whose library leaves it to the trainer: embeddings have 32.
  bool has_full_embedding_states = false;
  // The choice for some of kImplementationOptions ({"norm", "liger"}); without, or "", the family's
  // default.
  std::map<std::string, std::string> implementations = {};
  // Rows of the worst rank's experts over the mean, of an expert-parallel group; 1: balanced.
  double expert_imbalance = 1.0;
  // An expert's most rows over the mean (GShard, Switch); 0: dropless, every token is served.
  double expert_capacity = 0.0;
  TrainingStep step = {};
  // Patterns of modules and parameters that are not trained, and of all that are; empty: all are.
  std::vector<std::string> freeze = {};
  std::vector<std::string> train_only = {};
  std::optional<Adapters> adapters = {};
  std::optional<Quantization> quantization = {};
  // What the embeddings of words make requires a gradient, though they are frozen (Transformers:
  // enable_input_require_grads).
  bool input_require_grads = false;
};

}  // namespace cairn
