#include "executor/kernels/kernels.h"

// Keys and values for every head, and pieces of attention that only some models have.

namespace cairn {
namespace {

std::int64_t group_of(const Op& op) { return op.attributes.heads / op.attributes.kv_heads; }

// [batch, tokens, kv_heads, group, head_dim], whose group is 1 of what is repeated.
Array by_group(const Array& x, std::int64_t kv_heads, std::int64_t group) {
  const Array heads = by_head(x, kv_heads * group);
  return reshaped(heads, {heads.shape[0], heads.shape[1], kv_heads, group, last_dim(heads)});
}

void repeat_kv_forward(ForwardRun& run) {
  const std::int64_t kv_heads = run.op.attributes.kv_heads;
  const Array x = by_group(run.inputs[0], kv_heads, 1);
  const std::int64_t width = run.op.attributes.heads * last_dim(x);
  run.outputs = {run.memory.make(x.type, {x.shape[0], x.shape[1], width})};
  apply(run.memory, by_group(run.outputs[0], kv_heads, group_of(run.op)), x, Same{});
}

void repeat_kv_backward(BackwardRun& run) {
  const Array& x = run.inputs[0];
  const Array gradient = run.output_gradients[0];
  Array out = run.memory.make(x.type, x.shape);
  const std::int64_t head_dim = last_dim(by_head(x, run.op.attributes.kv_heads));
  with_real(out.type, [&](auto real) {
    launch(
        run.memory.device(), element_count(out),
        MiddleSum<decltype(real)>{elements(out), elements(gradient), group_of(run.op), head_dim});
  });
  run.gradients[0].array = std::move(out);
}

// A copy in rows of its own, and a view where there is one sample.
void matmul_rows_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  if (x.shape[0] == 1) {
    run.outputs = {x};
    return;
  }
  run.outputs = {run.memory.make(x.type, x.shape)};
  apply(run.memory, run.outputs[0], x, Same{});
}

void pass_gradient(BackwardRun& run) { run.gradients[0].array = run.output_gradients[0]; }

// --- Heads of an own and a shared part
// ------------------------------------------------------------

void join_heads_forward(ForwardRun& run) {
  const std::int64_t heads = run.op.attributes.heads;
  const Array own = by_head(run.inputs[0], heads);
  const Array shared = by_head(run.inputs[1], 1);
  const std::int64_t width = last_dim(own) + last_dim(shared);
  run.outputs = {run.memory.make(own.type, {own.shape[0], own.shape[1], heads * width})};
  const Array out = by_head(run.outputs[0], heads);
  apply(run.memory, part_of_dim(out, 3, 0, last_dim(own)), own, Same{});
  apply(run.memory, part_of_dim(out, 3, last_dim(own), last_dim(shared)), shared, Same{});
}

void join_heads_backward(BackwardRun& run) {
  const std::int64_t heads = run.op.attributes.heads;
  const Array gradient = by_head(run.output_gradients[0], heads);
  const std::int64_t own_width = last_dim(by_head(run.inputs[0], heads));
  if (run.wants[0]) {
    Array out = run.memory.make(run.inputs[0].type, run.inputs[0].shape);
    apply(run.memory, out, part_of_dim(gradient, 3, 0, own_width), Same{});
    run.gradients[0].array = std::move(out);
  }
  if (!run.wants[1]) return;
  const std::int64_t width = last_dim(gradient) - own_width;
  Array out = run.memory.make(run.inputs[1].type, run.inputs[1].shape);
  with_real(out.type, [&](auto real) {
    launch(run.memory.device(), element_count(out),
           MiddleSum<decltype(real)>{
               elements(out), elements(part_of_dim(gradient, 3, own_width, width)), heads, width});
  });
  run.gradients[1].array = std::move(out);
}

// --- Sinks
// ----------------------------------------------------------------------------------------

void append_sinks_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  Shape shape = x.shape;
  shape.back() += 1;
  run.outputs = {run.memory.make(x.type, shape)};
  const Array& out = run.outputs[0];
  apply(run.memory, part_of_dim(out, 3, 0, last_dim(x)), x, Same{});
  const Array sinks = reshaped(run.inputs[1], {1, x.shape[1], 1, 1});
  apply(run.memory, part_of_dim(out, 3, last_dim(x), 1), sinks, Same{});
}

void append_sinks_backward(BackwardRun& run) {
  const Array& gradient = run.output_gradients[0];
  const std::int64_t columns = last_dim(gradient) - 1;
  if (run.wants[0]) run.gradients[0].array = part_of_dim(gradient, 3, 0, columns);
  if (!run.wants[1]) return;
  const Array by_head = reshaped(run.inputs[1], {gradient.shape[1], 1, 1});
  const Array sum = summed_to(run.memory, part_of_dim(gradient, 3, columns, 1), by_head);
  run.gradients[1].array = reshaped(sum, run.inputs[1].shape);
}

Array without_sinks(const Op&, const Array& x) {
  return part_of_dim(x, x.shape.size() - 1, 0, last_dim(x) - 1);
}

void drop_sinks_forward(ForwardRun& run) { run.outputs = {without_sinks(run.op, run.inputs[0])}; }

}  // namespace

std::vector<Kernel> head_kernels() {
  return {
      {"repeat_kv", repeat_kv_forward, repeat_kv_backward},
      {"matmul_rows", matmul_rows_forward, pass_gradient},
      {"join_heads", join_heads_forward, join_heads_backward},
      {"append_sinks", append_sinks_forward, append_sinks_backward},
      {"drop_sinks", drop_sinks_forward, part_backward<without_sinks>},
  };
}

}  // namespace cairn
