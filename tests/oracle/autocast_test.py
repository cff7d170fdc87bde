"""What one layer keeps for backward under torch.autocast, to the byte."""

import pytest
import torch
from autocast import autocast, pretended_gpu
from saved_tensors import cairn_storages, total
from saved_tensors_test import RNG_STATE, torch_storages

import models

BATCH, TOKENS = 2, 32
FP32, BF16, FP16 = torch.float32, torch.bfloat16, torch.float16


def shown_block(cairn_on, model, block, precision):
    shown = cairn_on(model, "show", "--batch", BATCH, "--tokens", TOKENS, "--block", block,
                     precision=precision)
    assert total(cairn_storages(shown)) == shown["saved_bytes"]
    return shown


def cases():
    for name, (kind, dims) in models.variants().items():
        family = models.FAMILIES[kind]
        for attention in family.attentions:
            for block in family.blocks:
                for dropout in (0.0, 0.1) if family.dropouts else (0.0,):
                    yield pytest.param(kind, dims, attention, block, dropout,
                                       id=f"{name}, {attention}, layer {block}, p {dropout}")


@pytest.mark.parametrize("kind, dims, attention, block, dropout", list(cases()))
def test_a_layer_under_a_gpus_autocast_keeps_what_cairn_says(cairn_on, kind, dims, attention,
                                                             block, dropout):
    with pretended_gpu() as random_states:
        model = models.build(kind, "cuda", FP32, attention, dropout, layers=block + 1, **dims)
        with autocast("cuda"):
            kept = torch_storages(model, BATCH, TOKENS, block, random_states)
    shown = shown_block(cairn_on, model, block, "autocast-bf16")
    for op in shown["ops"]:  # Cairn counts the state where there is dropout
        kept.update(RNG_STATE for made in op["auxiliaries"]
                    if made["name"].endswith(".rng_state"))
    assert kept == cairn_storages(shown)
