"""What one layer keeps for backward: Transformers and torch against `cairn show`, to the byte."""

import inspect

import pytest
import torch
from conftest import cairn
from saved_tensors import cairn_storages, saved_storages, total
from transformers.loss.loss_utils import ForCausalLMLoss

import models

BATCH, TOKENS = 2, 32
BF16, FP32 = torch.bfloat16, torch.float32
ITEM_BYTES = {BF16: 2, FP32: 4}

LLAMAS = {
    "every head its own keys": dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=4,
                                    intermediate_size=96),
    "grouped heads": dict(hidden_size=256, num_attention_heads=8, num_key_value_heads=2,
                          intermediate_size=688),
    "heads wider than hidden": dict(hidden_size=96, num_attention_heads=6, num_key_value_heads=3,
                                    head_dim=32, intermediate_size=200),
    "one key head, with biases": dict(hidden_size=128, num_attention_heads=4,
                                      num_key_value_heads=1, intermediate_size=384,
                                      attention_bias=True, mlp_bias=True),
}
GPT2S = {
    "small": dict(n_embd=64, n_head=4),
    "medium, ffn of its own": dict(n_embd=192, n_head=6, n_inner=500),
}

# A flash kernel keeps the state of its random numbers, two uint64, and an unused scalar, whatever
# the dropout. Cairn counts the state where there is dropout (graph/ops/attention.cc): at most 24
# bytes a layer less than torch, whatever the tokens.
RNG_STATE, UNUSED = 16, 8


def torch_storages(model, batch=BATCH, tokens=TOKENS):
    arguments = models.layer_arguments(model, batch, tokens)
    held_by_the_model = [*model.parameters(), *arguments.get("position_embeddings", ())]
    return saved_storages(lambda: models.layers_of(model)[0](**arguments), held_by_the_model)


def shown_block(cairn_on, model, batch=BATCH, tokens=TOKENS):
    shown = cairn_on(model, "show", "--batch", batch, "--tokens", tokens)
    assert total(cairn_storages(shown)) == shown["saved_bytes"]
    return shown


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("dtype", [BF16, FP32])
@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("dims", LLAMAS.values(), ids=LLAMAS)
def test_a_llama_layer_keeps_what_cairn_says(cairn_on, dims, device, dtype, attention):
    model = models.llama(device, dtype, attention, num_hidden_layers=1, vocab_size=64, **dims)
    if device == "cpu":
        kept = torch_storages(model)
    else:
        with models.gpu_kernels():
            kept = torch_storages(model)
        if attention == "sdpa":
            kept.subtract([RNG_STATE, UNUSED])
    assert kept == cairn_storages(shown_block(cairn_on, model))


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("dtype", [BF16, FP32])
@pytest.mark.parametrize("dims", GPT2S.values(), ids=GPT2S)
def test_a_gpt2_layer_with_gpu_kernels_keeps_what_cairn_says(cairn_on, dims, dtype, attention,
                                                             dropout):
    model = models.gpt2("meta", dtype, attention, dropout, n_layer=1, vocab_size=64, **dims)
    with models.gpu_kernels():
        kept = torch_storages(model)
    if attention == "sdpa":
        kept.subtract([UNUSED] if dropout > 0 else [RNG_STATE, UNUSED])
    assert kept == cairn_storages(shown_block(cairn_on, model))


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
    model = models.gpt2("cpu", dtype, attention, dropout, n_layer=1, vocab_size=64, **dims)
    expected = storages_on_a_cpu(shown_block(cairn_on, model), ITEM_BYTES[dtype])
    assert torch_storages(model) == expected


def test_one_sample_keeps_the_same_bytes_of_eager_gpt2_in_fewer_tensors(cairn_on):
    model = models.gpt2("meta", BF16, "eager", n_layer=1, vocab_size=64, n_embd=64, n_head=4)
    kept = torch_storages(model, batch=1)
    shown = shown_block(cairn_on, model, batch=1)
    qkv, rows = 3 * 64 * TOKENS * 2, 64 * TOKENS * 2
    # torch keeps the one tensor of q, k and v; Cairn counts the copies that a larger batch makes.
    assert kept - cairn_storages(shown) == {qkv: 1}
    assert cairn_storages(shown) - kept == {rows: 3}


def test_llama_8b_with_flash_attention_keeps_the_published_formula_and_the_two_norm_rows(cairn_on):
    heads, kv_heads, head_dim, hidden, ffn, tokens = 32, 8, 128, 4096, 14336, 8192
    model = models.llama("meta", BF16, "sdpa", num_hidden_layers=1, hidden_size=hidden,
                         intermediate_size=ffn, num_attention_heads=heads,
                         num_key_value_heads=kv_heads, vocab_size=64, max_position_embeddings=8192)
    with models.gpu_kernels():
        kept = total(torch_storages(model, 1, tokens)) - RNG_STATE - UNUSED
    per_token = 16 * hidden + 4 * heads * head_dim + 4 * kv_heads * head_dim + 4 * heads + 8 * ffn
    assert kept == tokens * (per_token + 8)
    flash = cairn("show", "llama-3.1-8b", "--attention", "flash", "--tokens", tokens)
    assert flash["saved_bytes"] == kept


def bound(module, positional, named):
    """A forward's arguments by name."""
    return inspect.signature(module.forward).bind(*positional, **named).arguments


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("build", [models.llama, models.gpt2])
def test_the_model_hands_its_layers_what_these_tests_hand_them(build, attention):
    dims = {models.llama: dict(hidden_size=64, num_hidden_layers=1, num_attention_heads=4,
                               intermediate_size=96),
            models.gpt2: dict(n_embd=64, n_layer=1, n_head=4)}[build]
    model = build("cpu", BF16, attention, vocab_size=64, **dims)
    seen = {}
    models.layers_of(model)[0].register_forward_pre_hook(
        lambda module, positional, named: seen.update(bound(module, positional, named)),
        with_kwargs=True)
    ids = torch.zeros(BATCH, TOKENS, dtype=torch.long)
    model(input_ids=ids, labels=ids)
    assert seen.get("past_key_values") is None
    if attention == "sdpa":
        assert seen["attention_mask"] is None
    else:  # one mask for the whole batch and all layers
        assert seen["attention_mask"].shape == (BATCH, 1, TOKENS, TOKENS)
    if build is models.llama:
        assert [table.shape for table in seen["position_embeddings"]] == [(1, TOKENS, 16)] * 2


def test_the_loss_keeps_the_log_softmax_in_fp32_and_the_shifted_labels():
    # models/layers/cross_entropy_hf.yaml: log_softmax is saved, and labels, which it reads. torch
    # shifts the labels into a tensor of its own and keeps the divisor of the mean too: 4 bytes.
    vocab = 100
    logits = torch.zeros(BATCH, TOKENS, vocab, dtype=BF16, requires_grad=True)
    labels = torch.zeros(BATCH, TOKENS, dtype=torch.long)
    kept = saved_storages(lambda: ForCausalLMLoss(logits, labels, vocab), [logits])
    assert kept == {4 * BATCH * TOKENS * vocab: 1, 8 * BATCH * TOKENS: 1, 4: 1}
