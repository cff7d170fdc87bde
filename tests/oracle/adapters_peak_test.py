"""The peak of a step with PEFT's adapters: torch's CPU allocator against `cairn simulate`, every byte
of difference named.

What a CPU or Transformers does besides is left out: a CPU's sum of two types makes an fp32 copy of
the narrow one first (ATen/native/TensorIterator.cpp), which no GPU does; checkpoints keep random
states, on the CPU also of a model on a GPU; and gradient_checkpointing_enable() makes the embedding's
output require a gradient, which docs/accounting.md names.
"""

from unittest import mock

import peak_test
import pytest
import torch
from adapters import Adapters
from live_bytes import peak_bytes
from peak_test import BATCH, LARGE_VOCAB, SMALL_VOCAB, TOKENS

import models

BF16, FP32 = torch.bfloat16, torch.float32
NUMBER = 8  # as a tensor; no checkpoint drops it


class _SumOfTypes(torch.autograd.Function):
    """a + b in the wider of their types, which makes the sum alone."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.types = a.dtype, b.dtype
        if torch.promote_types(a.dtype, b.dtype) != a.dtype:
            a, b = b, a
        return torch.empty_like(a).copy_(b).add_(a)

    @staticmethod
    def backward(ctx, gradient):
        return tuple(gradient.to(dtype) for dtype in ctx.types)


_plain_add = torch.Tensor.__add__


def _add(a, b):
    if isinstance(b, torch.Tensor) and a.is_floating_point() and a.dtype != b.dtype:
        if a.shape == b.shape:
            return _SumOfTypes.apply(a, b)
    return _plain_add(a, b)


def checkpoint_layers(model):
    model.gradient_checkpointing_enable({"use_reentrant": False, "preserve_rng_state": False})
    model.disable_input_require_grads()


def torch_peak(model):
    ids = torch.randint(0, model.config.vocab_size, (BATCH, TOKENS))
    inputs = {"input_ids": ids, "labels": ids.clone()}

    def step():
        model(**inputs).loss.backward()

    with mock.patch.object(torch.Tensor, "__add__", _add):
        step()  # libraries allocate on their first call
        model.zero_grad(set_to_none=True)
        resident = [*model.parameters(), *inputs.values()]
        return peak_bytes(step) + sum(tensor.nbytes for tensor in resident)


def cases():
    types = ((BF16, True), (BF16, False), (FP32, True))
    for dtype, fp32 in types:
        for targets in (None, "all-linear"):
            for dora in (False, True):
                yield "llama", SMALL_VOCAB, dtype, Adapters(targets=targets, fp32=fp32, dora=dora)
        yield "llama", LARGE_VOCAB, dtype, Adapters(targets="all-linear", fp32=fp32)
        yield "gpt2", SMALL_VOCAB, dtype, Adapters(targets="all-linear", fp32=fp32)
    for kind in ("gemma2", "qwen2", "mistral"):
        yield kind, SMALL_VOCAB, BF16, Adapters(targets="all-linear")


def named_bytes(kind, checkpointed):
    """As in peak_test.py, but that no checkpoint has a random state."""
    bytes_of = {"divisor of the mean loss, gradient of the loss": 4 + 4}
    if checkpointed and kind != "gpt2":  # handed to every layer
        bytes_of["positions"] = 8 * TOKENS
    if kind == "gpt2" and not checkpointed:  # an input to Cairn; a frozen embedding keeps none
        bytes_of["positions"] = -8 * TOKENS
    return sum(bytes_of.values())


@pytest.mark.parametrize("plan", ["none", "every-layer"])
@pytest.mark.parametrize("kind, vocab, dtype, adapters", list(cases()), ids=str)
def test_the_peak_is_torchs_but_for_named_bytes(cairn_on, kind, vocab, dtype, adapters, plan):
    model = peak_test.build(kind, dtype, "sdpa", vocab)
    adapters.on(model)
    if plan == "every-layer":
        checkpoint_layers(model)
    measured = torch_peak(model)
    simulated = cairn_on(model, "simulate", "--batch", BATCH, "--tokens", TOKENS, "--optimizer",
                         "sgd", "--checkpointing", plan, *adapters.options())["peak_bytes"]
    left = measured - simulated - named_bytes(kind, plan == "every-layer")
    count = sum(name.endswith("lora_A.default") for name, _ in model.named_modules())
    most = least = 0
    # Numbers that torch keeps as tensors: the scale, of DoRA three more.
    most += (4 if adapters.dora else 1) * NUMBER * count
    if kind == "gpt2":  # gelu_new's factors; a CPU keeps a norm's statistics in bf16
        most += 3 * NUMBER * peak_test.LAYERS
        least -= 2 * 9 * BATCH * TOKENS * (2 if dtype == BF16 else 0)
    if adapters.dora and dtype == BF16 and adapters.fp32 and plan == "every-layer":
        # A CPU's product of two types makes an fp32 copy of the narrow one first.
        most += 4 * BATCH * TOKENS * model.config.hidden_size
    assert least <= left <= most
