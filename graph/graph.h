#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/data_type.h"
#include "graph/ids.h"

// The concrete graph of one forward pass with its loss, and of the backward pass that autograd
// derives from it. A Graph is made by GraphBuilder, checked there, and never changed afterwards.
//
// It is not a program: it says what each op reads, makes and saves, not how to compute it. It is
// not a plan either: nothing here says what is kept or dropped.

namespace cairn {

using Shape = std::vector<std::int64_t>;

// Bytes belong to storages. A view or alias is a tensor on another tensor's storage.
struct Storage {
  std::int64_t bytes = 0;
  TensorId owner = kNoTensor;  // the tensor whose making allocates the storage
};

enum class TensorRole {
  kInput,      // ids, labels, masks, cos/sin tables: live for the whole step
  kParameter,  // weights: live for the whole step
  kOutput,     // made by an op, read by other ops
  kAuxiliary,  // made by an op, read only by its own Backward (logsumexp, mask, statistics)
};

struct Tensor {
  std::string name = {};
  DataType data_type = DataType::kFloat32;
  Shape shape = {};        // empty where only bytes are known (plain graphs)
  std::int64_t bytes = 0;  // of the tensor; its gradient has as many
  StorageId storage = {};
  TensorRole role = TensorRole::kOutput;
  OpId producer = kNoOp;       // kNoOp for inputs and parameters
  OpId held_until = kNoOp;     // the last op of the last scope whose names hold it (rule 1a)
  bool requires_grad = false;  // autograd's flag: trainable, or made from something trainable
  bool has_gradient = false;   // requires_grad, and the loss depends on it
  bool is_buffer = false;      // with role kParameter, but none: the scales of a quantised weight
  bool is_logits = false;      // logits, loss and what lies between: reported as one category
  // Parameters only. From load on: the optimizer's own copy of it, and the buffer into which its
  // gradient is added, and dropped, in backward. What the optimizer keeps for it from its first
  // step on, and makes for it while it steps (graph/optimizer_rule.h).
  std::int64_t master_weight_bytes = 0;
  std::int64_t main_gradient_bytes = 0;
  std::int64_t optimizer_state_bytes = 0;
  std::int64_t optimizer_paged_bytes = 0;  // of states in unified memory: in no sum of live bytes
  std::int64_t optimizer_early_temporary_bytes = 0;
  std::int64_t optimizer_early_carried_bytes = 0;
  std::int64_t optimizer_temporary_bytes = 0;
  std::int64_t optimizer_carried_bytes = 0;  // of the temporaries, still there in the next one's
  // Parameters are stepped part by part; the states of a part are made before its first is.
  std::int64_t optimizer_part = 0;
};

// What one run of an op costs. `flops` is the count of the field's formulas (a multiply-add is 2).
struct Cost {
  std::int64_t flops = 0;
  std::int64_t executed_flops = 0;  // what the kernel runs: a causal flash kernel skips half
  std::int64_t moved_bytes = 0;     // read from and written to device memory
  std::int64_t kernel_count = 1;    // launches
  bool is_matmul = false;           // runs at the tensor cores' rate, else at the vector rate
  std::optional<std::int64_t> time_ns = {};      // stated; overrides the roofline
  std::optional<std::int64_t> measured_ns = {};  // by an executor; overrides what is stated
};

// Measured, else stated; empty where a device has to say.
std::optional<std::int64_t> known_time_ns(const Cost& cost);

enum class RecomputePolicy {
  kYes,
  kReplayRandom,  // recomputed with the stored seed
  kNever,         // collectives, host effects: what it makes is kept by every region around it
};

// batch_norm: a recompute uses the batch's statistics and leaves the running ones alone.
enum class SideEffect { kNone, kOnce };

struct OpKindInfo;  // graph/ops/op_kind.h

// What an op states beside its inputs; its kind says which of these it takes (OpKindInfo). Sizes
// count elements unless it says otherwise.
struct OpAttributes {
  std::int64_t width = 0;  // of the output: its last dim; conv: its channels
  std::int64_t rows = 0;   // embedding: of the table; crop, adaptive_avg_pool2d: side, in pixels
  std::int64_t parts = 0;  // split, slice: how many equal parts
  std::int64_t part = 0;   // slice: which part, from 0
  std::vector<std::int64_t> widths = {};  // split, slice: of the parts, where they are not equal
  std::int64_t axis = -1;                 // cat: which dim, from 0, or below 0 from the end

  std::int64_t heads = 0;     // of queries
  std::int64_t kv_heads = 0;  // of keys and values; 0: as many as of queries
  bool bias = false;          // linear and the like have one; of attention it is learned
  bool causal = false;        // attention: token i sees tokens 0 to i
  std::int64_t window = 0;    // attention: keys that a query sees; 0: all
  double softcap = 0.0;       // attention, losses: bounds scores or logits by a tanh; 0: none
  bool sinks = false;         // attention: a learned score a head, without a value
  bool fp4 = false;           // linear_4bit: FP4, else NF4
  bool nested = false;        // linear_4bit: the scales are quantised too (double quantisation)

  double probability = 0.0;                // dropout, attention: of dropping an element
  std::optional<DataType> data_type = {};  // cast, softmax: of the output; linear: of the product
  bool in_place = false;                   // relu, add, rope: over the first input's storage
  bool gradient_in_place = false;          // Backward makes no tensor for the inputs' gradients

  std::int64_t kernel = 0;   // conv, pools: side of the square, in pixels
  std::int64_t stride = 0;   // conv, pools: in pixels; 0: conv 1, pools the kernel
  std::int64_t padding = 0;  // conv, pools: pixels added on each side
  std::int64_t groups = 0;   // conv2d: of channels; 0: one. group_mask: of experts

  std::int64_t largest_count = 0;  // topk: how many of the largest
  std::int64_t experts = 0;        // dispatch, expert_linear: how many there are
  double imbalance = 1.0;  // dispatch: rows of the worst rank over the mean, expert-parallel
  double capacity = 0.0;   // dispatch: most rows of an expert over the mean; 0: dropless

  // Only an executor reads these, and `heads` of kinds that cut or join a last dim.
  bool tanh_form = false;  // gelu: by a tanh, else by erf
  bool one_sided = false;  // clamp: from above alone
  bool pairs = false;      // mul_table: neighbours in x and in the table are complex numbers
  // The number of a kind that has one: the exponent of pow, the factor of scale, the term of
  // add_scalar, clamp's limit, the epsilon of a norm, attention's factor.
  std::optional<double> constant = {};
};

struct Op {
  std::string name = {};
  std::string module = {};  // the trainer's module path, "" where unknown
  const OpKindInfo* kind = nullptr;
  OpAttributes attributes = {};
  std::int32_t block = -1;  // which repeat of the repeated block, -1 outside of it

  std::vector<TensorId> inputs = {};  // what Compute reads, parameters last
  std::vector<TensorId> outputs = {};
  std::vector<TensorId> auxiliaries = {};
  std::vector<TensorId> saved = {};         // what Backward reads, besides gradients; no repeats
  std::vector<TensorId> unread_saved = {};  // the same where the loss does not depend on the op
  std::vector<bool> gradient_aliases = {};  // per input: its gradient aliases that of outputs[0]
  // Per input: the saved tensor over which Backward writes its gradient, or kNoTensor.
  std::vector<TensorId> gradient_places = {};
  std::vector<bool> gradient_views = {};  // per input: nothing is added into its gradient (rule 10)

  std::int64_t workspace_bytes = 0;
  std::int64_t backward_workspace_bytes = 0;
  // Charged instead of auxiliaries + workspace when no auxiliary outlives the step.
  std::optional<std::int64_t> sweep_workspace_bytes = {};

  Cost forward = {};
  Cost backward = {};
  RecomputePolicy recompute = RecomputePolicy::kYes;
  SideEffect side_effect = SideEffect::kNone;
  bool in_place = false;      // outputs[0] overwrites inputs[0]'s storage
  bool has_backward = false;  // some output has a gradient
  // A custom autograd.Function: it saves its inputs too when its forward is over, not before.
  bool saves_after_forward = false;
};

struct Graph {
  std::string name = {};
  std::vector<Storage> storages = {};
  std::vector<Tensor> tensors = {};
  std::vector<Op> ops = {};  // in execution order: every tensor is made before it is read
  TensorId loss = kNoTensor;
  std::int32_t block_count = 0;  // blocks are numbered [0, block_count)

  const Op& op(OpId id) const { return ops[index(id)]; }
  const Tensor& tensor(TensorId id) const { return tensors[index(id)]; }
  const Storage& storage(StorageId id) const { return storages[index(id)]; }
};

bool is_view(const Graph& graph, TensorId tensor);

// Live from load to the end of the step: inputs and parameters.
bool is_resident(const Tensor& tensor);

// Elements of the parameters; those of which only bytes are known (plain graphs) count as none.
std::int64_t parameter_count(const Graph& graph);
// Those that one token goes through: of the weights of experts, the share of those it takes; all of
// every other, tables included.
std::int64_t active_parameter_count(const Graph& graph);
// Those that require a gradient.
std::int64_t trainable_parameter_count(const Graph& graph);
std::int64_t parameter_bytes(const Graph& graph);
// Of the parameters that have one.
std::int64_t gradient_bytes(const Graph& graph);
std::int64_t optimizer_state_bytes(const Graph& graph);
std::int64_t optimizer_paged_bytes(const Graph& graph);
std::int64_t master_weight_bytes(const Graph& graph);
std::int64_t main_gradient_bytes(const Graph& graph);

// Elements of a shape; throws InputError naming `what` when the product passes 2^63 - 1.
std::int64_t element_count(const Shape& shape, const std::string& what);
std::int64_t tensor_bytes(DataType type, const Shape& shape, const std::string& what);

}  // namespace cairn
