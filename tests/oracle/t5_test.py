"""T5 of Transformers against Cairn: counts, saved tensors, FLOPs."""

import contextlib
from unittest import mock

import pytest
import torch
from conftest import HF_CONFIGS, cairn
from live_bytes import step_peak_bytes
from saved_tensors import cairn_storages, kept_at_the_end_of_forward, saved_storages, total
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode
from transformers import T5Config, T5ForConditionalGeneration

import models

BATCH, TOKENS, TARGETS, HEADS = 2, 32, 24, 4
BF16, FP32 = torch.bfloat16, torch.float32
DIMS = dict(d_model=64, d_kv=16, num_heads=HEADS, d_ff=96, num_layers=2, num_decoder_layers=3,
            vocab_size=100, decoder_start_token_id=0, pad_token_id=0)
VARIANTS = {
    "relu": {},
    "gated": dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    "narrow heads": dict(d_kv=8, feed_forward_proj="gelu"),
}
ENCODER, DECODER = 1, 3  # blocks to look at: the second of each, which gets its table of positions


def build(variant, dtype=BF16, attention="sdpa", dropout=0.0, device="meta", **dims):
    config = T5Config(**DIMS | VARIANTS[variant] | dims, dropout_rate=dropout, use_cache=False,
                      attn_implementation=attention)
    with torch.device(device):
        return models.of_type(T5ForConditionalGeneration(config), dtype).train()


def inputs_of(device="meta"):
    ids = torch.zeros(BATCH, TOKENS, device=device, dtype=torch.long)
    return {"input_ids": ids, "labels": ids[:, :TARGETS].clone()}


def ask(cairn_on, model, command, *options, **named):
    return cairn_on(model, command, "--batch", BATCH, "--tokens", TOKENS,
                    "--set", f"target_tokens={TARGETS}", *options, **named)


def _attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
               enable_gqa=False):
    """What a GPU runs (aten/src/ATen/native/transformers): a fused kernel only where the rows of
    the mask lie in rows (sdp_utils_cpp.h, check_last_dim_stride_equals_1_dense)."""
    assert attn_mask is not None and not is_causal
    if attn_mask.stride(-1) == 1:
        bias = attn_mask.expand(*q.shape[:3], k.shape[2])
        attend = torch.ops.aten._scaled_dot_product_efficient_attention
        return attend(q, k, v, bias, True, dropout_p, False, scale=scale)[0]
    attend = torch.ops.aten._scaled_dot_product_attention_math
    return attend(q, k, v, attn_mask, dropout_p, False, None, scale=scale)[0]


@contextlib.contextmanager
def gpu_kernels():
    attention = mock.patch.object(functional, "scaled_dot_product_attention", _attention)
    with models.gpu_kernels(), attention, models.meta_answers():
        yield


def arguments_of(model, stack, block):
    """What the model hands to a block: its tokens, a mask, the table of positions, the encoder's
    tokens, their mask and positions (zeros)."""
    layer, seen = model.get_submodule(f"{stack}.block")[block], {}
    hook = layer.register_forward_pre_hook(
        lambda _, positional, named: seen.update(positional=positional, named=named),
        with_kwargs=True)
    with torch.no_grad(), models.meta_answers():
        model(**inputs_of(model.device))
    hook.remove()
    arguments = list(seen["positional"])
    for place in (0, 2, 3):  # made by trainable modules
        if arguments[place] is not None:
            arguments[place] = models.made_like(arguments[place])
    return layer, arguments, seen["named"]


def adjusted(kept, stack, layers, dropout, attention):
    """For what the meta device keeps in another form than a GPU: in torch's spelled-out attention
    a dropout's mask, of the scores' fp32 instead of bytes, and the efficient kernel's random state,
    as two tensors that are there without dropout too."""
    if attention == "eager":
        return kept
    columns = TOKENS if stack == "encoder" else TARGETS
    for _ in range(layers):
        if dropout > 0:
            kept.subtract([4 * BATCH * HEADS * columns * columns])
            kept.update([BATCH * HEADS * columns * columns])
        if stack == "decoder":
            kept.subtract([8, 8])
            kept.update([16] if dropout > 0 else [])
    return kept


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_model_has_the_parameters_that_torch_counts(cairn_on, variant):
    model = build(variant)
    shown = ask(cairn_on, model, "simulate")
    assert shown["parameters"] == sum(weight.numel() for weight in model.parameters())


def test_the_head_of_flan_t5_is_tied_as_transformers_ties_it():
    # The checkpoint's own head, 32,128 words of 4,096, would be 131,596,288 more: 11,135,332,352.
    shown = cairn("simulate", HF_CONFIGS / "flan-t5-xxl.json")
    assert shown["parameters"] == 11_135_332_352 - 32_128 * 4_096


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("dtype", [BF16, FP32])
@pytest.mark.parametrize("stack, block", [("encoder", ENCODER), ("decoder", DECODER)])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_block_keeps_what_cairn_says(cairn_on, variant, stack, block, dtype, attention, dropout):
    model = build(variant, dtype, attention, dropout)
    layer, positional, named = arguments_of(model, stack, 1)
    zeros = [positional[5]] if positional[5] is not None else []
    with gpu_kernels():
        kept = saved_storages(lambda: layer(*positional, **named), [*model.parameters(), *zeros])
    shown = ask(cairn_on, model, "show", "--block", block)
    for op in shown["ops"]:  # an input of the graph: one tensor for all blocks
        op["saved"] = [tensor for tensor in op["saved"] if tensor["name"] != "zeros"]
    assert adjusted(kept, stack, 1, dropout, attention) == cairn_storages(shown)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_model_keeps_what_cairn_says(cairn_on, variant, attention):
    dropout = 0.1
    model = build(variant, FP32, attention, dropout)
    given = inputs_of()
    with gpu_kernels():
        kept = saved_storages(lambda: model(**given).loss, [*model.parameters(), *given.values()])
    kept = adjusted(kept, "encoder", DIMS["num_layers"], dropout, attention)
    kept = adjusted(kept, "decoder", DIMS["num_decoder_layers"], dropout, attention)
    # Inputs to Cairn: the decoder's words, the rows of both tables, the zeros; with the efficient
    # kernel, which saves them. nll_loss keeps the divisor of its mean.
    inputs = 8 * BATCH * TARGETS + 8 * (TOKENS**2 + TARGETS**2) + 4
    if attention == "sdpa":
        inputs += 4 * HEADS * TARGETS * TOKENS
    answer = ask(cairn_on, model, "simulate", "--checkpointing", "none")
    assert kept_at_the_end_of_forward(answer) == total(kept) - inputs


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_step_has_the_flops_that_torch_counts(cairn_on, variant, attention):
    model = build(variant, FP32, attention, dropout=0.1)
    with gpu_kernels(), FlopCounterMode(display=False) as counter:
        model(**inputs_of()).loss.backward()
    assert ask(cairn_on, model, "fit")["step_flops"] == counter.get_total_flops()


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_step_on_a_cpu_peaks_where_cairn_says(cairn_on, variant):
    # The peak is at the loss: elsewhere a second contribution to the tied words would be, see
    # docs/accounting.md.
    model = build(variant, FP32, "eager", device="cpu", vocab_size=8000, d_model=32)
    peak = step_peak_bytes(model, inputs_of("cpu"))
    expected = ask(cairn_on, model, "simulate", "--optimizer", "sgd")["peak_bytes"]
    expected += 4 + 4  # divisor of the mean loss, gradient of the loss
    # Factors, each a tensor: eager attention's scale, three of gelu_new, the decoder's output.
    layers, decoder_layers = DIMS["num_layers"], DIMS["num_decoder_layers"]
    factors = layers + 2 * decoder_layers + model.config.scale_decoder_outputs
    factors += 3 * (layers + decoder_layers) * (model.config.dense_act_fn == "gelu_new")
    expected += 8 * factors
    expected -= 4 * HEADS * TARGETS * TOKENS  # zeros, an input to Cairn: here gone after forward
    assert peak == expected
