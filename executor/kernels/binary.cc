#include "executor/kernels/kernels.h"
#include "graph/error.h"

// Ops on two tensors, element by element, the smaller broadcast; products with a weight of the last
// dim.

namespace cairn {
namespace {

bool fits_into(const Shape& small, const Shape& large) {
  if (small.size() > large.size()) return false;
  const std::size_t missing = large.size() - small.size();
  for (std::size_t dim = 0; dim < small.size(); ++dim) {
    if (small[dim] != 1 && small[dim] != large[missing + dim]) return false;
  }
  return true;
}

const Shape& result_shape(const Array& a, const Array& b) {
  return fits_into(b.shape, a.shape) ? a.shape : b.shape;
}

template <class Function>
void binary_forward(ForwardRun& run) {
  const Array& a = run.inputs[0];
  const Array& b = run.inputs[1];
  run.outputs = {run.op.attributes.in_place
                     ? a
                     : run.memory.make(promoted_type(a.type, b.type), result_shape(a, b))};
  apply(run.memory, run.outputs[0], a, b, Function{});
}

// Where an operand's gradient is not of the output's shape and type, it is first made as such.
template <class Make>
void operand_gradient(BackwardRun& run, std::size_t input, const Make& make) {
  if (!run.wants[input]) return;
  const Array& gradient = run.output_gradients[0];
  Array whole = run.memory.make(gradient.type, gradient.shape);
  make(whole);
  Array summed = summed_to(run.memory, whole, run.inputs[input]);
  if (summed.block != whole.block) run.workspaces.push_back(std::move(whole));
  run.gradients[input] = {.array = std::move(summed)};
}

void add_backward(BackwardRun& run) {
  for (std::size_t i = 0; i < 2; ++i) {
    if (!run.wants[i]) continue;
    run.gradients[i] = {.array = summed_to(run.memory, run.output_gradients[0], run.inputs[i])};
  }
}

void sub_backward(BackwardRun& run) {
  if (run.wants[0]) {
    run.gradients[0] = {.array = summed_to(run.memory, run.output_gradients[0], run.inputs[0])};
  }
  operand_gradient(run, 1, [&](const Array& out) {
    apply(run.memory, out, run.output_gradients[0], Negated{});
  });
}

void mul_backward(BackwardRun& run) {
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    operand_gradient(run, i, [&](const Array& out) {
      apply(run.memory, out, run.output_gradients[0], run.inputs[1 - i], Product{});
    });
  }
}

void div_backward(BackwardRun& run) {
  const Array& gradient = run.output_gradients[0];
  operand_gradient(run, 0, [&](const Array& out) {
    apply(run.memory, out, gradient, run.inputs[1], Quotient{});
  });
  operand_gradient(run, 1, [&](const Array& out) {  // -g a / b^2
    apply(run.memory, out, run.inputs[0], run.inputs[1], NegatedQuotientOfSquare{});
    apply(run.memory, out, out, gradient, Product{});
  });
}

// --- By a weight of the last dim
// ------------------------------------------------------------------

void mul_one_plus_weight_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const Array& weight = run.inputs[1];
  run.auxiliaries = {run.memory.make(x.type, weight.shape)};
  apply(run.memory, run.auxiliaries[0], weight, Affine{1.0, 1.0});
  run.outputs = {run.memory.make(x.type, x.shape)};
  apply(run.memory, run.outputs[0], x, run.auxiliaries[0], Product{});
}

void mul_one_plus_weight_backward(BackwardRun& run) {
  const Array& gradient = run.output_gradients[0];
  operand_gradient(run, 0, [&](const Array& out) {
    apply(run.memory, out, gradient, run.auxiliaries[0], Product{});
  });
  operand_gradient(run, 1, [&](const Array& out) {
    apply(run.memory, out, gradient, run.inputs[0], Product{});
  });
}

// --- By a table of one head's width
// ---------------------------------------------------------------

// The table in the shape of x, its last dim aside; one of tokens is the same for every head.
Elements table_for(const Array& x, const Array& table) {
  Shape seen = x.shape;
  seen.back() = last_dim(table);
  Array by_token = table;
  if (x.shape.size() == 4 && table.shape.size() == 3) {
    by_token = reshaped(table, {table.shape[0], table.shape[1], 1, last_dim(table)});
  }
  return elements(broadcast(by_token, seen));
}

// Complex numbers are multiplied by the table's conjugate in Backward.
void table_product(const Op& op, Memory& memory, const Array& out, const Array& x,
                   const Array& table, bool is_backward) {
  const Elements seen = table_for(x, table);
  with_real(out.type, [&](auto real) {
    using Real = decltype(real);
    if (op.attributes.pairs) {
      launch(memory.device(), element_count(out) / 2,
             ComplexTableProduct<Real>{elements(out), elements(x), seen, last_dim(x),
                                       last_dim(table), is_backward});
    } else {
      launch(memory.device(), element_count(out),
             TableProduct<Real>{elements(out), elements(x), seen, last_dim(x), last_dim(table)});
    }
  });
}

std::string refuse_odd_pairs(const Graph& graph, const Op& op) {
  const bool is_odd = graph.tensor(op.inputs[1]).shape.back() % 2 != 0;
  return op.attributes.pairs && is_odd ? "pairs of a table of odd width" : "";
}

void mul_table_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  run.outputs = {run.memory.make(promoted_type(x.type, run.inputs[1].type), x.shape)};
  table_product(run.op, run.memory, run.outputs[0], x, run.inputs[1], false);
}

void mul_table_backward(BackwardRun& run) {
  operand_gradient(run, 0, [&](const Array& out) {
    table_product(run.op, run.memory, out, run.output_gradients[0], run.inputs[1], true);
  });
}

}  // namespace

std::vector<Kernel> binary_kernels() {
  return {
      {"add", binary_forward<Sum>, add_backward},
      {"sub", binary_forward<Difference>, sub_backward},
      {"mul", binary_forward<Product>, mul_backward},
      {"div", binary_forward<Quotient>, div_backward},
      {"mul_weight", binary_forward<Product>, mul_backward},
      {"mul_one_plus_weight", mul_one_plus_weight_forward, mul_one_plus_weight_backward},
      {"mul_table", mul_table_forward, mul_table_backward, refuse_odd_pairs},
  };
}

}  // namespace cairn
