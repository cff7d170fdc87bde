"""Experts as Transformers runs them: by default, on a CPU, of real models' sizes, uneven; peaks."""

import json
import math

import pytest
import torch
from conftest import HF_CONFIGS, cairn
from live_bytes import rng_state_bytes
from peak_test import torch_peak
from saved_tensors import cairn_storages, saved_storages
from saved_tensors_test import shown_block, storages_of_gpu_kernels
from torch.utils.flop_counter import FlopCounterMode
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

import models

BATCH, TOKENS = 2, 32
BF16, FP32 = torch.bfloat16, torch.float32
FAMILIES = {name: case for name, case in models.variants(
    ["mixtral", "qwen3_moe", "deepseek_v2", "deepseek_v3", "gpt_oss"]).items()}
MODEL_TYPES = {kind for kind, _ in FAMILIES.values()}
BLOCK = 1  # the first with experts in every variant but one


def small(kind, dims, dtype=BF16, experts=None):
    attention = models.FAMILIES[kind].attentions[-1]
    return models.build(kind, "cpu", dtype, attention, layers=BLOCK + 1, experts=experts, **dims)


def experts_of(model):
    """The module of routed and shared experts; none where the layer has an MLP instead."""
    mlp = models.layers_of(model)[BLOCK].mlp
    return mlp if hasattr(mlp, "experts") else None


def shown_experts(shown):
    ops = [op for op in shown["ops"] if op["name"].split(".")[2] == "moe"]
    return shown | {"ops": ops}


@pytest.mark.parametrize("kind", sorted(MODEL_TYPES))
def test_grouped_products_are_the_default(kind):
    model = models.build(kind, "meta", attention=models.FAMILIES[kind].attentions[0])
    assert model.config._experts_implementation == "grouped_mm"


@pytest.mark.parametrize("dtype", [BF16, FP32])
@pytest.mark.parametrize("kind, dims", FAMILIES.values(), ids=FAMILIES)
def test_experts_on_a_cpu_keep_what_cairn_says(cairn_on, kind, dims, dtype):
    model = small(kind, dims, dtype)
    module = experts_of(model)
    if module is None:
        assert dims["mlp_only_layers"] == [BLOCK]
        return
    x = torch.randn(BATCH, TOKENS, model.config.hidden_size, dtype=dtype, requires_grad=True)
    kept = saved_storages(lambda: module(x), [*module.parameters(), *module.buffers()])
    assert kept == cairn_storages(shown_experts(shown_block(cairn_on, model, block=BLOCK)))


@pytest.mark.parametrize("kind, dims", FAMILIES.values(), ids=FAMILIES)
def test_one_expert_after_the_other_has_the_same_flops(cairn_on, kind, dims):
    model = small(kind, dims, experts="eager")
    module = experts_of(model)
    if module is None:
        return
    x = torch.randn(BATCH, TOKENS, model.config.hidden_size, dtype=BF16, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        module(x)
    shown = shown_experts(cairn_on(model, "show", "--batch", BATCH, "--tokens", TOKENS,
                                   "--block", BLOCK))
    assert counter.get_total_flops() == sum(op["forward_flops"] for op in shown["ops"])


def configs():
    return [path for path in sorted(HF_CONFIGS.glob("*.json"))
            if json.loads(path.read_text()).get("model_type") in MODEL_TYPES]


@pytest.mark.skipif(not HF_CONFIGS.exists(), reason=f"{HF_CONFIGS.name} is not beside the checkout")
@pytest.mark.parametrize("path", configs(), ids=lambda path: path.stem)
def test_a_layer_of_a_real_models_size_keeps_what_cairn_says(path):
    config = json.loads(path.read_text())
    kind = config.pop("model_type")
    for key in ("quantization_config", "layer_types"):  # layer_types has one for each layer
        config.pop(key, None)
    block = config.get("first_k_dense_replace", 0)  # the first with experts
    attention = models.FAMILIES[kind].attentions[0]
    config = CONFIG_MAPPING[kind].from_dict(config | {"num_hidden_layers": block + 1})
    config.use_cache = False
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, attn_implementation=attention, dtype=BF16)
    kept = storages_of_gpu_kernels(model.train(), 1, 512, block)
    shown = cairn("show", path, "--tokens", 512, "--block", block, "--precision", "bf16")
    assert kept == cairn_storages(shown)


@pytest.mark.parametrize("kind, dims", FAMILIES.values(), ids=FAMILIES)
def test_uneven_and_padded_experts_compute_as_many_rows_as_asked_for(cairn_on, kind, dims):
    model = small(kind, dims)
    if experts_of(model) is None:
        return
    experts, k = 8, model.config.num_experts_per_tok
    rows = BATCH * TOKENS * k

    def rows_with(*options):
        shown = shown_experts(cairn_on(model, "show", "--batch", BATCH, "--tokens", TOKENS,
                                       "--block", BLOCK, *options))
        products = [op for op in shown["ops"] if op["kind"] == "expert_linear"]
        made = {op["outputs"][0]["shape"][0] for op in products}
        assert len(products) == 2 and len(made) == 1
        return made.pop()

    assert rows_with() == rows
    assert rows_with("--expert-imbalance", 1.5) == math.ceil(1.5 * rows)
    capacity = experts * math.ceil(1.1 * rows / experts)
    assert rows_with("--expert-capacity", 1.1) == capacity
    assert rows_with("--expert-capacity", 1.1, "--expert-imbalance", 2) == capacity


LAYERS = 4
# Wide experts: the peak is in them, not in attention, whose workspace on a CPU is not a GPU's.
WIDE = {"mixtral": dict(intermediate_size=200, sliding_window=1000),
        "gpt_oss": dict(intermediate_size=200, sliding_window=1000)}
# Products with a number in the experts of a layer: routed_scaling_factor, 1.702.
SCALINGS = {"deepseek_v2": 1, "deepseek_v3": 1, "gpt_oss": 1}


def unmodelled_bytes(kind, dense, plan, tokens, peak_op):
    """The names of peak_test.py: of torch's peak, what Cairn does not count."""
    # Layers whose backward is still to come, or under way.
    layers = int(peak_op.split(".")[1]) + 1 if peak_op.startswith("layers.") else LAYERS
    # Eager attention's scale and the experts' numbers keep 8 bytes each; so does the loss.
    named = 8 + 8 * (layers + SCALINGS.get(kind, 0) * (layers - dense))
    if plan == "every-layer":
        mask = BATCH * tokens * tokens * 2
        named += rng_state_bytes() * layers + 8 * tokens + mask
    return named


@pytest.mark.parametrize("plan", ["none", "every-layer"])
@pytest.mark.parametrize("vocab", [2000, 64])
@pytest.mark.parametrize("kind", sorted(MODEL_TYPES))
def test_the_peak_of_a_step_with_experts_is_torchs_but_for_named_bytes(cairn_on, kind, vocab,
                                                                       plan):
    dims = dict(models.FAMILIES[kind].dims) | dict(hidden_size=128)
    dims |= WIDE.get(kind, dict(moe_intermediate_size=200))
    tokens, dense = 64, dims.get("first_k_dense_replace", 0)
    model = models.build(kind, "cpu", BF16, "eager", layers=LAYERS, vocab=vocab, **dims)
    if plan == "every-layer":
        models.checkpoint_layers(model)
    simulated = cairn_on(model, "simulate", "--batch", BATCH, "--tokens", tokens, "--optimizer",
                         "sgd", "--checkpointing", plan)
    difference = torch_peak(model) - simulated["peak_bytes"]
    assert difference == unmodelled_bytes(kind, dense, plan, tokens,
                                         simulated["peak_at"].split()[-1])
