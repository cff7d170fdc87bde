"""What one layer keeps for backward: Transformers and torch against `cairn show`, to the byte."""

import itertools

import pytest
import torch
from conftest import cairn
from saved_tensors import cairn_storages, saved_storages, total
from torch.utils import _pytree as pytree
from transformers.loss.loss_utils import ForCausalLMLoss

import models

BATCH, TOKENS = 2, 32
BF16, FP32 = torch.bfloat16, torch.float32
ITEM_BYTES = {BF16: 2, FP32: 4}

# An attention kernel keeps the state of its random numbers, 16 bytes, whatever the dropout, and the
# flash kernel an unused scalar of 8. Cairn counts the state where there is dropout
# (graph/ops/attention.cc): at most 24 bytes a layer less than torch, whatever the tokens.
RNG_STATE = 16


def torch_storages(model, batch=BATCH, tokens=TOKENS, block=0, random_states=()):
    """What the layer keeps, but for parameters and what the model hands to all its layers."""
    arguments = models.layer_arguments(model, batch, tokens, block)
    handed = {name: value for name, value in arguments.items() if name != "hidden_states"}
    shared = [leaf for leaf in pytree.tree_leaves(handed) if isinstance(leaf, torch.Tensor)]
    layer = models.layers_of(model)[block]
    left_out = itertools.chain(model.parameters(), model.buffers(), shared, random_states)
    return saved_storages(lambda: layer(**arguments), left_out)


def storages_of_gpu_kernels(model, batch=BATCH, tokens=TOKENS, block=0):
    """The same with a GPU's kernels, less what its attention kernels keep of random numbers."""
    with models.gpu_kernels() as random_states:
        return torch_storages(model, batch, tokens, block, random_states)


def shown_block(cairn_on, model, batch=BATCH, tokens=TOKENS, block=0):
    shown = cairn_on(model, "show", "--batch", batch, "--tokens", tokens, "--block", block)
    assert total(cairn_storages(shown)) == shown["saved_bytes"]
    return shown


def cases(dropouts=(0.0,), types=(BF16,)):
    for name, (kind, dims) in models.variants().items():
        for attention in models.FAMILIES[kind].attentions:
            for block in models.FAMILIES[kind].blocks:
                for dropout in dropouts:
                    if dropout > 0 and not models.FAMILIES[kind].dropouts:
                        continue
                    for dtype in types:
                        if dtype in models.FAMILIES[kind].meta_types:
                            yield pytest.param(
                                kind, dims, attention, block, dropout, dtype,
                                id=f"{name}, {attention}, layer {block}, p {dropout}, {dtype}")


@pytest.mark.parametrize("kind, dims, attention, block, dropout, dtype",
                         list(cases(dropouts=(0.0, 0.1), types=(BF16, FP32))))
def test_a_layer_with_gpu_kernels_keeps_what_cairn_says(cairn_on, kind, dims, attention, block,
                                                        dropout, dtype):
    model = models.build(kind, "meta", dtype, attention, dropout, layers=block + 1, **dims)
    shown = shown_block(cairn_on, model, block=block)
    kept = storages_of_gpu_kernels(model, block=block)
    for op in shown["ops"]:  # Cairn counts the state where there is dropout
        kept.update(RNG_STATE for made in op["auxiliaries"]
                    if made["name"].endswith(".rng_state"))
    assert kept == cairn_storages(shown)


LLAMAS = {name: dims for name, (_, dims) in models.variants(["llama"]).items()}
GPT2S = {name: dims for name, (_, dims) in models.variants(["gpt2"]).items()}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("dtype", [BF16, FP32])
@pytest.mark.parametrize("dims", LLAMAS.values(), ids=LLAMAS)
def test_a_llama_layer_on_a_cpu_keeps_the_same(cairn_on, dims, dtype, attention):
    model = models.build("llama", "cpu", dtype, attention, **dims)
    assert torch_storages(model) == cairn_storages(shown_block(cairn_on, model))


def storages_on_a_cpu(shown, item_bytes):
    """CPU kernels keep a dropout's scaled mask and a layer norm's mean and rstd in the activations'
    type, where a GPU's keep the mask in bytes and the statistics in fp32."""
    sizes = cairn_storages(shown)
    for op in shown["ops"]:
        gpu_item_bytes = {"dropout": 1, "layer_norm": 4}.get(op["kind"])
        for kept in op["auxiliaries"] if gpu_item_bytes else []:
            sizes.subtract([kept["bytes"]])
            sizes.update([kept["bytes"] // gpu_item_bytes * item_bytes])
    return sizes


# Not sdpa with dropout: CPU's flash kernel has none, and another, unlike a GPU's, takes its place.
@pytest.mark.parametrize("attention, dropout", [("sdpa", 0.0), ("eager", 0.0), ("eager", 0.1)])
@pytest.mark.parametrize("dtype", [BF16, FP32])
@pytest.mark.parametrize("dims", GPT2S.values(), ids=GPT2S)
def test_a_gpt2_layer_on_a_cpu_differs_in_the_type_of_masks_and_statistics_only(
        cairn_on, dims, dtype, attention, dropout):
    model = models.build("gpt2", "cpu", dtype, attention, dropout, **dims)
    expected = storages_on_a_cpu(shown_block(cairn_on, model), ITEM_BYTES[dtype])
    assert torch_storages(model) == expected


@pytest.mark.parametrize("batch, tokens", [(1, TOKENS), (1, 30), (3, 45)])
@pytest.mark.parametrize("kind, dims, attention, block, dropout, dtype", list(cases()))
def test_a_layer_keeps_what_cairn_says_of_any_batch_and_tokens(cairn_on, kind, dims, attention,
                                                               block, dropout, dtype, batch,
                                                               tokens):
    model = models.build(kind, "meta", dtype, attention, dropout, layers=block + 1, **dims)
    kept = storages_of_gpu_kernels(model, batch, tokens, block)
    counted = cairn_storages(shown_block(cairn_on, model, batch, tokens, block))
    config = model.config
    if attention == "eager" and batch == 1 and getattr(config, "num_key_value_heads", None) == 1:
        # torch repeats one head by a view, which a product of one sample keeps; Cairn counts k and
        # v repeated, as in a larger batch.
        head = 2 * config.head_dim * tokens
        counted.subtract([config.num_attention_heads * head] * 2)
        counted.update([head] * 2)
    assert kept == +counted


def test_llama_8b_with_flash_attention_keeps_the_published_formula_and_the_two_norm_rows(cairn_on):
    heads, kv_heads, head_dim, hidden, ffn, tokens = 32, 8, 128, 4096, 14336, 8192
    model = models.build("llama", "meta", BF16, "sdpa", hidden_size=hidden, intermediate_size=ffn,
                         num_attention_heads=heads, num_key_value_heads=kv_heads,
                         max_position_embeddings=8192)
    kept = total(storages_of_gpu_kernels(model, 1, tokens))
    per_token = 16 * hidden + 4 * heads * head_dim + 4 * kv_heads * head_dim + 4 * heads + 8 * ffn
    assert kept == tokens * (per_token + 8)
    flash = cairn("show", "llama-3.1-8b", "--attention", "flash", "--tokens", tokens)
    assert flash["saved_bytes"] == kept


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_the_layers_get_no_cache_and_a_mask_only_where_it_is_needed(kind, attention):
    seen = models.layer_arguments(models.build(kind, attention=attention), BATCH, TOKENS)
    assert seen.get("past_key_values") is None
    if attention == "sdpa":
        assert seen["attention_mask"] is None
    else:  # one mask for the whole batch and all layers
        assert seen["attention_mask"].shape == (BATCH, 1, TOKENS, TOKENS)
    if kind == "llama":
        assert [table.shape for table in seen["position_embeddings"]] == [(1, TOKENS, 16)] * 2


def test_the_loss_keeps_the_log_softmax_in_fp32_and_the_shifted_labels():
    # models/layers/cross_entropy_hf.yaml: log_softmax is saved, and labels, which it reads. torch
    # shifts the labels into a tensor of its own and keeps the divisor of the mean too: 4 bytes.
    vocab = 100
    logits = torch.zeros(BATCH, TOKENS, vocab, dtype=BF16, requires_grad=True)
    labels = torch.zeros(BATCH, TOKENS, dtype=torch.long)
    kept = saved_storages(lambda: ForCausalLMLoss(logits, labels, vocab), [logits])
    assert kept == {4 * BATCH * TOKENS * vocab: 1, 8 * BATCH * TOKENS: 1, 4: 1}
