"""Forward and extra FLOPs: torch's own counter against Cairn, exactly."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import models

BATCH, TOKENS = 2, 64
LLAMA = dict(hidden_size=128, num_hidden_layers=3, num_attention_heads=8, num_key_value_heads=2,
             intermediate_size=352, vocab_size=1000)
GPT2 = dict(n_embd=128, n_layer=3, n_head=4, vocab_size=1000)


def build(kind, attention, device="meta"):
    if kind == "llama":
        return models.llama(device, attention=attention, **LLAMA)
    return models.gpt2(device, attention=attention, **GPT2)


def counted(run):
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_layers_forward_has_the_flops_that_torch_counts(cairn_on, kind, attention):
    model = build(kind, attention)
    arguments = models.layer_arguments(model, BATCH, TOKENS)
    with models.gpu_kernels():
        expected = counted(lambda: models.layers_of(model)[0](**arguments))
    shown = cairn_on(model, "show", "--batch", BATCH, "--tokens", TOKENS)
    assert shown["forward_flops"] == expected


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_step_has_the_flops_that_torch_counts(cairn_on, kind, attention):
    model = build(kind, attention)
    with models.gpu_kernels():
        expected = counted(lambda: models.train_step(model, BATCH, TOKENS))
    if kind == "llama":  # the angles of cos and sin, which are inputs to Cairn: an outer product
        head_dim = LLAMA["hidden_size"] // LLAMA["num_attention_heads"]
        expected -= 2 * (head_dim // 2) * TOKENS
    answer = cairn_on(model, "fit", "--batch", BATCH, "--tokens", TOKENS)
    assert answer["step_flops"] == expected


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("reentrant, extent", [(False, "prefix"), (True, "whole")])
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_checkpointing_every_layer_adds_the_flops_that_torch_counts(cairn_on, kind, reentrant,
                                                                    extent, attention):
    model = build(kind, attention)
    with models.gpu_kernels():
        plain = counted(lambda: models.train_step(model, BATCH, TOKENS))
        models.checkpoint_layers(model, reentrant)
        checkpointed = counted(lambda: models.train_step(model, BATCH, TOKENS))
    answer = cairn_on(model, "simulate", "--batch", BATCH, "--tokens", TOKENS,
                      "--checkpointing", "every-layer", "--extent", extent)
    assert answer["extra_flops"] == checkpointed - plain
