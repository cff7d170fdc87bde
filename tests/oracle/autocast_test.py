"""What is kept for backward under torch.autocast over fp32 or bf16 weights, to the byte: layers and
models on a pretended GPU, whose dispatcher has the GPU's own lists (autocast.py)."""

import itertools

import image_models
import pytest
import torch
from autocast import autocast, pretended_gpu
from conftest import cairn, refused
from saved_tensors import cairn_storages, kept_at_the_end_of_forward, saved_storages, total
from saved_tensors_test import RNG_STATE, torch_storages
from torch.utils import _pytree as pytree

import encoders_test
import models
import t5_test
import vision_test

BATCH, TOKENS = 2, 32
FP32, BF16, FP16 = torch.float32, torch.bfloat16, torch.float16
PRECISIONS = {"autocast-bf16": (FP32, BF16), "autocast-fp16": (FP32, FP16),
              "bf16-autocast": (BF16, BF16)}  # of weights, and what autocast casts to
WITH_EXPERTS = ("mixtral", "qwen3_moe", "deepseek_v2", "deepseek_v3", "gpt_oss")
DENSE = [kind for kind in models.FAMILIES if kind not in WITH_EXPERTS]


def shown_block(cairn_on, model, block, precision):
    shown = cairn_on(model, "show", "--batch", BATCH, "--tokens", TOKENS, "--block", block,
                     precision=precision)
    assert total(cairn_storages(shown)) == shown["saved_bytes"]
    return shown


def layer_cases():
    for name, (kind, dims) in models.variants(DENSE).items():
        family = models.FAMILIES[kind]
        for attention, block, dropout, precision in itertools.product(
                family.attentions, family.blocks, (0.0, 0.1) if family.dropouts else (0.0,),
                PRECISIONS):
            if precision == "autocast-fp16" and kind not in ("llama", "gpt2"):
                continue
            yield pytest.param(kind, dims, attention, block, dropout, precision,
                               id=f"{name}, {attention}, layer {block}, p {dropout}, {precision}")


@pytest.mark.parametrize("kind, dims, attention, block, dropout, precision", list(layer_cases()))
def test_a_layer_keeps_what_cairn_says(cairn_on, kind, dims, attention, block, dropout, precision):
    weights, dtype = PRECISIONS[precision]
    with pretended_gpu() as random_states:
        model = models.build(kind, "cuda", weights, attention, dropout, layers=block + 1, **dims)
        with autocast("cuda", dtype):
            kept = torch_storages(model, BATCH, TOKENS, block, random_states)
    shown = shown_block(cairn_on, model, block, precision)
    for op in shown["ops"]:  # Cairn counts the state where there is dropout
        kept.update(RNG_STATE for made in op["auxiliaries"]
                    if made["name"].endswith(".rng_state"))
    counted = cairn_storages(shown)
    config = model.config
    if (weights == FP32 and attention == "sdpa" and getattr(config, "num_key_value_heads", None) == 1
            and any(op["kind"] == "masked_attention" for op in shown["ops"])):
        # Transformers expands one head of k, a view, and its cast is as large as all; Cairn casts
        # the one head.
        head = 2 * BATCH * TOKENS * config.head_dim
        counted.subtract([head])
        counted.update([config.num_attention_heads * head])
    assert kept == +counted


@pytest.mark.parametrize("kind", WITH_EXPERTS)
def test_models_with_experts_are_refused(tmp_path, kind):
    config = models.build(kind, "meta", BF16, models.FAMILIES[kind].attentions[0]).config
    config.to_json_file(tmp_path / "config.json")
    message = refused("show", tmp_path / "config.json", "--precision", "autocast-bf16")
    assert "is not in this version; expected a precision without autocast" in message


@pytest.mark.parametrize("attention, dropout", itertools.product(["sdpa", "eager"], [0.0, 0.1]))
@pytest.mark.parametrize("name", encoders_test.ENCODERS)
def test_an_encoders_layer_keeps_what_cairn_says(cairn_on, name, attention, dropout):
    with pretended_gpu(), autocast("cuda"):
        model = encoders_test.build(name, FP32, attention, dropout, "cuda")
        layer, positional, named = encoders_test.arguments_of_first_layer(model, name)
        shared = [leaf for leaf in pytree.tree_leaves((positional[1:], named))
                  if isinstance(leaf, torch.Tensor)]
        left_out = [*model.parameters(), *model.buffers(), *shared]
        kept = saved_storages(lambda: layer(*positional, **named), left_out)
    if attention == "sdpa":
        kept.subtract([encoders_test.UNUSED])
        kept.subtract([] if dropout > 0 else [encoders_test.RNG_STATE])
    shown = encoders_test.ask(cairn_on, model, "show", precision="autocast-bf16")
    assert +kept == cairn_storages(shown)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", encoders_test.ENCODERS)
def test_an_encoder_keeps_what_cairn_says(cairn_on, name, attention):
    with pretended_gpu(), autocast("cuda"), models.meta_answers():
        model = encoders_test.build(name, FP32, attention, 0.1, "cuda")
        given = encoders_test.inputs_of(model)
        left_out = [*model.parameters(), *model.buffers(), *given.values()]
        kept = saved_storages(lambda: model(**given).loss, left_out)
    expected = total(kept) - 4  # the divisor of nll_loss's mean
    if attention == "sdpa":
        expected -= encoders_test.UNUSED * model.config.num_hidden_layers
    answer = encoders_test.ask(cairn_on, model, "simulate", "--checkpointing", "none",
                               precision="autocast-bf16")
    assert kept_at_the_end_of_forward(answer) == expected


@pytest.mark.parametrize("attention, dropout", itertools.product(["sdpa", "eager"], [0.0, 0.1]))
@pytest.mark.parametrize("stack, block", [("encoder", t5_test.ENCODER),
                                          ("decoder", t5_test.DECODER)])
@pytest.mark.parametrize("variant", t5_test.VARIANTS)
def test_a_block_of_t5_keeps_what_cairn_says(cairn_on, variant, stack, block, attention, dropout):
    with pretended_gpu(t5_test.gpu_kernels), autocast("cuda"):
        model = t5_test.build(variant, FP32, attention, dropout, "cuda")
        layer, positional, named = t5_test.arguments_of(model, stack, 1)
        zeros = [positional[5]] if positional[5] is not None else []
        kept = saved_storages(lambda: layer(*positional, **named), [*model.parameters(), *zeros])
    shown = t5_test.ask(cairn_on, model, "show", "--block", block, precision="autocast-bf16")
    for op in shown["ops"]:  # an input of the graph: one tensor for all blocks
        op["saved"] = [tensor for tensor in op["saved"] if tensor["name"] != "zeros"]
    if attention == "sdpa" and stack == "decoder":  # the efficient kernel's random state
        kept.subtract([8, 8])
        kept.update([16] if dropout > 0 else [])
    assert +kept == cairn_storages(shown)


@pytest.mark.parametrize("name", vision_test.SMALL)
def test_an_image_net_keeps_what_cairn_says(name):
    answer = cairn("simulate", name, "--batch", BATCH, "--precision", "autocast-bf16",
                   "--checkpointing", "none")
    with pretended_gpu(), autocast("cuda"):
        model = image_models.build(name, "cuda")
        images, labels = vision_test.images_and_labels(model, answer["dims"], device="cuda")
        resident = [*model.parameters(), *model.buffers(), images, labels]
        kept = saved_storages(lambda: vision_test.step(model, images, labels), resident)
    assert kept_at_the_end_of_forward(answer) == total(kept) - 4  # the divisor of the mean


def test_a_llama_layer_keeps_its_weights_copies_an_fp32_stream_and_a_cast_for_each_reader(cairn_on):
    hidden, ffn, heads, kv_heads, head_dim = 256, 688, 8, 2, 32
    dims = dict(hidden_size=hidden, intermediate_size=ffn, num_attention_heads=heads,
                num_key_value_heads=kv_heads)
    with pretended_gpu() as random_states:
        model = models.build("llama", "cuda", FP32, "sdpa", **dims)
        with autocast("cuda"):
            kept = torch_storages(model, BATCH, TOKENS, 0, random_states)
    rows, weights = BATCH * TOKENS, [hidden * heads * head_dim, hidden * kv_heads * head_dim,
                                     hidden * kv_heads * head_dim, heads * head_dim * hidden,
                                     hidden * ffn, hidden * ffn, ffn * hidden]
    copies = 2 * sum(weights)  # of all but the norms' weights: 2 bytes a parameter
    stream = 2 * 4 * rows * hidden  # what goes into each norm
    normed = 2 * (4 * rows * hidden + 4 * rows)  # what comes out, before the weight; 1 / root
    casts = (3 + 2) * 2 * rows * hidden  # for q, k, v; for gate, up
    attention = 2 * rows * (2 * heads + 2 * kv_heads) * head_dim + 4 * rows * heads
    mlp = 4 * 2 * rows * ffn  # gate, silu, up, product
    assert total(kept) == copies + stream + normed + casts + attention + mlp
    shown = shown_block(cairn_on, model, 0, "autocast-bf16")
    assert shown["saved_bytes"] == total(kept)
