"""Llama as other libraries' code runs it: torchtune, LitGPT, torchtitan against `--library`.

Each library's own modules run on the meta device with a GPU's kernels, as in saved_tensors_test.py, and
on the CPU, whose allocator gives the peak of a step.
"""

import dataclasses
import itertools
import json
import math
from collections.abc import Callable

import pytest
import torch
from conftest import cairn
from implementations_test import FusedRmsNorm
from saved_tensors import cairn_storages, saved_storages, total

import models
from training_libraries import load

BATCH, TOKENS, LAYERS = 2, 32, 2
BF16, FP32 = torch.bfloat16, torch.float32

DIMS = {
    "every head its own keys": dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=4,
                                    intermediate_size=256),
    "grouped heads": dict(hidden_size=128, num_attention_heads=8, num_key_value_heads=2,
                          intermediate_size=512),
}


@dataclasses.dataclass(frozen=True)
class Library:
    """How a library builds a Llama of such dims, and runs a step of it."""

    build: Callable  # of (dims, vocab)
    loss: Callable  # of (model, ids, labels)
    layers: Callable  # of (model): its blocks
    arguments: Callable  # of (model, tokens): what a block is called with besides the stream
    tables: Callable  # of (model): tensors that all blocks share


def _torchtune(dims, vocab):
    (builder,) = load("torchtune.models.llama3_1")
    return builder.llama3_1(
        vocab_size=vocab, num_layers=LAYERS, num_heads=dims["num_attention_heads"],
        num_kv_heads=dims["num_key_value_heads"], embed_dim=dims["hidden_size"], max_seq_len=128,
        intermediate_dim=dims["intermediate_size"])


def _torchtune_loss(model, ids, labels):
    logits = model(ids)
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.size(-1)), labels.reshape(-1))
    del logits
    return loss


def _torchtune_tables(model):
    return [model.layers[0].attn.pos_embeddings.cache]


def _litgpt(dims, vocab):
    config, model = load("litgpt.config", "litgpt.model")
    return model.GPT(config.Config(
        n_layer=LAYERS, n_head=dims["num_attention_heads"], n_embd=dims["hidden_size"],
        n_query_groups=dims["num_key_value_heads"], intermediate_size=dims["intermediate_size"],
        vocab_size=vocab, padded_vocab_size=vocab, block_size=TOKENS, rotary_percentage=1.0,
        parallel_residual=False, bias=False, norm_class_name="RMSNorm", mlp_class_name="LLaMAMLP"))


def _litgpt_loss(model, ids, labels):
    logits = model(ids)
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.size(-1)), labels.reshape(-1))


def _titan(dims, vocab):
    args, model = load("torchtitan.models.llama3.model.args", "torchtitan.models.llama3.model.model")
    ffn = dims["intermediate_size"]
    two_thirds = int(2 * 4 * dims["hidden_size"] / 3)
    arguments = args.TransformerModelArgs(
        dim=dims["hidden_size"], n_layers=LAYERS, n_heads=dims["num_attention_heads"],
        n_kv_heads=dims["num_key_value_heads"], vocab_size=vocab, max_seq_len=TOKENS,
        multiple_of=ffn, ffn_dim_multiplier=ffn / two_thirds - 0.01)
    return model.Transformer(arguments)


def _titan_loss(model, ids, labels):
    (loss,) = load("torchtitan.components.loss")
    logits = model(ids)
    return loss.cross_entropy_loss(logits, labels)


LIBRARIES = {
    "torchtune": Library(_torchtune, _torchtune_loss, lambda model: list(model.layers),
                         lambda model, tokens: {}, _torchtune_tables),
    "litgpt": Library(_litgpt, _litgpt_loss, lambda model: list(model.transformer.h),
                      lambda model, tokens: dict(cos=model.cos[:tokens].unsqueeze(0),
                                                 sin=model.sin[:tokens].unsqueeze(0)),
                      lambda model: [model.cos, model.sin]),
    "torchtitan": Library(_titan, _titan_loss, lambda model: list(model.layers.values()),
                          lambda model, tokens: dict(freqs_cis=model.freqs_cis, attention_masks=None),
                          lambda model: [model.freqs_cis]),
}


def built(library, dims, device, dtype, vocab=64):
    """In that type but for the tables of positions, as the libraries' own scripts make them."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        if library == "torchtune":  # makes no tables on the meta device
            model = LIBRARIES[library].build(dims, vocab).to(device)
        else:
            with torch.device(device):
                model = LIBRARIES[library].build(dims, vocab)
    finally:
        torch.set_default_dtype(default)
    return model.train()


@pytest.fixture
def ask(tmp_path):
    def answer(library, dims, command, *options, vocab=64, dtype=BF16):
        config = dict(dims, model_type="llama", num_hidden_layers=LAYERS, vocab_size=vocab,
                      max_position_embeddings=128)
        (tmp_path / "config.json").write_text(json.dumps(config))
        precision = {BF16: "bf16", FP32: "fp32"}[dtype]
        return cairn(command, tmp_path / "config.json", "--library", library, "--precision", precision,
                     "--batch", BATCH, "--tokens", TOKENS, *options)

    return answer


def kept_by_a_block(library, dims):
    """With a GPU's kernels, of which torch's norm is one where its weight has the input's type."""
    row, model = LIBRARIES[library], built(library, dims, "meta", BF16)
    for module in model.modules():
        if type(module) is torch.nn.RMSNorm:
            module.forward = lambda x, norm=module: FusedRmsNorm.apply(x, norm.weight)
    x = models.made_like(torch.empty(BATCH, TOKENS, dims["hidden_size"], dtype=BF16, device="meta"))
    left_out = (*model.parameters(), *row.tables(model))
    with models.gpu_kernels() as states:
        block = row.layers(model)[0]
        return saved_storages(lambda: block(x, **row.arguments(model, TOKENS)),
                              itertools.chain(left_out, states))


@pytest.mark.parametrize("dims", DIMS.values(), ids=DIMS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_block_with_gpu_kernels_keeps_what_cairn_says(ask, library, dims):
    shown = ask(library, dims, "show")
    assert total(cairn_storages(shown)) == shown["saved_bytes"]
    assert kept_by_a_block(library, dims) == cairn_storages(shown)


@pytest.mark.parametrize("dims", DIMS.values(), ids=DIMS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_the_model_has_as_many_parameters(ask, library, dims):
    model = built(library, dims, "meta", BF16)
    count = sum(math.prod(parameter.shape) for parameter in model.parameters())
    assert ask(library, dims, "show")["parameters"] == count
