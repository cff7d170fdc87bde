"""The accounting rules for gradients (docs/accounting.md), on autograd programs of a few ops."""

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


def test_a_tied_weights_second_contribution_is_added_out_of_place_to_that_of_a_linear():
    # docs/accounting.md, "What is not counted yet": the linear's is a transposed view. Words alone,
    # used twice, are added in place.
    def tied(weight, ids):
        words = torch.nn.functional.embedding(ids, weight)
        return torch.nn.functional.linear(words.exp(), weight).sum()

    def twice(weight, ids):
        first, second = (torch.nn.functional.embedding(ids, weight) for _ in range(2))
        return (first.exp() * second.exp()).sum()

    ids = torch.zeros(4, dtype=torch.long)
    for use, added in ((tied, {"aten::add": 1, "aten::add_": 0}),
                       (twice, {"aten::add": 0, "aten::add_": 1})):
        loss = use(leaf(), ids)
        assert kernels(loss.backward, ["aten::add", "aten::add_"]) == added


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
