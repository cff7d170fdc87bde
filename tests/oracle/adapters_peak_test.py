"""The peak of a step with PEFT's adapters: torch's CPU allocator against `cairn simulate`, every byte
of difference named.

What a CPU does besides is left out: its sum of two types makes an fp32 copy of the narrow one first
(ATen/native/TensorIterator.cpp), and its dropout a mask of the activations' type, which no GPU does;
checkpoints keep random states, on the CPU also of a model on a GPU.
"""

import contextlib
import gc
import weakref
from unittest import mock

import peak_test
import pytest
import torch
from adapters import Adapters
from live_bytes import peak_bytes
from peak_test import BATCH, LARGE_VOCAB, SMALL_VOCAB, TOKENS
from torch.nn import functional

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


class _GpuDropout(torch.autograd.Function):
    """What native_dropout makes on a GPU: the output, and a mask of bytes."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(torch.empty_like(x, dtype=torch.bool))
        return torch.zeros_like(x)

    @staticmethod
    def backward(ctx, gradient):
        _ = ctx.saved_tensors
        return torch.zeros_like(gradient)


def _dropout(x, p=0.5, training=True, inplace=False):
    return _GpuDropout.apply(x) if training and p > 0 else x


def as_on_a_gpu():
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(torch.Tensor, "__add__", _add))
    stack.enter_context(mock.patch.object(functional, "dropout", _dropout))
    return stack


def checkpoint_layers(model, reentrant=False):
    """As Transformers' Trainer does, but that no random state is kept."""
    model.gradient_checkpointing_enable({"use_reentrant": reentrant, "preserve_rng_state": False})


def torch_peak(model, autocast=False):
    model.train()
    ids = torch.randint(0, model.config.vocab_size, (BATCH, TOKENS))
    inputs = {"input_ids": ids, "labels": ids.clone()}

    def step():
        with torch.autocast("cpu", BF16, enabled=autocast):
            loss = model(**inputs).loss
        loss.backward()

    with as_on_a_gpu():
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


def left_of(cairn_on, model, kind, adapters, plan, *options, precision=None, autocast=False):
    """torch's peak, less Cairn's and what has a name: at most numbers that torch keeps as tensors,
    of each adapter the scale."""
    measured = torch_peak(model, autocast)
    answer = cairn_on(model, "simulate", "--batch", BATCH, "--tokens", TOKENS, "--optimizer", "sgd",
                      "--checkpointing", plan, *options, *adapters.options(), precision=precision)
    named = named_bytes(kind, plan == "every-layer")
    if kind != "gpt2" and answer["peak_at"].startswith("forward") and plan == "none":
        named += 8 * TOKENS - 4 - 4  # positions, an argument of each layer; no loss yet
        if "scaled" in answer["peak_at"]:  # the scale, in the type of the adapter's product
            named += 4 if adapters.fp32 and not autocast else 2
    return measured - answer["peak_bytes"] - named


def adapter_count(model):
    return sum(name.endswith("lora_A.default") for name, _ in model.named_modules())


@pytest.mark.parametrize("plan", ["none", "every-layer"])
@pytest.mark.parametrize("kind, vocab, dtype, adapters", list(cases()), ids=str)
def test_the_peak_is_torchs_but_for_named_bytes(cairn_on, kind, vocab, dtype, adapters, plan):
    model = peak_test.build(kind, dtype, "sdpa", vocab)
    adapters.on(model)
    if plan == "every-layer":
        checkpoint_layers(model)
    left = left_of(cairn_on, model, kind, adapters, plan)
    most = least = 0
    most += (4 if adapters.dora else 1) * NUMBER * adapter_count(model)  # of DoRA three more
    if kind == "gpt2":  # gelu_new's factors; a CPU keeps a norm's statistics in bf16
        most += 3 * NUMBER * peak_test.LAYERS
        least -= 2 * 9 * BATCH * TOKENS * (2 if dtype == BF16 else 0)
    if adapters.dora and dtype == BF16 and adapters.fp32 and plan == "every-layer":
        # A CPU's product of two types makes an fp32 copy of the narrow one first.
        most += 4 * BATCH * TOKENS * model.config.hidden_size
    assert least <= left <= most


LATE = {"llama": ("layers.3.self_attn.q_proj", "layers.3.mlp.down_proj"),
        "gemma2": ("layers.3.self_attn.q_proj", "layers.3.mlp.down_proj"),
        "gpt2": ("h.3.attn.c_attn",)}


@pytest.mark.parametrize("targets", ["all-linear", "of the last layer"])
@pytest.mark.parametrize("kind", list(LATE))
@pytest.mark.parametrize("way", ["kept", "kept, asked for", "checkpointed", "checkpointed, without",
                                 "reentrant"])
def test_the_embeddings_output_requires_a_gradient_where_layers_are_checkpointed(cairn_on, kind, way,
                                                                                 targets):
    # bf16, but for kinds with layer norms: a CPU's have statistics of 16 bits.
    dtype = FP32 if kind in peak_test.LAYER_NORMS else BF16
    model = peak_test.build(kind, dtype, "sdpa", SMALL_VOCAB)
    adapters = Adapters(targets=LATE[kind] if targets != "all-linear" else targets)
    adapters.on(model)
    options = []
    if not way.startswith("kept"):
        checkpoint_layers(model, way == "reentrant")
    if way == "kept, asked for":
        model.enable_input_require_grads()
        options = ["--input-require-grads"]
    if way == "checkpointed, without":
        model.disable_input_require_grads()
        options = ["--input-require-grads=false"]
    if way == "reentrant":
        options = ["--extent", "whole"]
    plan = "none" if way.startswith("kept") else "every-layer"
    left = left_of(cairn_on, model, kind, adapters, plan, *options)
    most = NUMBER * adapter_count(model) + 3 * NUMBER * peak_test.LAYERS  # gelu_new's factors
    least = 0
    if way == "reentrant":  # holds what it made again of the layer's output (docs/accounting.md)
        most += BATCH * TOKENS * model.config.hidden_size * dtype.itemsize
    assert least <= left <= most


@pytest.mark.parametrize("reentrant", [None, False, True])
@pytest.mark.parametrize("kind", ["llama", "gpt2", "opt", "gemma"])
def test_a_leaf_and_its_gradient_are_there_as_long_as_the_graph(kind, reentrant):
    model = models.build(kind, "cpu", FP32, "sdpa", layers=2, vocab=SMALL_VOCAB)
    model.requires_grad_(False)
    list(model.parameters())[-1].requires_grad_(True)
    if reentrant is None:
        model.enable_input_require_grads()
    else:
        model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    seen = []
    embeddings = model.get_input_embeddings()
    embeddings.register_forward_hook(lambda module, args, made: seen.append(weakref.ref(made)))
    ids = torch.randint(0, SMALL_VOCAB, (1, 8))
    loss = model(input_ids=ids, labels=ids.clone()).loss
    gc.collect()
    assert seen[-1]().is_leaf and seen[-1]().requires_grad
    loss.backward()
    gc.collect()
    assert seen[-1]().grad.shape == seen[-1]().shape
    del loss
    gc.collect()
    assert seen[-1]() is None


@pytest.mark.parametrize("plan", ["none", "every-layer"])
@pytest.mark.parametrize("dropout", [0.0, 0.05])
@pytest.mark.parametrize("targets", [None, "all-linear"], ids=str)
@pytest.mark.parametrize("dtype, fp32, autocast", [
    (BF16, True, False), (BF16, False, False), (FP32, True, True), (BF16, True, True),
    (BF16, False, True)], ids=str)
def test_with_dropout_and_under_autocast(cairn_on, dtype, fp32, autocast, targets, dropout, plan):
    if dropout == 0.0 and not autocast:
        pytest.skip("above")
    model = peak_test.build("llama", dtype, "sdpa", SMALL_VOCAB)
    adapters = Adapters(targets=targets, fp32=fp32, dropout=dropout)
    adapters.on(model)
    if plan == "every-layer":
        checkpoint_layers(model)
    precision = {FP32: "autocast-bf16", BF16: "bf16-autocast"}[dtype] if autocast else None
    left = left_of(cairn_on, model, "llama", adapters, plan, precision=precision, autocast=autocast)
    assert 0 <= left <= NUMBER * adapter_count(model)
