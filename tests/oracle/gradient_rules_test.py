"""The accounting rules for gradients (docs/accounting.md), on autograd programs of a few ops."""

import pytest
import torch
from live_bytes import allocated_bytes, kernels, peak_bytes

SIDE = 64
SQUARE = SIDE * SIDE * 4  # bytes of every tensor here


def leaf():
    return torch.rand(SIDE, SIDE, requires_grad=True)


def addresses_of_gradients(**tensors):
    """Where the gradient of each tensor lies, as its hook sees it."""
    seen = {}
    for name, tensor in tensors.items():
        tensor.register_hook(lambda gradient, name=name: seen.update({name: gradient.data_ptr()}))
    return seen


def test_add_passes_its_gradient_to_both_inputs_by_alias():
    a, b = leaf().exp(), leaf().exp()
    total = a + b
    seen = addresses_of_gradients(a=a, b=b, total=total)
    total.exp().sum().backward()
    assert seen["a"] == seen["b"] == seen["total"]


def test_mul_makes_a_gradient_of_its_own_for_each_input():
    a, b = leaf().exp(), leaf().exp()
    product = a * b
    seen = addresses_of_gradients(a=a, b=b, product=product)
    product.exp().sum().backward()
    assert len(set(seen.values())) == 3


def two_contributions():
    """Worked example X8: f(x) = a, g(a) = b, mul(a, b); exp saves its output. What x gets does not
    count: x is read by f alone."""
    a = leaf().exp()
    return (a * a.exp()).sum()


def test_a_second_contribution_is_added_in_place_where_autograd_alone_holds_the_first():
    loss = two_contributions()
    assert kernels(loss.backward, ["aten::add", "aten::add_"]) == {"aten::add": 0, "aten::add_": 1}


def test_a_second_contribution_costs_its_own_bytes_and_no_sum():
    # Before: a, b. B(mul) makes the gradients of b and a, B(exp) of b the contribution, B(exp) of a
    # the gradient of x; the loss starts with a scalar. An addition out of place would make a fifth.
    loss = two_contributions()
    assert allocated_bytes(loss.backward) == 4 * SQUARE + 4
    # At the peak, B(exp) of b: both gradients and the contribution (beside a and b), as rule 10.
    loss = two_contributions()
    assert peak_bytes(loss.backward) == 3 * SQUARE + 4


def test_a_residual_streams_second_contribution_is_added_in_place_too():
    # The add's gradient is shared by skip and branch, until the branch has used it.
    a = leaf().exp()
    loss = ((a.exp() @ leaf()) + a).exp().sum()
    assert kernels(loss.backward, ["aten::add", "aten::add_"]) == {"aten::add": 0, "aten::add_": 1}


def test_a_second_contribution_is_added_out_of_place_while_something_else_holds_the_first():
    a = leaf().exp()
    loss = (a + a).exp().sum()  # both contributions are one tensor
    assert kernels(loss.backward, ["aten::add", "aten::add_"]) == {"aten::add": 1, "aten::add_": 0}
    held = []
    a = leaf().exp()
    b = a.exp()
    product = a * b
    loss = product.sum()
    product.grad_fn.register_hook(lambda inputs, outputs: held.extend(inputs))
    assert kernels(loss.backward, ["aten::add", "aten::add_"]) == {"aten::add": 1, "aten::add_": 0}


def additions(run):
    return tuple(kernels(run, ["aten::add", "aten::add_"]).values())


OUT_OF_PLACE, IN_PLACE = (1, 0), (0, 1)


def linear(x, weight):
    return torch.nn.functional.linear(x, weight.detach())  # without a gradient of its weight


@pytest.mark.parametrize("rows, added", [((2, 8), OUT_OF_PLACE), ((16,), IN_PLACE)])
def test_nothing_is_added_into_the_gradient_that_a_linear_viewed_back_from_rows(rows, added):
    # graph/ops/linear.cc: x [batch, tokens, width] is viewed as rows, and so is its gradient. The
    # last of the forward comes first in backward.
    x = torch.rand(*rows, SIDE, requires_grad=True).exp()
    loss = (x.exp() * linear(x, leaf())).sum()
    assert additions(loss.backward) == added
    x = torch.rand(*rows, SIDE, requires_grad=True).exp()
    loss = (linear(x, leaf()) * x.exp()).sum()
    assert additions(loss.backward) == IN_PLACE


def test_nothing_is_added_into_a_linears_gradient_of_its_weight():
    # A transposed view. Words alone, used twice, are added in place.
    def tied(weight, ids):
        words = torch.nn.functional.embedding(ids, weight)
        return torch.nn.functional.linear(words.exp(), weight).sum()

    def twice(weight, ids):
        first, second = (torch.nn.functional.embedding(ids, weight) for _ in range(2))
        return (first.exp() * second.exp()).sum()

    ids = torch.zeros(4, dtype=torch.long)
    for use, added in ((tied, OUT_OF_PLACE), (twice, IN_PLACE)):
        loss = use(leaf(), ids)
        assert additions(loss.backward) == added


def test_a_sum_out_of_place_is_a_tensor_more():
    # B(mul) makes 2 tensors, B(linear) 1, B(exp) 1; then the view and exp's contribution are added.
    x = torch.rand(2, SIDE // 2, SIDE, requires_grad=True).exp()
    output = x.exp() * linear(x, leaf())
    gradient = torch.ones_like(output)
    assert allocated_bytes(lambda: torch.autograd.grad(output, x, gradient)) == 5 * SQUARE


def test_a_parameters_gradient_is_the_tensor_that_its_only_consumer_made():
    # Three gradients, of both weights and of what lies between, and the loss's scalar; mm also
    # copies the sum's gradient, which is an expanded scalar, for each of its two products.
    first, second, x = leaf(), leaf(), torch.rand(SIDE, SIDE)
    loss = ((x @ first) @ second).sum()
    assert allocated_bytes(loss.backward) == (3 + 2) * SQUARE + 4


def test_pow_and_broadcast_products_need_workspace_in_backward():
    # As graph/ops/pointwise.cc and binary.cc state it.
    # pow: exponent * x^(exponent - 1), two temporaries beside the gradient of x.
    x = leaf()
    power = x.exp().pow(2)
    gradient = torch.ones(SIDE, SIDE)
    assert peak_bytes(lambda: torch.autograd.grad(power, x, gradient)) == 3 * SQUARE
    # A weight's gradient is first made for every row, then summed.
    x, weight = leaf(), torch.rand(SIDE, requires_grad=True)
    product = x * weight
    assert (peak_bytes(lambda: torch.autograd.grad(product, (x, weight), gradient))
            == 2 * SQUARE + SIDE * 4)


PARAMETERS = {
    # name: (shape of the parameter, use, is its gradient a view, is it taken as it is)
    "a linear's weight": ((SIDE, SIDE), lambda w: torch.nn.functional.linear(ROWS, w), True, True),
    "a linear's bias": ((SIDE,), lambda b: torch.nn.functional.linear(ROWS, SQUARES, b), True, True),
    "a Conv1D's weight": ((SIDE, SIDE), lambda w: torch.addmm(BIAS, ROWS[0], w), False, True),
    "words": ((SIDE, SIDE), lambda w: torch.nn.functional.embedding(IDS, w), False, True),
    "a norm's weight": ((SIDE,), lambda w: torch.nn.functional.layer_norm(ROWS, (SIDE,), w), False,
                        True),
    "a broadcast factor": ((SIDE,), lambda w: ROWS * w, True, True),
    "a transposed use": ((SIDE, SIDE), lambda w: w.t(), True, True),
    "words that are the head too": ((SIDE, SIDE), lambda w: torch.nn.functional.linear(
        torch.nn.functional.embedding(IDS, w).exp(), w), False, True),
    "an expanded sum": ((SIDE, SIDE), lambda w: w.sum(), True, False),
    "shared with what it is added to": ((SIDE, SIDE), lambda w: w + SQUARES.requires_grad_(), False,
                                        False),
}
ROWS, SQUARES, BIAS = torch.rand(2, 8, SIDE), torch.rand(SIDE, SIDE), torch.rand(SIDE)
IDS = torch.zeros(4, dtype=torch.long)


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_first_gradient_is_taken_as_it_is_where_it_is_laid_out_as_the_parameter(name):
    # AccumulateGrad (torch/csrc/autograd/functions/accumulate_grad.h): stolen where nothing else
    # holds it and its strides are the parameter's, also where it is a view; else cloned.
    shape, use, is_view, is_stolen = PARAMETERS[name]
    parameter = torch.rand(*shape, requires_grad=True)
    seen = {}
    parameter.register_hook(lambda g: seen.update(at=g.data_ptr(), is_view=g._base is not None))
    output = use(parameter)
    (output if output.dim() == 0 else output.exp().sum()).backward()
    assert seen["is_view"] == is_view
    assert (parameter.grad.data_ptr() == seen["at"]) == is_stolen
    assert parameter.grad.stride() == parameter.stride()


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_later_backward_adds_into_the_gradient_that_is_there(name):
    # Gradient accumulation: the contribution is a tensor of its own in its step, and the sum none.
    shape, use, _, is_stolen = PARAMETERS[name]
    parameter = torch.rand(*shape, requires_grad=True)

    def loss():
        output = use(parameter)
        return output if output.dim() == 0 else output.exp().sum()

    first = loss()
    without = allocated_bytes(first.backward)
    place, again = parameter.grad.data_ptr(), loss()
    in_step = allocated_bytes(again.backward)
    assert parameter.grad.data_ptr() == place
    # The same tensors are made, less what the first had to clone.
    assert in_step == without - (0 if is_stolen else parameter.nbytes)
