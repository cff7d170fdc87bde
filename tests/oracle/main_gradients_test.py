"""Main gradients, phase by phase: a training step whose gradients go into a buffer that stays, as those
of Megatron-LM do, against `cairn simulate --main-gradients fp32`.

The hooks and the step are written here from what Megatron-LM's do (d98e8a64,
distributed/distributed_data_parallel.py and optimizer/optimizer.py), on one CPU: no all-reduce, and
torch's fused AdamW in place of Transformer Engine's, both one kernel without temporaries.
"""

import pytest
import torch
from peak_test import (BATCH, BF16, FP32, LARGE_VOCAB, LAYERS, SMALL_VOCAB, TOKENS, build,
                       unmodelled_bytes)
from training_step_test import LOSS_GRADIENT, SCALAR, SHIFTED_LABELS, made_in_forward, train

import models

UPDATE = 4 + 4 + 4  # numbers of AdamW's arithmetic, as tensors of one element


class MainGradients:
    """An optimizer over fp32 main parameters and gradients, and the hooks that fill these."""

    def __init__(self, model):
        parameters = list(model.parameters())
        self.buffer = torch.zeros(sum(p.numel() for p in parameters))
        ends = torch.tensor([p.numel() for p in parameters]).cumsum(0).tolist()
        self.gradient = {p: self.buffer[end - p.numel():end].view(p.shape)
                         for p, end in zip(parameters, ends)}
        self.main = {p: p.detach().float().clone() if p.dtype == BF16 else p for p in parameters}
        self.adamw = torch.optim.AdamW(self.main.values(), fused=True)
        # The nodes that accumulate: nothing else holds them from one backward to the next.
        self.accumulators = [p.expand_as(p).grad_fn.next_functions[0][0] for p in parameters]
        for parameter, accumulator in zip(parameters, self.accumulators):
            accumulator.register_hook(lambda *_, parameter=parameter: self.take(parameter))

    def take(self, parameter):
        # A CPU casts to a tensor of its own what it adds, a GPU in the kernel: row by row it is small.
        for main, gradient in zip(torch.atleast_2d(self.gradient[parameter]),
                                  torch.atleast_2d(parameter.grad)):
            main.add_(gradient)
        parameter.grad = None

    def step(self):
        for parameter, main in self.main.items():
            main.grad = self.gradient[parameter]
        torch.nn.utils.clip_grad_norm_(self.main.values(), 1.0)
        self.adamw.step()
        with torch.no_grad():
            for parameter, main in self.main.items():
                main.grad = None
                if main is not parameter:
                    parameter.copy_(main)

    def zero_grad(self, set_to_none):
        self.buffer.zero_()

    def resident_bytes(self):
        copies = sum(main.nbytes for parameter, main in self.main.items() if main is not parameter)
        return self.buffer.nbytes + copies


def cases():
    for kind in ("llama", "gpt2"):  # gpt2's words are tied to its head
        for dtype in (BF16, FP32):
            for micro_batches, vocab, plan in ((1, LARGE_VOCAB, "none"), (1, SMALL_VOCAB, "every-layer"),
                                               (3, LARGE_VOCAB, "every-layer"), (3, SMALL_VOCAB, "none")):
                yield pytest.param(kind, dtype, micro_batches, vocab, plan,
                                   id=f"{kind}, {dtype}, {micro_batches}, vocabulary {vocab}, {plan}")


@pytest.mark.parametrize("kind, dtype, micro_batches, vocab, plan", list(cases()))
def test_gradients_in_a_buffer_peak_where_cairn_says(cairn_on, kind, dtype, micro_batches, vocab,
                                                     plan):
    model = build(kind, dtype, "sdpa", vocab)
    if plan == "every-layer":
        models.checkpoint_layers(model)
    optimizer = MainGradients(model)
    measured = train(model, optimizer, micro_batches, set_to_none=True, in_backward=False)
    answer = cairn_on(model, "simulate", "--batch", BATCH, "--tokens", TOKENS, "--checkpointing",
                      plan, "--accumulate", micro_batches, "--main-gradients", "fp32",
                      precision="bf16-master" if dtype == BF16 else "fp32")
    numbers_of = len(list(model.parameters())) * SCALAR
    # A peak in a layer is in the last one's backward, the first to run: no gradients pile up behind it.
    explained = unmodelled_bytes(model, kind, "sdpa", plan == "every-layer",
                                 in_loss=vocab == LARGE_VOCAB, layers=LAYERS)
    for step, key in ((1, "first_step_bytes"), (2, "bytes")):
        counted = {row["phase"]: row[key] for row in answer["phases"]}
        found = {phase: measured[step, phase] + optimizer.resident_bytes()
                 for phase in ("forward", "backward", "optimizer step")}
        left = numbers_of if step == 2 else 0  # step counts of the step before
        assert found["backward"] - counted["backward"] == explained + left
        if vocab == LARGE_VOCAB:
            assert (found["forward"] - max(counted["forward"], counted["loss"])
                    == explained - LOSS_GRADIENT + left + SHIFTED_LABELS)
        # The first step is fullest when the states are there, the second while gradients are
        # clipped: the norms of all, the same as one tensor, and their norm.
        numbers = numbers_of + UPDATE if step == 1 else left + 2 * numbers_of + SCALAR
        assert (found["optimizer step"] - counted["optimizer step"]
                == numbers - made_in_forward(model, kind, dtype))
