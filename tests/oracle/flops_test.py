"""Forward and extra FLOPs: torch's own counter against Cairn, exactly."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import models

BATCH, TOKENS = 2, 64


def cases():
    """A small model of each family, with each kind of attention."""
    for kind, family in models.FAMILIES.items():
        dims = next(dims for name, (k, dims) in models.variants([kind]).items())
        for attention in family.attentions:
            yield pytest.param(kind, dims, attention, id=f"{kind}, {attention}")


def build(kind, dims, attention):
    """Experts run as batched products: torch's counter knows no formula for grouped ones, whose
    products have the same rows."""
    layers = 1 + max(2, *models.FAMILIES[kind].blocks)
    return models.build(kind, "meta", attention=attention, layers=layers, vocab=1000,
                        experts="batched_mm", **dims)


def counted(run, without=()):
    """FLOPs of run(), less those under the modules of these names."""
    with FlopCounterMode(display=False) as counter:
        run()
    left_out = sum(sum(flops.values()) for module, flops in counter.get_flop_counts().items()
                   if module.partition(".")[2] in without)
    return counter.get_total_flops() - left_out


@pytest.mark.parametrize("kind, dims, attention", list(cases()))
def test_a_layers_forward_has_the_flops_that_torch_counts(cairn_on, kind, dims, attention):
    model = build(kind, dims, attention)
    for block in models.FAMILIES[kind].blocks:
        with models.gpu_kernels():
            arguments = models.layer_arguments(model, BATCH, TOKENS, block)
            expected = counted(lambda: models.layers_of(model)[block](**arguments))
        shown = cairn_on(model, "show", "--batch", BATCH, "--tokens", TOKENS, "--block", block)
        assert shown["forward_flops"] == expected


@pytest.mark.parametrize("kind, dims, attention", list(cases()))
def test_a_step_has_the_flops_that_torch_counts(cairn_on, kind, dims, attention):
    model = build(kind, dims, attention)
    with models.gpu_kernels():  # the angles of cos and sin are an outer product
        expected = counted(lambda: models.train_step(model, BATCH, TOKENS),
                           without=models.rotary_modules(model))
    answer = cairn_on(model, "fit", "--batch", BATCH, "--tokens", TOKENS)
    assert answer["step_flops"] == expected


@pytest.mark.parametrize("reentrant, extent", [(False, "prefix"), (True, "whole")])
@pytest.mark.parametrize("kind, dims, attention",
                         [case for case in cases() if case.values[0] in ("llama", "gpt2")])
def test_checkpointing_every_layer_adds_the_flops_that_torch_counts(cairn_on, kind, dims, attention,
                                                                    reentrant, extent):
    model = build(kind, dims, attention)
    with models.gpu_kernels():
        plain = counted(lambda: models.train_step(model, BATCH, TOKENS))
        models.checkpoint_layers(model, reentrant)
        checkpointed = counted(lambda: models.train_step(model, BATCH, TOKENS))
    answer = cairn_on(model, "simulate", "--batch", BATCH, "--tokens", TOKENS,
                      "--checkpointing", "every-layer", "--extent", extent)
    assert answer["extra_flops"] == checkpointed - plain
