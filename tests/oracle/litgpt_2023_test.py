"""LitGPT of October 2023 (commit 8641822, then lit-gpt) with torch 2.1, against `--library lit-gpt`.

It is on no registry: LitGPT's own blocks of today run here with what was another way then, the norm in
the activations' type (lit_gpt/rmsnorm.py), tables of positions in fp16 (lit_gpt/model.py: build_rope_cache)
and columns of adapters that are written tokens first into a copy of zeros (lit_gpt/lora.py: zero_pad).
torch 2.1 keeps the input of a mean (its generated/Functions.h: MeanBackward1); the torch here does not.
"""

import collections

import pytest
import torch
from adapters_libraries_test import LITGPT, PARTS, adapt, kept_by_a_block, options_of
from libraries_test import BATCH, BF16, DIMS, TOKENS, ask, built  # noqa: F401
from saved_tensors import cairn_storages

DIMS_OF_2023 = DIMS["every head its own keys"]
SQUARES = 2 * BATCH * TOKENS * DIMS_OF_2023["hidden_size"]  # of a norm, in bf16


def norm_of_2023(norm):
    return lambda x: norm.weight * (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + norm.eps))


def zero_pad_of_2023(layer):
    def zero_pad(x):
        if all(layer.enable_lora):
            return x
        tokens_first = x.transpose(0, 1)
        columns = layer.linear.out_features
        zeros = x.new_zeros(*tokens_first.shape[:-1], columns).view(-1, columns)
        index = torch.empty(x.shape[-1], dtype=torch.long, device=x.device)  # made in each forward
        rows = tokens_first.reshape(-1, x.shape[-1])
        return zeros.index_copy(1, index, rows).view(*tokens_first.shape[:-1], columns).transpose(0, 1)

    return zero_pad


def of_2023(model):
    for module in model.modules():
        if "Norm" in type(module).__name__:
            module.forward = norm_of_2023(module)
        if hasattr(module, "zero_pad"):
            module.zero_pad = zero_pad_of_2023(module)
    model.cos, model.sin = model.cos.half(), model.sin.half()
    return model


@pytest.mark.parametrize("dropout", [0.0, 0.05])
@pytest.mark.parametrize("targets", LITGPT.values(), ids=LITGPT)
def test_a_block_keeps_what_cairn_says_but_for_the_squares_of_its_norms(ask, targets, dropout):  # noqa: F811
    model = built("litgpt", DIMS_OF_2023, "meta", BF16)
    adapt("litgpt", model, targets, DIMS_OF_2023, dropout)
    kept = kept_by_a_block("litgpt", of_2023(model), DIMS_OF_2023, BF16)
    named = PARTS if targets == LITGPT["q, k and v"] else targets  # its layer has another name
    shown = ask("lit-gpt", DIMS_OF_2023, "show", *options_of(named, dropout), "--block", 1)
    assert cairn_storages(shown) == kept + collections.Counter({SQUARES: 2})
