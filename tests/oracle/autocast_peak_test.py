"""The peak of a step under torch.autocast over fp32 weights: torch's CPU allocator against `cairn
simulate`, every byte of difference named.

Cairn counts a GPU's lists. A CPU's leave pow, softmax, layer norms and the loss to the types that
come in (autocast_lists_test.py). In these models that makes no difference: what comes into them is
fp32, or Transformers asks for it. But GPT-2's gelu_new takes a power of 16 bits: it has a gelu here.
"""

import pytest
import torch
from live_bytes import peak_bytes
from peak_test import BATCH, DECODERS, IN_A_LAYER, LARGE_VOCAB, SMALL_VOCAB, TOKENS

import models
import peak_test

BF16, FP32 = torch.bfloat16, torch.float32
GELU = {"gpt2": dict(activation_function="gelu")}
SCALINGS = peak_test.SCALINGS | {"gpt2": (0, 0)}  # gelu_new's three
# With a small vocabulary the peak of these is in forward. A CPU's sum of two types, of scores and a
# mask or of the residual stream and a branch, makes an fp32 copy of the narrow one first
# (ATen/native/TensorIterator.cpp), which no GPU does; and names of Transformers hold tensors.
IN_FORWARD = {("gpt2", "sdpa", "none"), ("gpt2", "eager", "none"), ("qwen3", "eager", "every-layer"),
              ("gemma2", "eager", "none")}


def torch_peak(model):
    """Forward and loss under autocast, backward outside, as trainers run it."""
    ids = torch.randint(0, model.config.vocab_size, (BATCH, TOKENS))
    inputs = {"input_ids": ids, "labels": ids.clone()}

    def step():
        with torch.autocast("cpu", BF16):
            loss = model(**inputs).loss
        loss.backward()

    step()  # libraries allocate on their first call
    model.zero_grad(set_to_none=True)
    resident = [*model.parameters(), *inputs.values()]
    return peak_bytes(step) + sum(tensor.nbytes for tensor in resident)


def cases():
    for kind in DECODERS:
        for vocab in (LARGE_VOCAB, SMALL_VOCAB):
            for attention in ("sdpa", "eager"):
                if vocab == SMALL_VOCAB and (kind, attention) not in IN_A_LAYER:
                    continue
                for plan in ("none", "every-layer"):
                    if vocab == SMALL_VOCAB and (kind, attention, plan) in IN_FORWARD:
                        continue
                    name = f"{kind}, vocabulary {vocab}, {attention}, {plan}"
                    yield pytest.param(kind, vocab, attention, plan, id=name)


@pytest.mark.parametrize("kind, vocab, attention, plan", list(cases()))
def test_the_peak_is_torchs_but_for_named_bytes(cairn_on, kind, vocab, attention, plan):
    dims = peak_test.DIMS.get(kind, {}) | GELU.get(kind, {})
    model = models.build(kind, "cpu", FP32, attention, layers=peak_test.LAYERS, vocab=vocab, **dims)
    if plan == "every-layer":
        models.checkpoint_layers(model)
    measured = torch_peak(model)
    answer = cairn_on(model, "simulate", "--batch", BATCH, "--tokens", TOKENS, "--optimizer", "sgd",
                      "--checkpointing", plan, precision="autocast-bf16")
    explained = peak_test.unmodelled_bytes(model, kind, attention, plan == "every-layer",
                                           in_loss=vocab == peak_test.LARGE_VOCAB,
                                           scalings=SCALINGS)
    if kind == "gpt2" and vocab == SMALL_VOCAB:
        # torch sums a bias's gradient behind the products, where Cairn's step has all three.
        explained -= 2 * model.config.n_embd
    assert measured - answer["peak_bytes"] == explained
