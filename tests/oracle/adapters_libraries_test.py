"""torchtune's and LitGPT's own low-rank adapters beside the layers of their models, against
`cairn --library`: what a block keeps, on the meta device with a GPU's kernels, and under autocast on a
pretended GPU; the peak of a step, on the CPU."""

import contextlib
import itertools
import json

import pytest
import torch
from autocast import autocast, pretended_gpu
from conftest import cairn
from libraries_test import (BATCH, BF16, CHUNKED, DIMS, FP32, LARGE_VOCAB, LAYERS, LIBRARIES,
                            LONGEST, NARROW, SMALL_VOCAB, TOKENS, WIDE, FusedRmsNorm,
                            ask, built, torch_peak)  # noqa: F401
from saved_tensors import cairn_storages, saved_storages, total

import models
from training_libraries import load

RANK = 8
HEADS = DIMS | {"one head's keys for all": DIMS["grouped heads"] | {"num_key_value_heads": 1}}
TORCHTUNE = {"q and v": ["q_proj", "v_proj"], "all but the head": ["all-linear"]}
LITGPT = {
    "q and v": ["query", "value"], "q, k and v": ["qkv"], "k": ["key"], "k and v": ["key", "value"],
    "output": ["attn.proj"], "MLP": ["fc_1", "fc_2", "mlp.proj"], "all but the head": ["all-linear"],
}
PARTS = ("query", "key", "value")  # of LitGPT's one layer
CASES = [("torchtune", TORCHTUNE[name], DIMS["every head its own keys"]) for name in TORCHTUNE]
CASES += [("litgpt", LITGPT[name], dims) for name in LITGPT for dims in HEADS.values()]


def litgpt_adapter(linear, parts, dims, dropout):
    """Of the layer of q, k and v with adapters of some of them, else of the whole."""
    (lora,) = load("litgpt.lora")
    shape = dict(in_features=linear.in_features, out_features=linear.out_features, r=RANK, lora_alpha=16,
                 lora_dropout=dropout, bias=False)
    if parts is None:
        return lora.LoRALinear(**shape)
    heads = dims["num_attention_heads"]
    return lora.LoRAQKVLinear(**shape, head_size=dims["hidden_size"] // heads, n_head=heads,
                              n_query_groups=dims["num_key_value_heads"],
                              enable_lora=tuple(part in parts for part in PARTS))


def adapter_of(library, path, linear, targets, dims, dropout):
    """None where no target names the layer or a part of it."""
    ends = [path, *(f"{path}.{part}" for part in PARTS)] if path.endswith(".qkv") else [path]
    named = [end for end in ends if any(end.endswith(f".{name}") for name in targets)]
    if path in ("output", "lm_head") or not (named or targets == ["all-linear"]):
        return None
    if library == "torchtune":
        (lora,) = load("torchtune.modules.peft.lora")
        return lora.LoRALinear(linear.in_features, linear.out_features, RANK, 16, dropout)
    is_whole = path in named or targets == ["all-linear"]
    parts = PARTS if is_whole else [end.rpartition(".")[2] for end in named]
    return litgpt_adapter(linear, parts if path.endswith(".qkv") else None, dims, dropout)


@contextlib.contextmanager
def made_like(weight):
    """Modules are made with parameters of its type and on its device."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(weight.dtype)
    try:
        with weight.device:
            yield
    finally:
        torch.set_default_dtype(default)


def adapt(library, model, targets, dims, dropout):
    """Puts adapters beside the linear layers that the targets name; all else is frozen."""
    model.requires_grad_(False)
    for path, module in list(model.named_modules()):
        if not isinstance(module, torch.nn.Linear):
            continue
        with made_like(module.weight):
            adapter = adapter_of(library, path, module, targets, dims, dropout)
        if adapter is not None:
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, adapter)
    for name, weight in model.named_parameters():
        weight.requires_grad_("lora_" in name)


def options_of(targets, dropout):
    options = ["--lora", RANK, *(word for name in targets for word in ("--lora-targets", name))]
    return options + (["--lora-dropout", dropout] if dropout > 0 else [])


def kept_by_a_block(library, model, dims, dtype):
    row = LIBRARIES[library]
    block = row.layers(model)[1]
    x = models.made_like(torch.zeros(BATCH, TOKENS, dims["hidden_size"], dtype=dtype, device="meta"))
    arguments = row.arguments(model, TOKENS)
    with models.gpu_kernels() as random_states:
        left_out = itertools.chain(model.parameters(), row.tables(model), random_states)
        return saved_storages(lambda: block(x, **arguments), left_out)


@pytest.mark.parametrize("dropout", [0.0, 0.05])
@pytest.mark.parametrize("dtype", [BF16, FP32])
@pytest.mark.parametrize("library, targets, dims", CASES)
def test_a_block_with_a_librarys_adapters_keeps_what_cairn_says(ask, library, targets, dims,  # noqa: F811
                                                                dtype, dropout):
    model = built(library, dims, "meta", dtype)
    adapt(library, model, targets, dims, dropout)
    for module in model.modules():
        if type(module) is torch.nn.RMSNorm:
            module.forward = lambda x, norm=module: FusedRmsNorm.apply(x, norm.weight)
    kept = kept_by_a_block(library, model, dims, dtype)
    shown = ask(library, dims, "show", *options_of(targets, dropout), "--block", 1, dtype=dtype)
    assert kept == cairn_storages(shown)


@pytest.mark.parametrize("dropout", [0.0, 0.05])
@pytest.mark.parametrize("dims", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("targets", [LITGPT["q and v"], LITGPT["q, k and v"], ["key", "fc_1", "proj"]])
def test_a_block_under_autocast_keeps_what_cairn_says(tmp_path, targets, dims, dropout):
    row = LIBRARIES["litgpt"]
    with pretended_gpu() as random_states:
        model = built("litgpt", dims, "cuda", FP32)
        adapt("litgpt", model, targets, dims, dropout)
        x = torch.zeros(BATCH, TOKENS, dims["hidden_size"], device="cuda", requires_grad=True) * 1
        left_out = itertools.chain(model.parameters(), row.tables(model), random_states)
        with autocast("cuda", BF16):
            kept = saved_storages(
                lambda: row.layers(model)[1](x, **row.arguments(model, TOKENS)), left_out)
    (tmp_path / "config.json").write_text(json.dumps(dict(
        dims, model_type="llama", num_hidden_layers=LAYERS, vocab_size=64,
        max_position_embeddings=LONGEST)))
    shown = cairn("show", tmp_path / "config.json", "--library", "litgpt", "--precision",
                  "autocast-bf16", "--batch", BATCH, "--tokens", TOKENS,
                  *options_of(targets, dropout), "--block", 1)
    # Where heads are grouped the parts of a weight are cast one by one.
    is_one_cast = dims["num_key_value_heads"] == dims["num_attention_heads"] or "key" in targets
    counted = cairn_storages(shown)
    assert kept == counted if is_one_cast else total(kept) == total(counted)


PEAK_CASES = [("torchtune", TORCHTUNE["q and v"]), ("litgpt", LITGPT["q and v"]),
              ("litgpt", LITGPT["q, k and v"]), ("litgpt", LITGPT["all but the head"])]


# Without dropout, whose mask has 2 bytes an element on a CPU.
@pytest.mark.parametrize("library, targets", PEAK_CASES)
@pytest.mark.parametrize("dims, vocab, tokens", [(WIDE, SMALL_VOCAB, TOKENS),
                                                 (NARROW, LARGE_VOCAB, LONGEST)],
                         ids=["in an MLP", "in the loss"])
def test_the_peak_of_a_step_with_adapters_is_torchs(ask, library, targets, dims, vocab, tokens):  # noqa: F811
    model = built(library, dims, "cpu", BF16, vocab)
    adapt(library, model, targets, dims, dropout=0.0)
    measured = torch_peak(library, model, CHUNKED[library], tokens)
    measured += sum(buffer.nbytes for name, buffer in model.named_buffers() if name.endswith("_lora_ind"))
    answer = ask(library, dims, "simulate", "--optimizer", "sgd", "--loss", "chunked",
                 *options_of(targets, 0.0), vocab=vocab, tokens=tokens)
    difference = measured - answer["peak_bytes"]
    print(library, targets, measured, answer["peak_bytes"], difference, answer["peak_at"])
    # The loss, its gradient, the scale of each adapter; in the loss labels too, as without adapters.
    scales = 8 * sum(hasattr(module, "scaling") or hasattr(module, "alpha") for module in model.modules())
    allowed = 0.01 * measured if vocab == LARGE_VOCAB else 8 + scales
    assert abs(difference) <= allowed
