"""What an optimizer makes of its parameters while it steps: torch.optim's own allocations against
models/optimizer.cc."""

import pytest
import torch
from live_bytes import peak_bytes

SIZES = (1000, 3000, 2000, 500)  # elements of the parameters, in order
ALL, LARGEST = sum(SIZES), max(SIZES)
SCALAR = 4  # the step counts of Adam are fp32 scalars, of each parameter


def adamw(parameters, **loop):
    return torch.optim.AdamW(parameters, **loop)


def adam(parameters, **loop):
    return torch.optim.Adam(parameters, **loop)


def sgd(parameters, **loop):
    return torch.optim.SGD(parameters, lr=0.1, **loop)


def sgd_momentum(parameters, **loop):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, **loop)


def for_loop_of_adam():
    """Two temporaries of a parameter, the second of which, the denominator, is still there when
    the next parameter's are made."""
    carried, most = 0, 0
    for size in SIZES:
        most = max(most, carried + 2 * size)
        carried = size
    return most


LOOPS = {"fused": dict(fused=True), "foreach": dict(foreach=True), "for-loop": dict(foreach=False)}
TEMPORARIES = {"fused": 0, "foreach": ALL, "for-loop": for_loop_of_adam()}


def peaks_of_two_steps(make, loop, dtype):
    parameters = [torch.nn.Parameter(torch.zeros(size, dtype=dtype)) for size in SIZES]
    optimizer = make(parameters, **LOOPS[loop])
    peaks = []
    for _ in range(2):
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        peaks.append(peak_bytes(optimizer.step))
    return peaks


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("make, states, has_temporaries",
                         [(adamw, 2, True), (adam, 2, True), (sgd, 0, False),
                          (sgd_momentum, 1, False)])
def test_states_come_at_the_first_step_and_temporaries_are_of_the_loop(make, states, loop,
                                                                       has_temporaries, dtype):
    first, second = peaks_of_two_steps(make, loop, dtype)
    temporaries = TEMPORARIES[loop] * dtype.itemsize if has_temporaries else 0
    scalars = 2 * SCALAR * len(SIZES)  # the step counts, and a moment's copies of them
    assert temporaries <= second <= temporaries + scalars
    states_bytes = states * ALL * dtype.itemsize
    assert states_bytes + temporaries <= first <= states_bytes + temporaries + scalars


def test_foreach_has_the_roots_of_both_types_at_once():
    types = (torch.bfloat16, torch.float32, torch.bfloat16, torch.float32)
    parameters = [torch.nn.Parameter(torch.zeros(size, dtype=dtype))
                  for size, dtype in zip(SIZES, types)]
    optimizer = adamw(parameters, foreach=True)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    assert peak_bytes(optimizer.step) == sum(p.nbytes for p in parameters)


def test_the_optimizer_skips_a_parameter_without_a_gradient():
    parameters = [torch.nn.Parameter(torch.zeros(size)) for size in SIZES]
    optimizer = adamw(parameters)
    parameters[0].grad = torch.ones_like(parameters[0])
    optimizer.step()
    assert list(optimizer.state) == [parameters[0]]
