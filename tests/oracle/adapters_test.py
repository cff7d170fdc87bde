"""Low-rank adapters as PEFT runs them: what is kept for backward, and how many weights are trained.

Every family of models.py on the meta device, with a GPU's kernels: the storages that each layer
keeps, and those of the whole model, to the byte. adapters_peak_test.py has the steps' peaks.
"""

import itertools

import pytest
import torch
from adapters import Adapters, peft, trained_count
from autocast import autocast, pretended_gpu
from conftest import cairn, refused
from freeze_test import storages_by_layer
from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING
from saved_tensors import cairn_storages, kept_at_the_end_of_forward, total
from transformers.pytorch_utils import Conv1D

import models

BATCH, TOKENS, LAYERS = 2, 32, 2
BF16, FP32 = torch.bfloat16, torch.float32
ALL_LINEAR = "all-linear"
DENSE = ("llama", "gpt2", "mistral", "qwen2", "qwen3", "phi3", "gemma", "gemma2", "gemma3_text",
         "opt", "gpt_neox")
# What PEFT takes for a model type where nothing is asked for; of the others it asks.
WITH_DEFAULT = [kind for kind in models.FAMILIES
                if kind in TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING]


def check_kept(cairn_on, model, kept, dropout, attention, options, precision=None):
    for layer in range(LAYERS):
        shown = cairn_on(model, "show", *options, "--block", layer, precision=precision)
        assert shown["trainable_parameters"] == trained_count(model)
        counted = cairn_storages(shown)
        for op in shown["ops"]:  # the state of random numbers, which Cairn counts with dropout
            if any(saved["name"].endswith(".rng_state") for saved in op["saved"]):
                counted.subtract([16])
        assert kept.get(layer, {}) == +counted, layer
    answer = cairn_on(model, "simulate", *options, "--checkpointing", "none", precision=precision)
    states = sum(16 for step in answer["steps"] if step["kind"] == "backward" and dropout > 0
                 and attention == "sdpa" and step["op"].endswith(("attn", "attend", "masked")))
    bytes_of = {"labels, which the loss shifts into a tensor of its own": 8 * BATCH * TOKENS,
                "divisor of the mean loss": 4}
    difference = total(kept["all"]) - kept_at_the_end_of_forward(answer) + states
    assert difference == sum(bytes_of.values())


def cases():
    for kind, family in models.FAMILIES.items():
        for targets in ((None,) if kind in WITH_DEFAULT else ()) + (ALL_LINEAR,):
            for dropout, fp32 in ((0.0, True), (0.05, True), (0.05, False)):
                for dtype in family.meta_types:
                    if dtype == FP32 and not fp32:
                        continue
                    name = f"{kind}, {targets}, dropout {dropout}, {dtype}, fp32 {fp32}"
                    yield pytest.param(kind, dtype, Adapters(targets=targets, dropout=dropout,
                                                             fp32=fp32), id=name)


@pytest.mark.parametrize("kind, dtype, adapters", list(cases()))
def test_what_is_kept_with_adapters_is_torchs(cairn_on, kind, dtype, adapters):
    attention = models.FAMILIES[kind].attentions[0]
    model = models.build(kind, "meta", dtype, attention, layers=LAYERS)
    adapters.on(model)
    with models.gpu_kernels() as random_states:
        kept = storages_by_layer(model, random_states)
    options = ["--batch", BATCH, "--tokens", TOKENS, *adapters.options()]
    check_kept(cairn_on, model, kept, 0.0, attention, options)


TARGETS = {
    "q and v": ("q_proj", "v_proj"), "attention": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "one MLP": ("model.layers.1.mlp.gate_proj",), "the head": ("lm_head",), "all": ALL_LINEAR,
}


# Types of the model, and whether its adapters are fp32. PEFT's keep the model's type, or are fp32.
TYPES = [pytest.param(BF16, True, id="bf16, fp32"), pytest.param(BF16, False, id="bf16, bf16"),
         pytest.param(FP32, True, id="fp32, fp32")]


@pytest.mark.parametrize("targets", TARGETS)
@pytest.mark.parametrize("dora", [False, True], ids=["lora", "dora"])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("dtype, fp32", TYPES)
@pytest.mark.parametrize("dims", [{}, {"attention_bias": True, "mlp_bias": True}], ids=["", "biases"])
def test_llama_with_adapters_keeps_what_cairn_says(cairn_on, targets, dora, dropout, fp32, dtype,
                                                   dims):
    adapters = Adapters(targets=TARGETS[targets], dropout=dropout, fp32=fp32, dora=dora)
    model = models.build("llama", "meta", dtype, "sdpa", layers=LAYERS, **dims)
    adapters.on(model)
    with models.gpu_kernels() as random_states:
        kept = storages_by_layer(model, random_states)
    options = ["--batch", BATCH, "--tokens", TOKENS, *adapters.options()]
    check_kept(cairn_on, model, kept, 0.0, "sdpa", options)


@pytest.mark.parametrize("targets", [None, ALL_LINEAR])
@pytest.mark.parametrize("dora", [False, True], ids=["lora", "dora"])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("dtype, fp32", TYPES)
@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma2", "qwen2"])
def test_under_autocast_too(cairn_on, kind, targets, dora, dropout, fp32, dtype):
    adapters = Adapters(targets=targets, dropout=dropout, fp32=fp32, dora=dora)
    with pretended_gpu() as random_states:
        model = models.build(kind, "cuda", dtype, "sdpa", layers=LAYERS)
        adapters.on(model)
        with autocast("cuda", BF16):
            kept = storages_by_layer(model, random_states)
    options = ["--batch", BATCH, "--tokens", TOKENS, *adapters.options()]
    precision = {FP32: "autocast-bf16", BF16: "bf16-autocast"}[dtype]
    check_kept(cairn_on, model, kept, 0.0, "sdpa", options, precision)


def adapted_modules(model):
    return sorted(name.removesuffix(".lora_A.default") for name, module in model.named_modules()
                  if name.endswith(".lora_A.default"))
