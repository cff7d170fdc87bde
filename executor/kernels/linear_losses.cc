#include <algorithm>

#include "executor/kernels/kernels.h"

// Losses that have the head in themselves: logits of some rows at a time, of which no tensor of all
// is ever made.

namespace cairn {
namespace {

// As many rows as make logits about as large as the head's input.
std::int64_t rows_of_chunk(std::int64_t rows, std::int64_t features, std::int64_t classes) {
  const std::int64_t chunks = (classes + features - 1) / features;
  return std::max<std::int64_t>((rows + chunks - 1) / chunks, 1);
}

struct Head {
  Array x = {};  // [rows, features]
  Array labels = {};
  Array weight = {};  // [classes, features]
  Array bias = {};
  double cap = 0.0;
  std::int64_t rows() const { return x.shape[0]; }
  std::int64_t classes() const { return weight.shape[0]; }
};

Head head_of(const Op& op, const std::vector<Array>& inputs) {
  Head head{.x = rows_of(inputs[0]),
            .labels = inputs[1],
            .weight = inputs[2],
            .cap = op.attributes.softcap};
  if (op.attributes.bias) head.bias = inputs[3];
  return head;
}

// The logits of some rows, over and over in one place.
class Chunks {
 public:
  Chunks(Memory& memory, Head head)
      : memory_(memory),
        head_(std::move(head)),
        size_(rows_of_chunk(head_.rows(), head_.x.shape[1], head_.classes())),
        logits_(memory.make(head_.x.type, {std::min(size_, head_.rows()), head_.classes()})) {}

  const Array& workspace() const { return logits_; }

  // action(rows of x, their logits, what a functor of the loss reads)
  template <class Action>
  void for_each(const Action& action) const {
    for (std::int64_t begin = 0; begin < head_.rows(); begin += size_) {
      const std::int64_t count = std::min(size_, head_.rows() - begin);
      const Array x = part_of_dim(head_.x, 0, begin, count);
      const Array logits = part_of_dim(logits_, 0, 0, count);
      multiply(memory_, x, false, head_.weight, true, logits);
      if (head_.bias.is_there()) apply(memory_, logits, logits, head_.bias, Sum{});
      action(begin, x, logits,
             LossRows{elements(logits), elements(head_.labels), begin, head_.classes(),
                      head_.rows(), head_.cap});
    }
  }

 private:
  Memory& memory_;
  Head head_;
  std::int64_t size_ = 0;
  Array logits_ = {};
};

// Where the gradients of a chunk go; those that are not there are not made.
struct HeadGradients {
  Array x = {};  // [rows, features]
  Array weight = {};
  Array bias = {};
};

void add_gradients(Memory& memory, const Head& head, const HeadGradients& to, std::int64_t begin,
                   const Array& x, const Array& logit_gradient) {
  if (to.x.is_there()) {
    multiply(memory, logit_gradient, false, head.weight, false,
             part_of_dim(to.x, 0, begin, x.shape[0]));
  }
  if (to.weight.is_there()) multiply(memory, logit_gradient, true, x, false, to.weight, true);
  if (!to.bias.is_there()) return;
  with_real(to.bias.type, [&](auto real) {
    launch(memory.device(), last_dim(to.bias),
           AddColumnSum<decltype(real)>{elements(to.bias), elements(logit_gradient), x.shape[0],
                                        last_dim(to.bias), 1.0});
  });
}

// The loss and its gradients in one pass over the chunks.
void forward_with_gradients(ForwardRun& run, DataType loss_type) {
  Memory& memory = run.memory;
  const Head head = head_of(run.op, run.inputs);
  const auto is_trained = [&](std::size_t input) {
    return run.graph.tensor(run.op.inputs[input]).requires_grad;
  };
  HeadGradients to;
  if (is_trained(0)) {
    run.auxiliaries.push_back(memory.make(run.inputs[0].type, run.inputs[0].shape));
    to.x = rows_of(run.auxiliaries.back());
  }
  if (is_trained(2)) run.auxiliaries.push_back(to.weight = memory.make_zeros_like(head.weight));
  if (run.op.attributes.bias && is_trained(3)) {
    run.auxiliaries.push_back(to.bias = memory.make_zeros_like(head.bias));
  }
  const DataType type = statistics_type(head.x.type);
  const Array losses = memory.make(type, {head.rows()});
  const Array logsumexp = memory.make(type, {head.rows()});
  const Chunks chunks(memory, head);
  run.workspaces = {losses, logsumexp, chunks.workspace()};
  run.outputs = {memory.make(loss_type, {1})};
  chunks.for_each(
      [&](std::int64_t begin, const Array& x, const Array& logits, const LossRows& rows) {
        with_real(type, [&](auto real) {
          using Real = decltype(real);
          launch(memory.device(), x.shape[0],
                 RowLoss<Real>{rows, elements(losses), elements(logsumexp)});
          launch(memory.device(), element_count(logits),
                 LogitGradient<Real>{rows, elements(logsumexp), elements(logits)});
        });
        add_gradients(memory, head, to, begin, x, logits);
      });
  launch(memory.device(), 1, MeanOf{elements(run.outputs[0]), elements(losses), head.rows()});
}

void fused_forward(ForwardRun& run) {
  forward_with_gradients(run, statistics_type(run.inputs[0].type));
}

void chunked_forward(ForwardRun& run) { forward_with_gradients(run, run.inputs[0].type); }

// The gradients of forward, times that of the loss, in their place.
void handed_on_backward(BackwardRun& run) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < run.inputs.size(); ++i) {
    if (i == 1 || !run.graph.tensor(run.op.inputs[i]).requires_grad) continue;
    Array out = run.auxiliaries[next++];
    apply(run.memory, out, out, run.output_gradients[0], Product{});
    if (run.wants[i]) run.gradients[i].array = std::move(out);
  }
}

// --- cut-cross-entropy
// ----------------------------------------------------------------------------

void cut_forward(ForwardRun& run) {
  Memory& memory = run.memory;
  const Head head = head_of(run.op, run.inputs);
  const DataType type = statistics_type(head.x.type);
  Shape rows_shape = run.inputs[0].shape;
  rows_shape.back() = 1;
  const Array logsumexp = memory.make(type, rows_shape);
  const Array means = memory.make_zeros(type, {head.classes()});
  run.auxiliaries = {logsumexp, means};
  const Array losses = memory.make(type, {head.rows()});
  const Chunks chunks(memory, head);
  run.workspaces = {losses, chunks.workspace()};
  run.outputs = {memory.make(type, {1})};
  chunks.for_each([&](std::int64_t, const Array& x, const Array& logits, const LossRows& rows) {
    with_real(type, [&](auto real) {
      using Real = decltype(real);
      launch(memory.device(), x.shape[0],
             RowLoss<Real>{rows, elements(losses), elements(logsumexp)});
      launch(memory.device(), head.classes(),
             AddColumnSum<Real>{elements(means), elements(logits), x.shape[0], head.classes(),
                                1.0 / static_cast<double>(head.rows())});
    });
  });
  launch(memory.device(), 1, MeanOf{elements(run.outputs[0]), elements(losses), head.rows()});
}

// The logits are computed again. The input's gradient is made also where it needs none.
void cut_backward(BackwardRun& run) {
  Memory& memory = run.memory;
  const Head head = head_of(run.op, run.inputs);
  const Array of_input = memory.make(run.inputs[0].type, run.inputs[0].shape);
  HeadGradients to{.x = rows_of(of_input)};
  if (run.wants[2]) to.weight = memory.make_zeros_like(head.weight);
  const Chunks chunks(memory, head);
  run.workspaces = {chunks.workspace()};
  chunks.for_each([&](std::int64_t begin, const Array& x, const Array& logits,
                      const LossRows& rows) {
    with_real(statistics_type(head.x.type), [&](auto real) {
      launch(memory.device(), element_count(logits),
             LogitGradient<decltype(real)>{rows, elements(run.auxiliaries[0]), elements(logits)});
    });
    apply(memory, logits, logits, run.output_gradients[0], Product{});
    add_gradients(memory, head, to, begin, x, logits);
  });
  if (run.wants[0]) {
    run.gradients[0].array = of_input;
  } else {
    run.workspaces.push_back(of_input);
  }
  if (run.wants[2]) run.gradients[2].array = to.weight;
}

}  // namespace

std::vector<Kernel> linear_loss_kernels() {
  return {
      {"fused_linear_cross_entropy", fused_forward, handed_on_backward},
      {"chunked_linear_cross_entropy", chunked_forward, handed_on_backward},
      {"cut_cross_entropy", cut_forward, cut_backward},
  };
}

}  // namespace cairn
