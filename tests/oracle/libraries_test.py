"""Llama as other libraries' code runs it: torchtune, LitGPT, torchtitan against `--library`.

Each library's own modules run on the meta device with a GPU's kernels, as in saved_tensors_test.py, and
on the CPU, whose allocator gives the peak of a step.
"""

import dataclasses
import functools
import itertools
import json
import math
from collections.abc import Callable

import pytest
import torch
from conftest import cairn
from implementations_test import FusedRmsNorm
from live_bytes import peak_bytes, rng_state_bytes
from saved_tensors import cairn_storages, saved_storages, total
from torch.distributed.algorithms._checkpoint import checkpoint_wrapper

import models
from training_libraries import load

BATCH, TOKENS, LAYERS, LONGEST = 2, 32, 2, 256
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
        num_kv_heads=dims["num_key_value_heads"], embed_dim=dims["hidden_size"], max_seq_len=LONGEST,
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
        vocab_size=vocab, padded_vocab_size=vocab, block_size=LONGEST, rotary_percentage=1.0,
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
        n_kv_heads=dims["num_key_value_heads"], vocab_size=vocab, max_seq_len=LONGEST,
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
    def answer(library, dims, command, *options, vocab=64, tokens=TOKENS, dtype=BF16):
        config = dict(dims, model_type="llama", num_hidden_layers=LAYERS, vocab_size=vocab,
                      max_position_embeddings=LONGEST)
        (tmp_path / "config.json").write_text(json.dumps(config))
        precision = {BF16: "bf16", FP32: "fp32"}[dtype]
        return cairn(command, tmp_path / "config.json", "--library", library, "--precision", precision,
                     "--batch", BATCH, "--tokens", tokens, *options)

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


# The MLPs are wide: with a small vocabulary the peak is in one, not in the attention kernel's Backward,
# whose workspace on a CPU is not a GPU's.
WIDE = dict(hidden_size=128, num_attention_heads=8, num_key_value_heads=4, intermediate_size=8192)
# Of these it is in the loss.
NARROW = dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, intermediate_size=256)
SMALL_VOCAB, LARGE_VOCAB = 64, 4000
PLANS = ("none", "every-layer")


def checkpointed(library, model):
    """As torchtune and torchtitan wrap their layers, and Lightning those of LitGPT."""
    wrap = functools.partial(checkpoint_wrapper.checkpoint_wrapper,
                             checkpoint_impl=checkpoint_wrapper.CheckpointImpl.NO_REENTRANT)
    blocks = LIBRARIES[library].layers(model)
    checkpoint_wrapper.apply_activation_checkpointing(
        model, checkpoint_wrapper_fn=wrap, check_fn=lambda module: any(module is b for b in blocks))
    return model


def torch_peak(library, model, loss, tokens=TOKENS):
    """Of the step on the CPU, with parameters, tables, ids and labels."""
    row = LIBRARIES[library]
    ids = torch.randint(0, 64, (BATCH, tokens))
    labels = ids.clone()

    def step():
        loss(model, ids, labels).backward()

    step()  # libraries allocate on their first call
    model.zero_grad(set_to_none=True)
    tables = row.tables(model)
    if library != "torchtune":  # the others make them as long as the samples
        tables = [table[:tokens] for table in tables]
    there = [*model.parameters(), *tables, ids, labels]
    return peak_bytes(step) + sum(tensor.nbytes for tensor in there)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("dims, vocab, tokens", [(WIDE, SMALL_VOCAB, TOKENS),
                                                 (NARROW, LARGE_VOCAB, LONGEST)],
                         ids=["in an MLP", "in the loss"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_the_peak_of_a_step_is_within_1_percent(ask, library, dims, vocab, tokens, plan):
    compare_peaks(ask, library, dims, vocab, tokens, plan, LIBRARIES[library].loss)


def compare_peaks(ask, library, dims, vocab, tokens, plan, loss, *options):
    model = built(library, dims, "cpu", BF16, vocab)
    if plan == "every-layer":
        checkpointed(library, model)
    measured = torch_peak(library, model, loss, tokens)
    answer = ask(library, dims, "simulate", "--optimizer", "sgd", "--checkpointing", plan, *options,
                 vocab=vocab, tokens=tokens)
    difference = measured - answer["peak_bytes"]
    print(library, plan, measured, answer["peak_bytes"], difference, answer["peak_at"])
    difference -= kept_by_norms_of_a_cpu(library, dims, tokens, plan, vocab)
    assert abs(difference) <= 0.01 * measured
    if not options and library != "torchtitan":  # the loss, its gradient or divisor, random states
        assert abs(difference) <= 64 + LAYERS * rng_state_bytes()


def kept_by_norms_of_a_cpu(library, dims, tokens, plan, vocab):
    """torch's norm is one kernel on a GPU only. Spelled out it keeps an fp32 copy and an fp32 product in
    place of its input, which is 16 bits wide and goes: 6 bytes an element of the norms that are live."""
    if library != "torchtitan":
        return 0
    in_loss = {"none": 2 * LAYERS + 1, "every-layer": 1}
    norms = in_loss[plan] if vocab == LARGE_VOCAB else 2  # of the block where the peak is
    return 6 * norms * BATCH * tokens * dims["hidden_size"]


def _torchtune_chunked_loss(model, ids, labels):
    (losses,) = load("torchtune.modules.loss")
    loss = losses.CEWithChunkedOutputLoss()
    model.set_num_output_chunks(loss.num_output_chunks)
    logits = model(ids)
    made = loss(logits, labels)
    del logits
    return made


def _litgpt_chunked_loss(model, ids, labels):
    (utils,) = load("litgpt.utils")
    logits = model(ids, lm_head_chunk_size=128)
    # Lightning's Fabric, which its scripts run the model in, hands out fp32 (lightning 2.1,
    # fabric/wrappers.py: _FabricModule.forward; plugins/precision/utils.py: _convert_fp_tensor).
    logits = [chunk.to(FP32) for chunk in logits]
    return utils.chunked_cross_entropy(logits, labels)


CHUNKED = {"torchtune": _torchtune_chunked_loss, "litgpt": _litgpt_chunked_loss}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("library", CHUNKED)
def test_the_peak_with_a_chunked_loss_is_within_1_percent(ask, library, plan):
    compare_peaks(ask, library, NARROW, LARGE_VOCAB, LONGEST, plan, CHUNKED[library], "--loss",
                  "chunked")


def test_a_compiled_loss_keeps_its_logits_and_two_numbers_a_row():
    # cross_entropy_compiled: torch.compile's partitioner decides, whatever writes the kernels.
    (losses,) = load("torchtune.modules.loss")
    compute = torch.compile(losses.CEWithChunkedOutputLoss().compute_cross_entropy,
                            backend="aot_eager_decomp_partition")
    logits = torch.randn(BATCH * TOKENS, LARGE_VOCAB, dtype=BF16, requires_grad=True) * 1
    labels = torch.randint(0, LARGE_VOCAB, (BATCH * TOKENS,))
    kept = saved_storages(lambda: compute(logits, labels))
    rows = BATCH * TOKENS
    assert kept == {2 * rows * LARGE_VOCAB: 1, 8 * rows: 1, 4 * rows: 2}
