#include <algorithm>

#include "executor/kernels/kernels.h"

// Routers, and experts whose rows are sorted by expert.

namespace cairn {
namespace {

Shape with_last(Shape shape, std::int64_t extent) {
  shape.back() = extent;
  return shape;
}

// --- Routers
// --------------------------------------------------------------------------------------

void topk_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const std::int64_t count = run.op.attributes.largest_count;
  const Shape shape = with_last(x.shape, count);
  run.outputs = {run.memory.make(x.type, shape), run.memory.make(DataType::kInt64, shape)};
  with_real(x.type, [&](auto real) {
    launch(run.memory.device(), row_count(x),
           LargestOfRow<decltype(real)>{elements(run.outputs[0]), elements(run.outputs[1]),
                                        elements(x), last_dim(x), count});
  });
}

void scatter_rows(BackwardRun& run, const Array& indices) {
  const Array& x = run.inputs[0];
  Array out = run.memory.make(x.type, x.shape);
  with_real(x.type, [&](auto real) {
    launch(run.memory.device(), row_count(out),
           ScatterRow<decltype(real)>{elements(out), elements(run.output_gradients[0]),
                                      elements(indices), last_dim(out), last_dim(indices)});
  });
  run.gradients[0].array = std::move(out);
}

void gather_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const Array& indices = run.inputs[1];
  run.outputs = {run.memory.make(x.type, indices.shape)};
  with_real(x.type, [&](auto real) {
    launch(run.memory.device(), element_count(indices),
           GatherRow<decltype(real)>{elements(run.outputs[0]), elements(x), elements(indices),
                                     last_dim(x), last_dim(indices)});
  });
}

void group_mask_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const OpAttributes& attributes = run.op.attributes;
  run.outputs = {run.memory.make(DataType::kBool, x.shape)};
  with_real(x.type, [&](auto real) {
    launch(run.memory.device(), row_count(x),
           OutsideGroups<decltype(real)>{
               elements(run.outputs[0]), elements(x), last_dim(x), attributes.groups,
               std::max<std::int64_t>(attributes.largest_count, 1),
               static_cast<std::int64_t>(attributes.constant.value_or(1.0))});
  });
}

void no_backward(BackwardRun&) {}

void masked_fill(Memory& memory, const Array& out, const Array& x, const Array& flags,
                 double otherwise) {
  with_real(out.type, [&](auto real) {
    launch(
        memory.device(), element_count(out),
        FillWhere<decltype(real)>{elements(out), elements(x), elements_for(flags, out), otherwise});
  });
}

void masked_fill_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  run.outputs = {run.memory.make(x.type, x.shape)};
  masked_fill(run.memory, run.outputs[0], x, run.inputs[1], *run.op.attributes.constant);
}

void masked_fill_backward(BackwardRun& run) {
  Array out = run.memory.make(run.inputs[0].type, run.inputs[0].shape);
  masked_fill(run.memory, out, run.output_gradients[0], run.inputs[1], 0.0);
  run.gradients[0].array = std::move(out);
}

// --- Rows of experts
// ------------------------------------------------------------------------------

void dispatch_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const Array& indices = run.inputs[1];
  const std::int64_t rows = element_count(indices);
  const std::int64_t experts = run.op.attributes.experts;
  Memory& memory = run.memory;
  run.outputs = {memory.make(x.type, {rows, last_dim(x)}), memory.make(DataType::kInt64, {rows}),
                 memory.make_zeros(DataType::kBool, {rows, 1}),  // every row has its expert
                 memory.make(DataType::kInt32, {experts}), memory.make(DataType::kInt64, {rows})};
  run.auxiliaries = {memory.make(DataType::kInt64, {rows})};
  launch(
      memory.device(), experts,
      SortByExpert{elements(run.outputs[1]), elements(run.auxiliaries[0]), elements(run.outputs[4]),
                   elements(run.outputs[3]), elements(indices), rows, last_dim(indices)});
  with_real(x.type, [&](auto real) {
    launch(memory.device(), element_count(run.outputs[0]),
           Lookup<decltype(real)>{elements(run.outputs[0]), elements(x),
                                  elements(run.auxiliaries[0]), last_dim(x)});
  });
}

void dispatch_backward(BackwardRun& run) {
  const Array& x = run.inputs[0];
  const Array& token = run.auxiliaries[0];
  Array out = run.memory.make_zeros_like(x);
  with_real(x.type, [&](auto real) {
    launch(run.memory.device(), last_dim(out),
           LookupGradient<decltype(real)>{elements(out), elements(run.output_gradients[0]),
                                          elements(token), last_dim(out), element_count(token)});
  });
  run.gradients[0].array = std::move(out);
}

// Of a capacity or an imbalance there are rows of other ranks' tokens, or dropped ones.
std::string refuse_uneven(const Graph&, const Op& op) {
  const OpAttributes& attributes = op.attributes;
  if (attributes.imbalance == 1.0 && attributes.capacity == 0.0) return {};
  return "an expert imbalance or capacity, which are of several ranks";
}

void take_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const std::int64_t rows = element_count(run.inputs[1]);
  run.outputs = {run.memory.make(x.type, {rows, 1})};
  with_real(x.type, [&](auto real) {
    launch(run.memory.device(), rows,
           TakeElements<decltype(real)>{elements(run.outputs[0]), elements(x),
                                        elements(run.inputs[1])});
  });
}

void take_backward(BackwardRun& run) {
  Array out = run.memory.make_zeros_like(run.inputs[0]);
  with_real(out.type, [&](auto real) {
    launch(run.memory.device(), element_count(run.inputs[1]),
           PutElements<decltype(real)>{elements(out), elements(run.output_gradients[0]),
                                       elements(run.inputs[1])});
  });
  run.gradients[0].array = std::move(out);
}

// --- Products of experts
// --------------------------------------------------------------------------

// Where the rows of each expert end, on the host.
std::vector<std::int64_t> host_ends(Memory& memory, const Array& ends) {
  std::vector<std::int32_t> read(static_cast<std::size_t>(element_count(ends)));
  memory.device().copy_out(read.data(), first_element(ends),
                           element_count(ends) * bytes_per_element(ends.type));
  return {read.begin(), read.end()};
}

Array matrix_of_expert(const Array& weight, std::int64_t expert) {
  return reshaped(part_of_dim(weight, 0, expert, 1), {weight.shape[1], weight.shape[2]});
}

// action(expert, first row, rows), of experts that have some.
template <class Action>
void for_each_expert(const std::vector<std::int64_t>& ends, const Action& action) {
  std::int64_t begin = 0;
  for (std::size_t expert = 0; expert < ends.size(); ++expert) {
    const std::int64_t count = ends[expert] - begin;
    if (count > 0) action(static_cast<std::int64_t>(expert), begin, count);
    begin = ends[expert];
  }
}

void expert_linear_forward(ForwardRun& run) {
  const Array& rows = run.inputs[0];
  const bool has_bias = run.op.attributes.bias;
  const Array& weight = run.inputs[run.inputs.size() - (has_bias ? 2 : 1)];
  run.outputs = {run.memory.make(rows.type, {rows.shape[0], run.op.attributes.width})};
  const Array& out = run.outputs[0];
  for_each_expert(host_ends(run.memory, run.inputs[1]), [&](std::int64_t expert, std::int64_t begin,
                                                            std::int64_t count) {
    multiply(run.memory, part_of_dim(rows, 0, begin, count), false,
             matrix_of_expert(weight, expert), true, part_of_dim(out, 0, begin, count));
  });
  if (!has_bias) return;
  with_real(out.type, [&](auto real) {
    launch(run.memory.device(), element_count(out),
           AddLookup<decltype(real)>{elements(out), elements(run.inputs.back()),
                                     elements(run.inputs[2]), last_dim(out)});
  });
}

void expert_linear_backward(BackwardRun& run) {
  Memory& memory = run.memory;
  const Array& rows = run.inputs[0];
  const Array& gradient = run.output_gradients[0];
  const bool has_bias = run.op.attributes.bias;
  const std::size_t weight = run.inputs.size() - (has_bias ? 2 : 1);
  if (run.wants[0]) run.gradients[0].array = memory.make(rows.type, rows.shape);
  if (run.wants[weight]) run.gradients[weight].array = memory.make_zeros_like(run.inputs[weight]);
  for_each_expert(host_ends(memory, run.inputs[1]),
                  [&](std::int64_t expert, std::int64_t begin, std::int64_t count) {
                    const Array g = part_of_dim(gradient, 0, begin, count);
                    if (run.wants[0]) {
                      multiply(memory, g, false, matrix_of_expert(run.inputs[weight], expert),
                               false, part_of_dim(run.gradients[0].array, 0, begin, count));
                    }
                    if (run.wants[weight]) {
                      multiply(memory, g, true, part_of_dim(rows, 0, begin, count), false,
                               matrix_of_expert(run.gradients[weight].array, expert));
                    }
                  });
  if (!has_bias || !run.wants.back()) return;
  Array out = memory.make_zeros_like(run.inputs.back());
  with_real(out.type, [&](auto real) {
    launch(
        memory.device(), last_dim(out),
        LookupGradient<decltype(real)>{elements(out), elements(gradient), elements(run.inputs[2]),
                                       last_dim(out), gradient.shape[0]});
  });
  run.gradients.back().array = std::move(out);
}

void combine_forward(ForwardRun& run) {
  const Array& rows = run.inputs[0];
  const Array& indices = run.inputs[1];
  run.auxiliaries = {run.memory.make(DataType::kInt64, {element_count(indices)})};
  run.outputs = {run.memory.make(rows.type, with_last(indices.shape, last_dim(rows)))};
  launch(run.memory.device(), run.op.attributes.experts,
         RowsOfEntries{elements(run.auxiliaries[0]), elements(indices), element_count(indices)});
  with_real(rows.type, [&](auto real) {
    launch(run.memory.device(), element_count(run.outputs[0]),
           CombineRows<decltype(real)>{elements(run.outputs[0]), elements(rows),
                                       elements(run.auxiliaries[0]), last_dim(rows),
                                       last_dim(indices)});
  });
}

std::string refuse_without_experts(const Graph&, const Op& op) {
  return op.attributes.experts > 0 ? "" : "no 'experts' is stated";
}

void combine_backward(BackwardRun& run) {
  const Array& rows = run.inputs[0];
  const Array& inverse = run.auxiliaries[0];
  Array out = run.memory.make(rows.type, rows.shape);
  with_real(rows.type, [&](auto real) {
    launch(run.memory.device(), element_count(inverse) * last_dim(rows),
           CombineRowsGradient<decltype(real)>{elements(out), elements(run.output_gradients[0]),
                                               elements(inverse), last_dim(rows),
                                               last_dim(run.inputs[1])});
  });
  run.gradients[0].array = std::move(out);
}

}  // namespace

std::vector<Kernel> expert_kernels() {
  return {
      {"topk", topk_forward, [](BackwardRun& run) { scatter_rows(run, run.outputs[1]); }},
      {"gather", gather_forward, [](BackwardRun& run) { scatter_rows(run, run.inputs[1]); }},
      {"group_mask", group_mask_forward, no_backward, refuse_without_constant},
      {"masked_fill", masked_fill_forward, masked_fill_backward, refuse_without_constant},
      {"dispatch", dispatch_forward, dispatch_backward, refuse_uneven},
      {"take", take_forward, take_backward},
      {"expert_linear", expert_linear_forward, expert_linear_backward},
      {"combine", combine_forward, combine_backward, refuse_without_experts},
  };
}

}  // namespace cairn
