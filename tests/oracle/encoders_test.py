"""Encoders and encoder-decoders of Transformers against Cairn: counts, saved tensors, FLOPs."""

import itertools

import pytest
import torch
import transformers
from live_bytes import step_peak_bytes
from saved_tensors import cairn_storages, kept_at_the_end_of_forward, saved_storages, total
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode

import models

BATCH, TOKENS, IMAGE = 2, 32, 64
BF16, FP32 = torch.bfloat16, torch.float32

# A flash kernel keeps the state of its random numbers, 16 bytes, whatever the dropout, and an
# unused scalar. Cairn counts the state where there is dropout.
RNG_STATE, UNUSED = 16, 8

BERT = dict(hidden_size=64, num_attention_heads=4, intermediate_size=96, num_hidden_layers=2,
            vocab_size=100)
VIT = dict(hidden_size=64, num_attention_heads=4, intermediate_size=96, num_hidden_layers=2,
           image_size=IMAGE, patch_size=8)

# name: (model class, dims of its config, the layers' path)
ENCODERS = {
    "bert, words": ("BertForMaskedLM", BERT, "bert.encoder.layer"),
    "bert, words, untied, relu": ("BertForMaskedLM",
                                  BERT | dict(tie_word_embeddings=False, hidden_act="relu"),
                                  "bert.encoder.layer"),
    "bert, classes": ("BertForSequenceClassification", BERT, "bert.encoder.layer"),
    "bert, 5 classes": ("BertForSequenceClassification", BERT | dict(num_labels=5),
                        "bert.encoder.layer"),
    "vit": ("ViTForImageClassification", VIT, "vit.layers"),
    "vit, 7 classes, no biases": ("ViTForImageClassification",
                                  VIT | dict(num_labels=7, qkv_bias=False, hidden_act="gelu_new"),
                                  "vit.layers"),
}


def build(name, dtype=BF16, attention="sdpa", dropout=0.0, device="meta"):
    kind, dims, _ = ENCODERS[name]
    model_type = getattr(transformers, kind)
    config = model_type.config_class(**dims, hidden_dropout_prob=dropout, architectures=[kind],
                                     attention_probs_dropout_prob=dropout,
                                     attn_implementation=attention)
    with torch.device(device):
        return models.of_type(model_type(config), dtype).train()


def inputs_of(model):
    if type(model).__name__.startswith("ViT"):
        pixels = torch.zeros(BATCH, 3, IMAGE, IMAGE, device=model.device, dtype=model.dtype)
        return {"pixel_values": pixels, "labels": torch.zeros(BATCH, device=model.device).long()}
    ids = torch.zeros(BATCH, TOKENS, device=model.device, dtype=torch.long)
    labels = ids[:, 0] if "Sequence" in type(model).__name__ else ids
    return {"input_ids": ids, "token_type_ids": ids.clone(), "labels": labels.clone()}


def ask(cairn_on, model, command, *options, **named):
    sizes = ["--batch", BATCH]
    if not type(model).__name__.startswith("ViT"):
        sizes += ["--tokens", TOKENS]
    return cairn_on(model, command, *sizes, *options, **named)


def arguments_of_first_layer(model, name):
    layer, seen = model.get_submodule(ENCODERS[name][2])[0], {}
    hook = layer.register_forward_pre_hook(
        lambda _, positional, named: seen.update(positional=positional, named=named),
        with_kwargs=True)
    with torch.no_grad(), models.meta_answers():
        model(**inputs_of(model))
    hook.remove()
    hidden, *others = seen["positional"]
    return layer, [models.made_like(hidden), *others], seen["named"]


def kept_by(model, run, shared):
    with models.gpu_kernels():
        kept = saved_storages(run, itertools.chain(model.parameters(), model.buffers(), shared))
    return kept


@pytest.mark.parametrize("name", ENCODERS)
def test_a_model_has_the_parameters_that_torch_counts(cairn_on, name):
    model = build(name)
    shown = ask(cairn_on, model, "simulate")
    expected = sum(weight.numel() for weight in model.parameters())
    if "untied" in name:  # a second bias of the words, which nothing reads
        expected -= BERT["vocab_size"]
    assert shown["parameters"] == expected


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("dtype", [BF16, FP32])
@pytest.mark.parametrize("name", ENCODERS)
def test_a_layer_keeps_what_cairn_says(cairn_on, name, dtype, attention, dropout):
    model = build(name, dtype, attention, dropout)
    layer, positional, named = arguments_of_first_layer(model, name)
    shared = [leaf for leaf in pytree.tree_leaves((positional[1:], named))
              if isinstance(leaf, torch.Tensor)]
    kept = kept_by(model, lambda: layer(*positional, **named), shared)
    if attention == "sdpa":
        kept.subtract([UNUSED] if dropout > 0 else [RNG_STATE, UNUSED])
    shown = ask(cairn_on, model, "show")
    assert kept == cairn_storages(shown)
    assert shown["saved_bytes"] == total(kept)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ENCODERS)
def test_a_model_keeps_what_cairn_says(cairn_on, name, attention):
    model = build(name, FP32, attention, dropout=0.1)
    given = inputs_of(model)
    with models.meta_answers():
        kept = kept_by(model, lambda: model(**given).loss, given.values())
    expected = total(kept) - 4  # the divisor of nll_loss's mean
    if attention == "sdpa":
        expected -= UNUSED * model.config.num_hidden_layers
    answer = ask(cairn_on, model, "simulate", "--checkpointing", "none")
    assert kept_at_the_end_of_forward(answer) == expected


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ENCODERS)
def test_a_step_has_the_flops_that_torch_counts(cairn_on, name, attention):
    model = build(name, FP32, attention, dropout=0.1)
    with models.gpu_kernels(), models.meta_answers(), FlopCounterMode(display=False) as counter:
        model(**inputs_of(model)).loss.backward()
    answer = ask(cairn_on, model, "fit")
    assert answer["step_flops"] == counter.get_total_flops()


@pytest.mark.parametrize("name", ENCODERS)
def test_a_step_on_a_cpu_peaks_where_cairn_says(cairn_on, name):
    model = build(name, FP32, "eager", device="cpu")
    peak = step_peak_bytes(model, inputs_of(model))
    expected = ask(cairn_on, model, "simulate", "--optimizer", "sgd")["peak_bytes"]
    expected += 4 + 4  # divisor of the mean loss, gradient of the loss
    # Eager attention's scale, a tensor, and three factors of gelu_new.
    factors = 1 + 3 * (model.config.hidden_act == "gelu_new")
    expected += 8 * factors * model.config.num_hidden_layers
    if name.startswith("bert"):
        expected -= 8 * TOKENS  # positions: a buffer of the model, an input to Cairn
    if "untied" in name:  # a second bias of the words, which nothing reads
        expected += 4 * BERT["vocab_size"]
    assert peak == expected
