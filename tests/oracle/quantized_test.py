"""Quantised linear layers: what their weights are stored in, and the peak of a whole step, held
against bitsandbytes and Transformers, adapters beside them against PEFT. Every byte of difference has
a name."""

import itertools
from unittest import mock

import pytest
import quantized
import torch
from adapters import Adapters
from conftest import refused
from live_bytes import peak_bytes, rng_state_bytes
from peak_test import LAYERS, LARGE_VOCAB, SCALINGS, SMALL_VOCAB, unmodelled_bytes
from quantized import Quantization
from transformers.trainer_utils import validate_quantization_for_training

import models

BF16, FP32 = torch.bfloat16, torch.float32
BATCH, TOKENS = 2, 64
NF4, NESTED, FP4 = Quantization(), Quantization(double=True), Quantization("fp4")
INT8 = Quantization("int8")
ALL_ELSE = ["--train-only", "*"]  # what is not quantised, without adapters: in a loop of one's own
NAMES = {NF4: "nf4", NESTED: "nf4, nested", FP4: "fp4", INT8: "int8"}

DIMS = {
    "llama": dict(hidden_size=96, num_attention_heads=4, num_key_value_heads=2,
                  intermediate_size=200),
    "gpt2": dict(n_embd=96, n_head=4, activation_function="gelu"),
}


def test_weights_without_adapters_are_refused_as_the_trainer_refuses_them(tmp_path):
    model = build("llama", NF4)
    model.is_quantized = True  # as from_pretrained has it (quantizers/base.py)
    with pytest.raises(ValueError, match="purely quantized models"):
        validate_quantization_for_training(model)
    model.config.save_pretrained(tmp_path)
    assert "Trainer refuses a model of them without adapters" in refused(
        "show", tmp_path / "config.json", *NF4.options())


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
    shown = cairn_on(model, "show", *quantization.options(), *ALL_ELSE, precision="bf16")
    assert shown["parameters"] == quantized.parameter_count(model) == count
    assert shown["parameter_bytes"] == quantized.resident_bytes(model)
    assert quantized.quantised_modules(model)


def step_of(model, autocast, batch=BATCH, tokens=TOKENS):
    """Forward and loss, under autocast or not, and backward outside, as trainers run it."""
    ids = torch.zeros(batch, tokens, dtype=torch.long)
    inputs = {"input_ids": ids, "labels": ids.clone()}

    def step():
        with torch.autocast("cpu", BF16, enabled=autocast):
            loss = model(**inputs).loss
        loss.backward()

    return inputs, step


def autocast_of_a_gpu():
    """PEFT asks for autocast without a device, which means a GPU's."""
    enabled = torch.is_autocast_enabled
    return mock.patch.object(torch, "is_autocast_enabled", lambda device="cpu": enabled(device))


def torch_peak(model, autocast, *samples):
    inputs, step = step_of(model, autocast, *samples)
    with quantized.cuda_code(), autocast_of_a_gpu():
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


def named_bytes(model, kind, answer, checkpointed, in_loss=False, samples=(BATCH, TOKENS)):
    """What torch has out and Cairn does not count, or the other way round."""
    where = answer["peak_at"]
    named = unmodelled_bytes(model, kind, "sdpa", checkpointed, in_loss, *samples,
                             layers=LAYERS, scalings=SCALINGS | {"gpt2": (0, 0)})
    if where.startswith("recompute"):
        named += rng_state_bytes()  # put aside while the recompute has its own
    if where.startswith("forward"):  # there is no loss yet, and the model still holds its positions
        named += -8 + (0 if checkpointed or kind == "gpt2" else 8 * samples[1])
    return named


def cases():
    for kind, plan in itertools.product(DIMS, ("none", "every-layer")):
        for precision, (_, _, compute) in PRECISIONS.items():
            if kind == "gpt2" and "autocast" not in precision:
                continue
            double = precision != "bf16"
            name = f"{kind}, nf4{' nested' if double else ''}, {precision}, {plan}"
            yield pytest.param(kind, Quantization("nf4", double, compute), precision, plan, id=name)


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
                      "--checkpointing", plan, *quantization.options(), *ALL_ELSE,
                      precision=precision.split(",")[0])
    named = named_bytes(model, kind, answer, plan == "every-layer")
    print(answer["peak_at"], measured, answer["peak_bytes"], measured - answer["peak_bytes"], named)
    assert measured - answer["peak_bytes"] == named


@pytest.mark.parametrize("double", [False, True], ids=["plain", "nested"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_with_few_rows_the_peak_is_where_a_weight_is_dequantised(cairn_on, precision, double):
    rest, autocast, compute = PRECISIONS[precision]
    model = build("llama", Quantization("nf4", double, compute), intermediate_size=512)
    if rest == FP32:
        quantized.in_fp32(model)
    samples = 1, 4
    measured = torch_peak(model, autocast, *samples)
    answer = cairn_on(model, "simulate", "--batch", 1, "--tokens", 4, "--optimizer", "sgd",
                      "--checkpointing", "none",
                      *Quantization("nf4", double, compute).options(), *ALL_ELSE,
                      precision=precision.split(",")[0])
    named = named_bytes(model, "llama", answer, False, samples=samples)
    print(answer["peak_at"], measured, answer["peak_bytes"], measured - answer["peak_bytes"], named)
    assert answer["peak_at"].endswith("product")
    assert measured - answer["peak_bytes"] == named


@pytest.mark.parametrize("kind, precision", itertools.product(("llama", "gpt2"),
                                                              ("bf16", "autocast-bf16", "fp32")))
def test_8_bit_layers_keep_their_inputs(cairn_on, kind, precision):
    rest, autocast, _ = PRECISIONS[precision]
    model = build(kind, INT8, LARGE_VOCAB)
    if rest == FP32:
        quantized.in_fp32(model)
    measured = torch_peak(model, autocast)
    answer = cairn_on(model, "simulate", "--batch", BATCH, "--tokens", TOKENS, "--optimizer", "sgd",
                      "--checkpointing", "none", *INT8.options(), *ALL_ELSE, precision=precision)
    named = named_bytes(model, kind, answer, False, in_loss=True)
    print(answer["peak_at"], measured, answer["peak_bytes"], measured - answer["peak_bytes"], named)
    assert measured - answer["peak_bytes"] == named


ADAPTERS = {
    "q and v": Adapters(rank=8, targets=("q_proj", "v_proj")),
    "all": Adapters(rank=4, targets="all-linear"),
}


def adapted_cases():
    for precision in ("bf16", "autocast-bf16", "bf16-autocast", "fp32"):
        for name, adapters in ADAPTERS.items():
            for quantization in (NF4, INT8):
                # With many adapters in a layer some of its scales are gone where the peak is.
                for plan in ("none", "every-layer") if (name, quantization) == ("q and v", NF4) \
                        else ("none",):
                    yield pytest.param(
                        adapters, quantization, precision, plan,
                        id=f"{name}, {NAMES[quantization]}, {precision}, {plan}")


@pytest.mark.parametrize("adapters, quantization, precision, plan", list(adapted_cases()))
def test_adapters_beside_quantised_weights_are_those_of_peft(cairn_on, adapters, quantization,
                                                             precision, plan):
    # An 8-bit layer's input lives to the end of backward: its peak is at the loss here.
    in_loss = quantization == INT8
    model = build("llama", quantization, LARGE_VOCAB if in_loss else SMALL_VOCAB)
    if precision in ("fp32", "autocast-bf16"):
        quantized.in_fp32(model)
    model.is_loaded_in_4bit = quantization != INT8  # where PEFT looks for it
    model.is_loaded_in_8bit = quantization == INT8
    adapted = adapters.on(model)
    if plan == "every-layer":
        models.checkpoint_layers(model)
    measured = torch_peak(model, "autocast" in precision)
    answer = cairn_on(model, "simulate", "--batch", BATCH, "--tokens", TOKENS, "--optimizer", "sgd",
                      "--checkpointing", plan, *quantization.options(), *adapters.options(),
                      precision=precision)
    named = named_bytes(model, "llama", answer, plan == "every-layer", in_loss)
    named += 8 * sum(name.endswith("lora_A") for name, _ in adapted.named_modules())  # its scale
    if answer["peak_at"] == "forward of layers.3.mlp.down":
        # A CPU's sum of two types makes an fp32 copy of the narrow one, which no GPU does.
        named += 4 * BATCH * TOKENS * model.config.hidden_size
    print(answer["peak_at"], measured, answer["peak_bytes"], measured - answer["peak_bytes"], named)
    assert measured - answer["peak_bytes"] == named
