"""torchtune's and LitGPT's own low-rank adapters beside the layers of their models, against
`cairn --library`: what a block keeps, on the meta device with a GPU's kernels."""

import itertools

import pytest
import torch
from libraries_test import (BATCH, BF16, DIMS, FP32, LIBRARIES, TOKENS, FusedRmsNorm, ask,  # noqa: F401
                            built)
from saved_tensors import cairn_storages, saved_storages

import models
from training_libraries import load

RANK = 8
TARGETS = {
    "torchtune": {"q and v": ["q_proj", "v_proj"], "all but the head": ["all-linear"]},
    "litgpt": {"output": ["attn.proj"], "MLP": ["fc_1", "fc_2", "mlp.proj"]},
}


def adapter_of(library, linear, dropout):
    if library == "torchtune":
        (lora,) = load("torchtune.modules.peft.lora")
        made = lora.LoRALinear(linear.in_features, linear.out_features, RANK, 16, dropout)
    else:
        (lora,) = load("litgpt.lora")
        made = lora.LoRALinear(linear.in_features, linear.out_features, RANK, 16, dropout, bias=False)
    return made.to(device=linear.weight.device, dtype=linear.weight.dtype)


def adapt(library, model, targets, dropout):
    """Puts adapters beside the linear layers whose paths end so; all else is frozen."""
    model.requires_grad_(False)
    for path, module in list(model.named_modules()):
        is_head = path in ("output", "lm_head")
        is_target = targets == ["all-linear"] or any(path.endswith(f".{name}") for name in targets)
        if not isinstance(module, torch.nn.Linear) or is_head or not is_target:
            continue
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, adapter_of(library, module, dropout))
    for name, weight in model.named_parameters():
        weight.requires_grad_("lora_" in name)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [BF16, FP32])
@pytest.mark.parametrize("library, targets", [(library, name) for library, by_name in TARGETS.items()
                                              for name in by_name])
def test_a_block_with_a_librarys_adapters_keeps_what_cairn_says(ask, library, targets, dtype,  # noqa: F811
                                                                dropout):
    dims = DIMS["every head its own keys"]
    names = TARGETS[library][targets]
    model = built(library, dims, "meta", dtype)
    adapt(library, model, names, dropout)
    for module in model.modules():
        if type(module) is torch.nn.RMSNorm:
            module.forward = lambda x, norm=module: FusedRmsNorm.apply(x, norm.weight)
    row = LIBRARIES[library]
    block = row.layers(model)[1]
    x = models.made_like(torch.zeros(BATCH, TOKENS, dims["hidden_size"], dtype=dtype, device="meta"))
    arguments = row.arguments(model, TOKENS)
    with models.gpu_kernels() as random_states:
        left_out = itertools.chain(model.parameters(), row.tables(model), random_states)
        kept = saved_storages(lambda: block(x, **arguments), left_out)
    options = ["--lora", RANK, *(word for name in names for word in ("--lora-targets", name))]
    options += ["--lora-dropout", dropout] if dropout > 0 else []
    shown = ask(library, dims, "show", *options, "--block", 1, dtype=dtype)
    assert kept == cairn_storages(shown)
