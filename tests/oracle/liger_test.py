"""Liger's and Apple's kernels in small models of Transformers: what a layer keeps, and the peak of a
step, against Cairn's `--norm`, `--rope`, `--mlp` and `--loss`. The libraries' own Python code runs, and
their kernels do nothing (kernel_libraries.py)."""

import contextlib
import functools
import inspect
from unittest import mock

import pytest
import torch
from live_bytes import peak_bytes, step_peak_bytes
from peak_test import BATCH as PEAK_BATCH
from peak_test import TOKENS as PEAK_TOKENS
from peak_test import build as build_for_peak
from peak_test import unmodelled_bytes
from saved_tensors import cairn_storages, saved_storages
from saved_tensors_test import shown_block, storages_of_gpu_kernels
from transformers.loss import loss_utils

import kernel_libraries as kernels
import models

BF16, FP32 = torch.bfloat16, torch.float32
GEMMAS = ("gemma", "gemma2", "gemma3_text")


def patched_norm(kind, module, x):
    # Gemma 2 and 3: transformers/monkey_patch.py, in_place=False.
    return kernels.rms_norm(x, module.weight, gemma=kind in GEMMAS, in_place=kind in ("gemma",)
                            or kind not in GEMMAS)


def patched_mlp(kind, module, x):
    if kind == "phi3":
        gate, up = module.gate_up_proj(x).chunk(2, dim=-1)
        return module.down_proj(kernels.swiglu(gate, up))
    gated = kernels.geglu if kind in GEMMAS else kernels.swiglu
    return module.down_proj(gated(module.gate_proj(x), module.up_proj(x)))


@contextlib.contextmanager
def liger(model, kind, options):
    """Puts Liger's kernels into a model, as its own apply_liger_kernel_to_... does."""
    for module in model.modules():
        name = type(module).__name__
        if "--norm" in options and name.endswith("RMSNorm"):
            module.forward = functools.partial(patched_norm, kind, module)
        if "--mlp" in options and name.endswith("MLP"):
            module.forward = functools.partial(patched_mlp, kind, module)
    with contextlib.ExitStack() as stack:
        if "--rope" in options:
            source = inspect.getmodule(type(model))
            stack.enter_context(mock.patch.object(
                source, "apply_rotary_pos_emb",
                lambda q, k, cos, sin, *_, **__: kernels.rope(q, k, cos, sin)))
        if options.get("--loss") == "liger":
            stack.enter_context(mock.patch.object(loss_utils.nn.functional, "cross_entropy",
                                                  kernels.cross_entropy))
        yield


def flat(options):
    return [word for pair in options.items() for word in pair]


NORM, ROPE, MLP = {"--norm": "liger"}, {"--rope": "liger"}, {"--mlp": "liger"}
LAYERS = [
    ("llama", NORM), ("llama", ROPE), ("llama", MLP), ("llama", NORM | ROPE | MLP),
    ("mistral", NORM | ROPE | MLP), ("qwen2", NORM | ROPE | MLP), ("qwen3", NORM | ROPE | MLP),
    ("gemma", NORM | ROPE | MLP), ("gemma2", NORM | ROPE | MLP), ("gemma3_text", NORM | ROPE | MLP),
    ("phi3", NORM), ("phi3", MLP), ("phi3", NORM | MLP),
    ("mixtral", NORM | ROPE), ("gpt_oss", NORM),
]


@pytest.mark.parametrize("kind, options", LAYERS, ids=str)
def test_a_layer_with_ligers_kernels_keeps_what_cairn_says(cairn_on, kind, options):
    attention = models.FAMILIES[kind].attentions[0]
    model = models.build(kind, "meta", BF16, attention, **models.FAMILIES[kind].dims)
    shown = cairn_on(model, "show", "--batch", 2, "--tokens", 32, *flat(options))
    with liger(model, kind, options):
        kept = storages_of_gpu_kernels(model)
    assert kept == cairn_storages(shown)


def head_and_loss(model, loss):
    """A step whose loss has the head in itself."""
    def run(input_ids, labels):
        hidden = model.model(input_ids=input_ids).last_hidden_state
        value = loss(hidden.view(-1, hidden.shape[-1]), model.lm_head.weight, labels.view(-1))
        return mock.Mock(loss=value)

    return mock.Mock(side_effect=run, parameters=model.parameters, zero_grad=model.zero_grad)


def test_a_loss_in_place_keeps_the_logits_alone():
    logits = torch.zeros(64, 100, device="cpu", dtype=FP32, requires_grad=True)
    labels = torch.zeros(64, dtype=torch.long)
    assert saved_storages(lambda: kernels.cross_entropy(logits, labels)) == {logits.nbytes: 1}
    loss = kernels.cross_entropy(logits, labels)
    loss.backward()  # which hands on the tensor that forward wrote over
    assert logits.grad.data_ptr() == logits.data_ptr()


@pytest.mark.parametrize("head_trains", [True, False])
def test_a_fused_loss_keeps_the_gradients_that_it_made_in_forward(head_trains):
    x = torch.zeros(64, 16, dtype=BF16, requires_grad=True)
    weight = torch.zeros(100, 16, dtype=BF16, requires_grad=head_trains)
    labels = torch.zeros(64, dtype=torch.long)
    kept = saved_storages(lambda: kernels.fused_linear_cross_entropy(x, weight, labels))
    assert sorted(kept.elements()) == sorted([x.nbytes] + [weight.nbytes] * head_trains)


def test_a_cut_loss_keeps_its_inputs_and_two_rows_of_statistics():
    x = torch.zeros(64, 16, dtype=BF16, requires_grad=True)
    weight = torch.zeros(100, 16, dtype=BF16, requires_grad=True)
    labels = torch.zeros(64, dtype=torch.long)
    kept = saved_storages(lambda: kernels.cut_linear_cross_entropy(x, weight, labels))
    logsumexp, mean_logits = 4 * 64, 4 * 100
    assert sorted(kept.elements()) == sorted(
        [x.nbytes, weight.nbytes, labels.nbytes, logsumexp, mean_logits])


@pytest.mark.parametrize("head_trains, rows", [(True, 512), (False, 512), (False, 8)])
def test_backward_of_a_cut_loss_makes_the_gradients_an_order_of_classes_and_locks(head_trains, rows):
    # graph/ops/linear_losses.cc: what is sorted is gone when the gradients are made.
    classes, features = 1000, 100
    x = torch.zeros(rows, features, dtype=BF16, requires_grad=True)
    weight = torch.zeros(classes, features, dtype=BF16, requires_grad=head_trains)
    loss = kernels.cut_linear_cross_entropy(x, weight, torch.zeros(rows, dtype=torch.long))
    gradients = x.nbytes + weight.nbytes * head_trains
    locks = 4 * 2 * -(-rows // 2) + 4 * 2 * -(-classes // 2)  # ceil(100 / 64) = 2 columns
    cpus_own = 8 * classes  # which its sort takes beside values and positions
    in_sort, in_kernel = (4 + 8) * classes + cpus_own, gradients + 4 * classes + locks
    gradient_of_the_loss = 4
    assert peak_bytes(loss.backward) == max(in_sort, in_kernel) + gradient_of_the_loss


def test_a_layer_norm_keeps_its_input_and_two_statistics():
    x = torch.zeros(64, 16, dtype=BF16, requires_grad=True)
    weight, bias = (torch.zeros(16, dtype=BF16, requires_grad=True) for _ in range(2))
    kept = saved_storages(lambda: kernels.layer_norm(x, weight, bias), [weight, bias])
    assert sorted(kept.elements()) == sorted([x.nbytes, 4 * 64, 4 * 64])


BATCH, TOKENS = PEAK_BATCH, PEAK_TOKENS
LARGE_VOCAB, SMALL_VOCAB = 2000, 64
LOSSES = ("liger", "fused-linear", "cut")
PEAKS = [(options, vocab, dtype, plan)
         for options, vocab in [(NORM, SMALL_VOCAB), (ROPE, SMALL_VOCAB), (MLP, SMALL_VOCAB),
                                (NORM | ROPE | MLP, SMALL_VOCAB), (NORM | ROPE | MLP, LARGE_VOCAB),
                                *(({"--loss": loss}, LARGE_VOCAB) for loss in LOSSES)]
         for dtype in (FP32, BF16) for plan in ("none", "every-layer")
         if options != {"--loss": "cut"} or dtype == BF16]  # it takes no fp32
# Where gate and up have no gradients of their own, the peak may be in the attention kernel, whose
# workspace on a CPU is not a GPU's.
IN_ATTENTION = [(MLP, SMALL_VOCAB, BF16, "every-layer"),
                (NORM | ROPE | MLP, SMALL_VOCAB, BF16, "none"),
                (NORM | ROPE | MLP, SMALL_VOCAB, BF16, "every-layer")]
PEAKS = [case for case in PEAKS if case not in IN_ATTENTION]


def explained_bytes(model, answer, loss, dtype, plan, vocab):
    """What torch has out at the step that Cairn says is the peak, and Cairn does not count."""
    in_loss = answer["peak_at"].split()[-1].startswith(("loss", "logits"))
    explained = unmodelled_bytes(model, "llama", "sdpa", plan == "every-layer", in_loss)
    if answer["peak_at"] == "forward of loss":
        rows = BATCH * TOKENS
        explained -= 8  # the gradient of the loss and the mean's divisor come later
        explained += 8 * BATCH * (TOKENS + 1) + 8 * rows  # labels, padded and shifted
        explained += (1 + 8 + 8) * rows  # Liger looks at labels: which count, and a product
        explained -= 4  # the loss comes after that
    return explained


def fallback_bytes(model, dtype):
    """Liger's fused loss makes a weight's gradient in place on a GPU only. Elsewhere it makes each
    chunk's, and where that is not fp32, an fp32 copy of it, and two for a sum of mixed types."""
    elements = model.lm_head.weight.numel()
    return 4 * elements if dtype == FP32 else 12 * elements


@pytest.mark.parametrize("options, vocab, dtype, plan", PEAKS, ids=str)
def test_the_peak_with_ligers_kernels_is_cairns_but_for_named_bytes(cairn_on, options, vocab, dtype,
                                                                    plan):
    model = build_for_peak("llama", dtype, "sdpa", vocab)
    if plan == "every-layer":
        models.checkpoint_layers(model)
    loss = options.get("--loss")
    step = model
    if loss in ("fused-linear", "cut"):
        step = head_and_loss(model, kernels.fused_linear_cross_entropy if loss == "fused-linear"
                             else kernels.cut_linear_cross_entropy)
    ids = torch.randint(0, vocab, (BATCH, TOKENS))
    with liger(model, "llama", options):
        measured = step_peak_bytes(step, {"input_ids": ids, "labels": ids.clone()})
    answer = cairn_on(model, "simulate", "--batch", BATCH, "--tokens", TOKENS, "--optimizer", "sgd",
                      "--checkpointing", plan, *flat(options))
    expected = answer["peak_bytes"] + explained_bytes(model, answer, loss, dtype, plan, vocab)
    if loss == "fused-linear":
        forward = next(step["during_bytes"] for step in answer["steps"]
                       if step["op"] == "loss" and step["kind"] == "forward")
        checkpoints = 0 if plan == "none" else unmodelled_bytes(
            model, "llama", "sdpa", True, in_loss=True) - 8
        loss_itself = 4  # Cairn counts it with the chunk's products; it comes after them
        expected = max(expected, forward + fallback_bytes(model, dtype) - loss_itself + checkpoints)
    assert measured == expected
