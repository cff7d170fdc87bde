"""Keep lists (docs/accounting.md, section 4): torch's selective checkpoint contexts on outermost
regions of random modules, against `cairn simulate --plan` with a keep list.

A policy answers for one call of one kernel, so that an op's outputs are kept all or none. Left out:
ops that make their kept tensor by several kernels (a CPU's dropout) or overwrite, and views.
"""

import random
import re

import pytest
from checkpointed_run import TorchRun
from random_modules import KINDS, Generator, auxiliaries, saved
from regions_test import (FIRST_SEED, after_forward, check_gradients, described,
                          live_without_gradients, simulated, simulated_events)

CASES, BATCH = 100, 25
VIEWS = ("split", "slice")
KEPT_KINDS = tuple(kind for kind in KINDS if kind not in ("dropout", "relu_"))


def generate(seed):
    """A module with some of the ops of its outermost regions kept, but for those inside others."""
    program = Generator(seed, plain=True, kinds=KEPT_KINDS).generate()
    choice = random.Random(seed)
    for region in program.regions:
        inside = {position for inner in region.inner for position in range(inner.begin, inner.end)}
        for position in range(region.begin, region.end):
            op = program.ops[position]
            if position not in inside and op.kind not in VIEWS and choice.random() < 0.5:
                region.keep += kept_of(program, op)
    return program


def kept_of(program, op):
    return op.outputs + [f"{op.name}.{key}" for key in auxiliaries(program, op)]


def simulated_with_what_is_read(folder, program):
    """Cairn refuses to keep what nothing reads; torch would hold it all the same."""
    while True:
        try:
            return simulated(folder, program, "prefix")
        except AssertionError as error:
            useless = re.search(r"reads '([^']*)': it cannot be kept", str(error))
            if not useless:
                raise
            op = next(op for op in program.ops if useless[1] in kept_of(program, op))
            for region in program.regions:
                region.keep = [name for name in region.keep if name not in kept_of(program, op)]


def steps_before_empty_recomputes(program, events):
    """Where a region has all it needs, its recompute runs nothing; what it then lets go of goes with
    the step before."""
    before = set()
    for region in program.regions:
        ops = program.ops[region.begin:region.end]
        behind = [events.index(f"B {op.name}") for op in ops if saved(program, op)]
        if region.keep and behind and not any(f"R {op.name}" in events for op in ops):
            before.add(min(behind) - 1)
    return before


def check(folder, seed):
    program = generate(seed)
    answer = simulated_with_what_is_read(folder, program)
    run = TorchRun(program, seed, use_reentrant=False, preserve_rng_state=False)
    gradients = run.run()
    assert run.events == simulated_events(answer)
    check_gradients(gradients, program, seed)
    assert run.bytes_after_forward == after_forward(answer)
    unmeasured = steps_before_empty_recomputes(program, run.events)
    for step, (had, have) in enumerate(zip(run.live, live_without_gradients(program, answer))):
        assert had is None or step in unmeasured or had == have, run.events[step]
    return sum(len(region.keep) for region in program.regions)


@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + CASES, BATCH))
def test_a_keep_list_is_a_selective_context(tmp_path, first):
    kept = 0
    for seed in range(first, first + BATCH):
        try:
            kept += check(tmp_path, seed)
        except AssertionError as error:
            raise AssertionError(described(generate(seed), seed)) from error
    assert kept > BATCH / 2
