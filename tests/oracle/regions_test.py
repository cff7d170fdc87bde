"""The rules of regions (docs/accounting.md, sections 3 to 5) on random modules: nested checkpoints of
torch, run for real, against `cairn simulate --plan`.

SEED moves all of them: `SEED=1000 python -m pytest tests/oracle/regions_test.py`.
"""

import dataclasses
import json
import os
import subprocess

import pytest
import torch
from checkpointed_run import TorchRun
from conftest import REPOSITORY
from random_modules import FLOAT, Generator, all_regions, graph_json, plan_json, saved

FIRST_SEED = int(os.environ.get("SEED", "0"))
CASES, BATCH = 500, 50  # a test runs a batch of cases


def simulated(folder, program, extent):
    """Cairn's answer; None where it refuses an in-place op that a recompute could not undo."""
    graph, plan = folder / "graph.json", folder / "plan.json"
    graph.write_text(graph_json(program))
    plan.write_text(plan_json(program, extent))
    binary = os.environ.get("CAIRN_BINARY", str(REPOSITORY / "build" / "release" / "cairn"))
    run = subprocess.run([binary, "simulate", str(graph), "--plan", str(plan), "--optimizer", "sgd",
                          "--json"], capture_output=True, text=True)
    if run.returncode == 2 and "overwrites" in run.stderr:
        return None
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def simulated_events(answer):
    return [f"{step['kind'][0].upper()} {step['op']}" for step in answer["steps"]
            if step["kind"] in ("recompute", "backward")]


def live_without_gradients(program, answer):
    """Bytes of activations behind each step of the backward pass; a gradient lives from the first
    Backward of a reader to that of its maker (rule 8)."""
    ops = {op.name: op for op in program.ops}
    gradients, live = {}, []
    for step in answer["steps"]:
        if step["op"] is None:
            continue  # an optimizer's step
        op = ops[step["op"]]
        if step["kind"] == "backward":
            read = [name for name in op.inputs if program.tensors[name].requires_grad]
            gradients |= {name: program.tensors[name].bytes for name in read}
            if op.parameter:
                shape = torch.Size(program.parameters[op.parameter])
                gradients[op.parameter] = FLOAT * shape.numel()
            for name in op.outputs:
                gradients.pop(name, None)
        if step["kind"] != "forward":
            live.append(step["after_bytes"] - answer["resident_bytes"] - sum(gradients.values()))
    return live


def after_forward(answer):
    last = [step for step in answer["steps"] if step["kind"] == "forward"][-1]
    return last["after_bytes"] - answer["resident_bytes"]


def has_ops_off_the_loss(program, answer):
    """Autograd holds what these save while something else holds what they make: not counted."""
    behind = {step["op"] for step in answer["steps"] if step["kind"] == "backward"}
    return any(program.tensors[op.outputs[0]].requires_grad and op.name not in behind
               for op in program.ops)


def described(program, seed):
    lines = [f"seed {seed}", *map(str, program.regions)]
    return "\n".join(lines + [f"{op.name} = {op.kind}({', '.join(op.inputs)}) -> {op.outputs}"
                              for op in program.ops])


def torch_run(program, seed, **options):
    random = any(op.kind == "dropout" for op in program.ops)
    return TorchRun(program, seed, preserve_rng_state=random, **options)


def check_gradients(gradients, program, seed, exactly=True):
    expected = TorchRun(program, seed).run(with_regions=False)
    for name, gradient in gradients.items():
        reference = expected[name]
        assert (gradient is None) == (reference is None), name
        if gradient is None:
            continue
        compare = torch.equal if exactly else torch.allclose
        assert compare(gradient.nan_to_num(), reference.nan_to_num()), name


def check_prefix(folder, seed):
    program = Generator(seed).generate()
    answer = simulated(folder, program, "prefix")
    if answer is None:
        return 0
    run = torch_run(program, seed, use_reentrant=False)
    gradients = run.run()
    assert run.events == simulated_events(answer)
    check_gradients(gradients, program, seed)
    if not has_ops_off_the_loss(program, answer):
        assert run.bytes_after_forward == after_forward(answer)
        simulated_live = live_without_gradients(program, answer)
        measured = [have if had is None else had for had, have in zip(run.live, simulated_live)]
        assert measured == simulated_live
    return sum(1 for _ in all_regions(program.regions))


@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + CASES, BATCH))
def test_prefix_is_a_checkpoint_without_reentrance(tmp_path, first):
    """What runs again and when, the gradients, the bytes that are kept at the end of forward, and
    those behind every step of backward."""
    regions = 0
    for seed in range(first, first + BATCH):
        try:
            regions += check_prefix(tmp_path, seed)
        except AssertionError as error:
            raise AssertionError(described(Generator(seed).generate(), seed)) from error
    assert regions > BATCH


def regions_that_save(program, regions):
    """Only these are recomputed without reentrance: a saved tensor triggers it."""
    return [dataclasses.replace(region, inner=regions_that_save(program, region.inner))
            for region in regions
            if any(saved(program, op) for op in program.ops[region.begin:region.end])]


def check_whole(folder, seed, reentrant):
    program = Generator(seed, plain=True).generate()
    if not reentrant:
        program.regions = regions_that_save(program, program.regions)
    answer = simulated(folder, program, "whole")
    if answer is None:
        return
    run = torch_run(program, seed, use_reentrant=reentrant,
                    **({} if reentrant else {"early_stop": False}))
    gradients = run.run()
    events = simulated_events(answer)
    if reentrant:
        assert run.events == events
    else:  # the trigger is that of prefix: a Backward or more later
        assert recomputed(run.events) == recomputed(events)
    check_gradients(gradients, program, seed, exactly=not reentrant)


def recomputed(events):
    return [event for event in events if event.startswith("R")]


@pytest.mark.filterwarnings("ignore:None of the inputs")  # inner regions, in forward
@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + CASES // 2, BATCH))
def test_whole_is_a_reentrant_checkpoint(tmp_path, first, reentrant):
    for seed in range(first, first + BATCH):
        try:
            check_whole(tmp_path, seed, reentrant)
        except AssertionError as error:
            raise AssertionError(described(Generator(seed, plain=True).generate(), seed)) from error
