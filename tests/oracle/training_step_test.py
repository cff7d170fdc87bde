"""The whole training step, phase by phase: torch's allocator against the phases of `cairn simulate`.

Forward with its loss, backward and the optimizer step, of the first training step and of the second.
"""

import pytest
import torch
from live_bytes import phase_peaks
from peak_test import (BATCH, BF16, FP32, ITEM_BYTES, LARGE_VOCAB, TOKENS, build,
                       unmodelled_bytes)

import models

SCALAR = 4  # Adam's step counts: fp32 scalars, one a parameter, on the CPU in these loops
# Numbers of the update's arithmetic, such as the learning rate, as tensors of one element.
NUMBERS = {FP32: 4 + 4 + 4, BF16: 4 + 4 + 2}


def train(model, optimizer, micro_batches, set_to_none, in_backward):
    """Two training steps: {(step, phase): peak in bytes}."""
    inputs = []
    for _ in range(micro_batches):
        ids = torch.randint(0, model.config.vocab_size, (BATCH, TOKENS))
        inputs.append({"input_ids": ids, "labels": ids.clone()})

    def phases():
        for step in (1, 2):
            for number, batch in enumerate(inputs):
                yield (step, number, "forward"), forward(batch)
                yield (step, number, "backward"), lambda: losses.pop().backward()
            if not in_backward:
                yield (step, micro_batches - 1, "optimizer step"), optimizer.step
            optimizer.zero_grad(set_to_none=set_to_none)

    losses = []

    def forward(batch):
        return lambda: losses.append(model(**batch).loss)

    resident = [*model.parameters(), *inputs[0].values()]
    forward(inputs[0])()  # libraries allocate on their first call
    losses.clear()
    peaks = {}
    for (step, _, phase), peak in phase_peaks(phases()).items():
        peaks[step, phase] = max(peaks.get((step, phase), 0), peak)
    base = sum(tensor.nbytes for tensor in resident)
    return {key: base + peak for key, peak in peaks.items()}


def step_in_backward(model, make):
    optimizers = {p: make([p]) for p in model.parameters()}

    def hook(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(hook)


# The loss pads the labels by one and shifts them, each a tensor of its own.
SHIFTED_LABELS = 8 * BATCH * (TOKENS + 1) + 8 * BATCH * TOKENS


def made_in_forward(model, kind, dtype):
    """Inputs to Cairn, there for the whole step, which the model itself makes in each forward."""
    if kind == "gpt2":
        return 8 * TOKENS  # positions
    return 2 * TOKENS * model.config.head_dim * ITEM_BYTES[dtype]  # cos and sin


LOSS_GRADIENT = 4  # with the loss itself it lives as long as backward does
LOSS = 4


def check_in_backward(measured, step, counted, explained, counts, optimizer_alone):
    """Backward and the optimizer are one phase to torch."""
    if counted["backward"] >= counted["optimizer step"]:
        expected = explained + (counts if step == 2 else 0)
    else:
        expected = optimizer_alone + LOSS + LOSS_GRADIENT
    larger = max(counted["backward"], counted["optimizer step"])
    assert measured[step, "backward"] - larger == expected


LOOPS = {"foreach": dict(foreach=True), "for-loop": dict(foreach=False)}


def make_optimizer(name, loop):
    if name == "adamw":
        return lambda parameters: torch.optim.AdamW(parameters, **LOOPS[loop])
    return lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, **LOOPS[loop])


WAYS = {  # micro-batches, gradients kept, optimizer in backward
    "one micro-batch": (1, False, False),
    "three micro-batches": (3, False, False),
    "gradients kept": (1, True, False),
    "two micro-batches, gradients kept": (2, True, False),
    "optimizer in backward": (1, False, True),
}


def cases():
    for kind, dtype in (("llama", FP32), ("llama", BF16), ("gpt2", FP32)):
        for name, loop in (("adamw", "foreach"), ("adamw", "for-loop"),
                           ("sgd-momentum", "for-loop")):
            for plan in ("none", "every-layer"):
                for way, (micro_batches, kept, in_backward) in WAYS.items():
                    if in_backward and loop == "foreach":  # nothing to loop over
                        continue
                    if kind == "gpt2" and name != "adamw":
                        continue
                    yield pytest.param(kind, dtype, name, loop, micro_batches, kept, in_backward,
                                       plan, id=f"{kind}, {dtype}, {name} {loop}, {plan}, {way}")


@pytest.mark.parametrize("kind, dtype, name, loop, micro_batches, kept, in_backward, plan",
                         list(cases()))
def test_each_phase_of_two_training_steps_peaks_where_cairn_says(
        cairn_on, kind, dtype, name, loop, micro_batches, kept, in_backward, plan):
    model = build(kind, dtype, "sdpa", LARGE_VOCAB)
    if plan == "every-layer":
        models.checkpoint_layers(model)
    make = make_optimizer(name, loop)
    if in_backward:
        step_in_backward(model, make)
    measured = train(model, make(model.parameters()), micro_batches, not kept, in_backward)
    options = ["--optimizer", name, "--optimizer-loop", loop, "--accumulate", micro_batches]
    options += ["--keep-gradients"] if kept else []
    options += ["--optimizer-in-backward"] if in_backward else []
    answer = cairn_on(model, "simulate", "--batch", BATCH, "--tokens", TOKENS, "--checkpointing",
                      plan, *options)
    simulated = {phase["phase"]: phase for phase in answer["phases"]}
    explained = unmodelled_bytes(model, kind, "sdpa", plan == "every-layer", in_loss=True)
    parameters = len(list(model.parameters()))
    counts = SCALAR * parameters if name == "adamw" else 0
    for step, key in ((1, "first_step_bytes"), (2, "bytes")):
        counted = {phase: row[key] for phase, row in simulated.items() if row[key] is not None}
        left = counts if step == 2 else 0  # step counts of the step before
        in_forward = max(counted["forward"], counted["loss"])
        assert (measured[step, "forward"] - in_forward
                == explained - LOSS_GRADIENT + left + SHIFTED_LABELS)
        numbers = NUMBERS[dtype] if name == "adamw" or step == 2 else 0
        optimizer_alone = counts + numbers - made_in_forward(model, kind, dtype)
        if in_backward:
            check_in_backward(measured, step, counted, explained, counts, optimizer_alone)
            continue
        assert measured[step, "backward"] - counted["backward"] == explained + left
        assert measured[step, "optimizer step"] - counted["optimizer step"] == optimizer_alone
