"""Quantised linear layers: what their weights are stored in, and the peak of a whole step, held
against bitsandbytes and Transformers, adapters beside them against PEFT. Every byte of difference has
a name."""

import itertools

import pytest
import quantized
import torch
from conftest import refused
from live_bytes import peak_bytes
from peak_test import LAYERS, LARGE_VOCAB, SCALINGS, SMALL_VOCAB, unmodelled_bytes
from quantized import Quantization

import models

BF16, FP32 = torch.bfloat16, torch.float32
BATCH, TOKENS = 2, 64
NF4, NESTED, FP4 = Quantization(), Quantization(double=True), Quantization("fp4")
INT8 = Quantization("int8")
NAMES = {NF4: "nf4", NESTED: "nf4, nested", FP4: "fp4", INT8: "int8"}

DIMS = {
    "llama": dict(hidden_size=96, num_attention_heads=4, num_key_value_heads=2,
                  intermediate_size=200),
    "gpt2": dict(n_embd=96, n_head=4, activation_function="gelu"),
    "qwen2": dict(hidden_size=96, num_attention_heads=4, num_key_value_heads=2,
                  intermediate_size=200),
}


def build(kind, quantization, vocab=SMALL_VOCAB, layers=LAYERS, **dims):
    model = models.build(kind, "cpu", BF16, "sdpa", layers=layers, vocab=vocab,
                         **DIMS.get(kind, {}) | dims)
    return quantization.on(model)


@pytest.mark.parametrize("quantization", NAMES, ids=NAMES.values())
@pytest.mark.parametrize("kind", models.FAMILIES)
def test_weights_take_the_bytes_that_they_are_stored_in(cairn_on, kind, quantization):
    model = models.build(kind, "cpu", BF16, "eager", layers=2)
    count = sum(weight.numel() for weight in model.parameters())
    quantization.on(model)
    shown = cairn_on(model, "show", *quantization.options(), precision="bf16")
    assert shown["parameter_count"] == quantized.parameter_count(model) == count
    assert shown["parameter_bytes"] == quantized.resident_bytes(model)
    assert quantized.quantised_modules(model)


def step_of(model, autocast):
    """Forward and loss, under autocast or not, and backward outside, as trainers run it."""
    ids = torch.randint(0, SMALL_VOCAB, (BATCH, TOKENS))
    inputs = {"input_ids": ids, "labels": ids.clone()}

    def step():
        with torch.autocast("cpu", BF16, enabled=autocast):
            loss = model(**inputs).loss
        loss.backward()

    return inputs, step


def torch_peak(model, autocast):
    inputs, step = step_of(model, autocast)
    with quantized.cuda_code():
        step()  # libraries allocate on their first call
        model.zero_grad(set_to_none=True)
        resident = quantized.resident_bytes(model) + sum(ids.nbytes for ids in inputs.values())
        return peak_bytes(step) + resident


# What the rest of the model is in, and what 4-bit products are computed in.
PRECISIONS = {
    "bf16": (BF16, False, BF16),
    "autocast-bf16": (FP32, True, BF16),
    "bf16, fp32 products": (BF16, False, FP32),
    "autocast-bf16, fp32 products": (FP32, True, FP32),
    "fp32": (FP32, False, BF16),
}


def cases():
    for kind, plan in itertools.product(DIMS, ("none", "every-layer")):
        for precision, (rest, autocast, compute) in PRECISIONS.items():
            for format, double in (("nf4", False), ("nf4", True), ("int8", False)):
                if format == "int8" and (plan != "none" or "products" in precision):
                    continue
                quantization = Quantization(format, double, compute)
                name = f"{kind}, {format}{' nested' if double else ''}, {precision}, {plan}"
                yield pytest.param(kind, quantization, precision, plan, id=name)


@pytest.mark.parametrize("kind, quantization, precision, plan", list(cases()))
def test_the_peak_of_a_step_is_torchs_but_for_named_bytes(cairn_on, kind, quantization, precision,
                                                          plan):
    rest, autocast, _ = PRECISIONS[precision]
    model = build(kind, quantization)
    if rest == FP32:
        quantized.in_fp32(model)
    if plan == "every-layer":
        models.checkpoint_layers(model)
    measured = torch_peak(model, autocast)
    answer = cairn_on(model, "simulate", "--batch", BATCH, "--tokens", TOKENS, "--optimizer", "sgd",
                      "--checkpointing", plan, *quantization.options(),
                      precision=precision.split(",")[0])
    explained = unmodelled_bytes(model, kind, "sdpa", plan == "every-layer", in_loss=False,
                                 scalings=SCALINGS | {"gpt2": (0, 0)})
    print(answer["peak_at"], measured, answer["peak_bytes"], measured - answer["peak_bytes"],
          explained)
    assert measured - answer["peak_bytes"] == explained
