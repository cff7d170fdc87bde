"""torch's own kernels behind `--norm torch`, `--loss torch` and `--loss chunked`, to the byte."""

import pathlib
import re
from unittest import mock

import pytest
import torch
import torchgen
import yaml
from live_bytes import step_peak_bytes
from peak_test import BATCH, TOKENS
from peak_test import build as build_for_peak
from peak_test import unmodelled_bytes
from saved_tensors import cairn_storages
from saved_tensors_test import storages_of_gpu_kernels
from torch.nn import functional

import models

BF16, FP32 = torch.bfloat16, torch.float32
VOCAB = 2000  # large: without checkpoints the peak is at the loss


class FusedRmsNorm(torch.autograd.Function):
    """What torch's kernel saves, by its autograd rule; no backend but CUDA's has the kernel."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight, torch.empty(*x.shape[:-1], 1, device=x.device))
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx, gradient):
        raise NotImplementedError


def test_torchs_fused_norm_saves_its_input_weight_and_second_output():
    # ATen/native/cuda/layer_norm_kernel.cu makes the root of each row, the second output, in fp32.
    rules = pathlib.Path(torchgen.__file__).parent / "packaged" / "autograd" / "derivatives.yaml"
    (rule,) = (rule for rule in yaml.safe_load(rules.read_text())
               if rule["name"].startswith("_fused_rms_norm("))
    used = set(re.findall(r"\b(input|weight|result\d)\b", rule["input, weight"]))
    assert used == {"input", "weight", "result1"}


@pytest.mark.parametrize("kind", ["llama", "qwen3", "phi3", "mixtral"])
def test_a_layer_with_torchs_norm_keeps_what_cairn_says(cairn_on, kind):
    model = models.build(kind, "meta", BF16, **models.FAMILIES[kind].dims)
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = lambda x, norm=module: FusedRmsNorm.apply(x, norm.weight)
    shown = cairn_on(model, "show", "--batch", 2, "--tokens", 32, "--norm", "torch")
    assert storages_of_gpu_kernels(model) == cairn_storages(shown)


def with_loss(model, loss):
    """A step whose loss is not the model's own."""
    def run(input_ids, labels):
        x = model.model(input_ids=input_ids).last_hidden_state
        return mock.Mock(loss=loss(x.view(-1, x.shape[-1]), model.lm_head, labels.view(-1)))

    return mock.Mock(side_effect=run, parameters=model.parameters, zero_grad=model.zero_grad)


LOSSES = {
    "torch": lambda x, head, labels: functional.cross_entropy(head(x), labels),
    "chunked": lambda x, head, labels: functional.linear_cross_entropy(
        x, head.weight, labels, options=torch.nn.LinearCrossEntropyOptions()),
}


# In 16 bits, linear_cross_entropy has other chunks and buffers on a CPU than on CUDA.
@pytest.mark.parametrize("loss, dtype", [("torch", FP32), ("torch", BF16), ("chunked", FP32)])
@pytest.mark.parametrize("plan", ["none", "every-layer"])
def test_the_peak_with_torchs_losses_is_cairns_but_for_named_bytes(cairn_on, loss, dtype, plan):
    model = build_for_peak("llama", dtype, "sdpa", VOCAB)
    if plan == "every-layer":
        models.checkpoint_layers(model)
    ids = torch.randint(0, VOCAB, (BATCH, TOKENS))
    measured = step_peak_bytes(with_loss(model, LOSSES[loss]),
                               {"input_ids": ids, "labels": ids.clone()})
    answer = cairn_on(model, "simulate", "--batch", BATCH, "--tokens", TOKENS, "--optimizer", "sgd",
                      "--checkpointing", plan, "--loss", loss)
    in_loss = answer["peak_at"].split()[-1].startswith("loss")
    explained = unmodelled_bytes(model, "llama", "sdpa", plan == "every-layer", in_loss)
    if in_loss and loss == "chunked":
        explained -= 4  # no divisor of a mean
    if in_loss and dtype == BF16:
        explained -= 4  # the loss's gradient and the divisor are of the logits' type
    assert measured - answer["peak_bytes"] == explained
