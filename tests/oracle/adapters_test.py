"""Low-rank adapters as PEFT runs them: what is kept for backward, and how many weights are trained.

Every family of models.py on the meta device, with a GPU's kernels: the storages that each layer
keeps, and those of the whole model, to the byte. adapters_peak_test.py has the steps' peaks.
"""

import pytest
import torch
import transformers
from adapters import Adapters, trained_count
from autocast import autocast, pretended_gpu
from conftest import cairn, refused
from freeze_test import storages_by_layer
from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING
from saved_tensors import cairn_storages, kept_at_the_end_of_forward, total

import models

BATCH, TOKENS, LAYERS = 2, 32, 2
BF16, FP32 = torch.bfloat16, torch.float32
ALL_LINEAR = "all-linear"
# PEFT 0.21.2 takes all-linear of these for the experts' parameters too, under Transformers 5, and fails
# without targets (utils/transformers_weight_conversion.py): Cairn refuses both.
EXPERTS = {"mixtral": ("q_proj", "o_proj"), "qwen3_moe": ("k_proj", "v_proj"),
           "deepseek_v2": ("kv_a_proj_with_mqa", "o_proj"),
           "deepseek_v3": ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "o_proj")}
# Where nothing is asked for PEFT knows what to take of some model types; of the others it asks.
DEFAULTS = {kind: targets
            for kind, targets in TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING.items()
            if kind in (*models.FAMILIES, "bert", "vit", "t5") and kind not in EXPERTS}


def check_kept(cairn_on, model, kept, dropout, attention, options, precision=None):
    for layer in range(LAYERS):
        shown = cairn_on(model, "show", *options, "--block", layer, precision=precision)
        assert shown["trainable_parameters"] == trained_count(model)
        counted = cairn_storages(shown)
        for op in shown["ops"]:  # the state of random numbers, which Cairn counts with dropout
            if any(saved["name"].endswith(".rng_state") for saved in op["saved"]):
                counted.subtract([16])
        assert kept.get(layer, {}) == +counted, layer
    answer = cairn_on(model, "simulate", *options, "--checkpointing", "none", precision=precision)
    states = sum(16 for step in answer["steps"] if step["kind"] == "backward" and dropout > 0
                 and attention == "sdpa" and step["op"].endswith(("attn", "attend", "masked")))
    bytes_of = {"labels, which the loss shifts into a tensor of its own": 8 * BATCH * TOKENS,
                "divisor of the mean loss": 4}
    difference = total(kept["all"]) - kept_at_the_end_of_forward(answer) + states
    assert difference == sum(bytes_of.values())


def cases():
    for kind, family in models.FAMILIES.items():
        asked = (EXPERTS[kind],) if kind in EXPERTS else (ALL_LINEAR,)
        for targets in asked + ((None,) if kind in DEFAULTS else ()):
            for dropout, fp32 in ((0.0, True), (0.05, False)):
                for dtype in family.meta_types:
                    if dtype == FP32 and not fp32:
                        continue
                    name = f"{kind}, {targets}, dropout {dropout}, {dtype}, fp32 {fp32}"
                    yield pytest.param(kind, dtype, Adapters(targets=targets, dropout=dropout,
                                                             fp32=fp32), id=name)


@pytest.mark.parametrize("kind, dtype, adapters", list(cases()))
def test_what_is_kept_with_adapters_is_torchs(cairn_on, kind, dtype, adapters):
    attention = models.FAMILIES[kind].attentions[0]
    model = models.build(kind, "meta", dtype, attention, layers=LAYERS)
    adapters.on(model)
    with models.gpu_kernels() as random_states:
        kept = storages_by_layer(model, random_states)
    options = ["--batch", BATCH, "--tokens", TOKENS, *adapters.options()]
    check_kept(cairn_on, model, kept, 0.0, attention, options)


TARGETS = {
    "q and v": ("q_proj", "v_proj"), "attention": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "one MLP": ("model.layers.1.mlp.gate_proj",), "the head": ("lm_head",), "all": ALL_LINEAR,
}


# Types of the model, and whether its adapters are fp32. PEFT's keep the model's type, or are fp32.
TYPES = [pytest.param(BF16, True, id="bf16, fp32"), pytest.param(BF16, False, id="bf16, bf16"),
         pytest.param(FP32, True, id="fp32, fp32")]
BIASES = {"attention_bias": True, "mlp_bias": True}


@pytest.mark.parametrize("dora", [False, True], ids=["lora", "dora"])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("dtype, fp32", TYPES)
@pytest.mark.parametrize("targets, dims", [(name, {}) for name in TARGETS] + [("all", BIASES)])
def test_llama_with_adapters_keeps_what_cairn_says(cairn_on, targets, dora, dropout, dtype, fp32,
                                                   dims):
    adapters = Adapters(targets=TARGETS[targets], dropout=dropout, fp32=fp32, dora=dora)
    model = models.build("llama", "meta", dtype, "sdpa", layers=LAYERS, **dims)
    adapters.on(model)
    with models.gpu_kernels() as random_states:
        kept = storages_by_layer(model, random_states)
    options = ["--batch", BATCH, "--tokens", TOKENS, *adapters.options()]
    check_kept(cairn_on, model, kept, 0.0, "sdpa", options)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("dtype, fp32", TYPES)
@pytest.mark.parametrize("kind, dora", [("llama", False), ("llama", True), ("gpt2", False),
                                        ("gemma2", False), ("qwen2", True)])
def test_under_autocast_too(cairn_on, kind, dora, dropout, dtype, fp32):
    adapters = Adapters(targets=ALL_LINEAR, dropout=dropout, fp32=fp32, dora=dora)
    with pretended_gpu() as random_states:
        model = models.build(kind, "cuda", dtype, "sdpa", layers=LAYERS)
        adapters.on(model)
        with autocast("cuda", BF16):
            kept = storages_by_layer(model, random_states)
    options = ["--batch", BATCH, "--tokens", TOKENS, *adapters.options()]
    precision = {FP32: "autocast-bf16", BF16: "bf16-autocast"}[dtype]
    check_kept(cairn_on, model, kept, 0.0, "sdpa", options, precision)


@pytest.mark.parametrize("modules", [("lm_head",), ("norm",), ("embed_tokens", "lm_head")],
                         ids=lambda modules: ", ".join(modules))
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_modules_that_are_trained_whole_are_copies(cairn_on, modules, tied):
    adapters = Adapters(trained=modules)
    model = models.build("llama", "meta", BF16, "sdpa", layers=LAYERS, tie_word_embeddings=tied)
    adapters.on(model)
    with models.gpu_kernels() as random_states:
        kept = storages_by_layer(model, random_states)
    options = ["--batch", BATCH, "--tokens", TOKENS, *adapters.options()]
    check_kept(cairn_on, model, kept, 0.0, "sdpa", options)
    shown = cairn_on(model, "show", *options)
    assert shown["parameters"] == sum(weight.numel() for weight in model.parameters())
    assert shown["parameter_bytes"] == sum(weight.nbytes for weight in model.parameters())


def encoders():
    small = dict(hidden_size=64, num_attention_heads=4, intermediate_size=96, num_hidden_layers=2)
    t5 = dict(d_model=64, num_heads=4, d_kv=16, d_ff=96, num_layers=2)
    return {
        "bert": transformers.BertForMaskedLM(transformers.BertConfig(**small)),
        "bert, classes": transformers.BertForSequenceClassification(transformers.BertConfig(**small)),
        "vit": transformers.ViTForImageClassification(transformers.ViTConfig(**small)),
        "t5": transformers.T5ForConditionalGeneration(transformers.T5Config(**t5)),
        "t5, gated": transformers.T5ForConditionalGeneration(
            transformers.T5Config(**t5, feed_forward_proj="gated-gelu")),
    }


@pytest.mark.parametrize("targets", [None, ALL_LINEAR])
@pytest.mark.parametrize("name", ["bert", "bert, classes", "vit", "t5", "t5, gated"])
def test_encoders_have_adapters_where_peft_puts_them(tmp_path, name, targets):
    with torch.device("meta"):
        model = encoders()[name]
    model.config.architectures = [type(model).__name__]
    model.config.to_json_file(tmp_path / "config.json")
    adapters = Adapters(targets=targets)
    if targets is None and model.config.model_type not in DEFAULTS:
        assert "PEFT has no default" in refused("show", tmp_path / "config.json", *adapters.options())
        return
    adapters.on(model)
    shown = cairn("show", tmp_path / "config.json", *adapters.options())
    # all-linear leaves out the head that makes words, and a classifier only where a task_type says
    # that it is one, as Cairn does in any case.
    classifier = 0
    if targets == ALL_LINEAR and hasattr(model, "classifier"):
        classifier = adapters.rank * (64 + model.config.num_labels)
    assert shown["trainable_parameters"] == trained_count(model) - classifier


@pytest.mark.parametrize("kind", models.FAMILIES)
def test_without_targets_it_is_what_peft_takes(cairn_on, tmp_path, kind):
    model = models.build(kind, "meta", attention=models.FAMILIES[kind].attentions[0])
    if kind in DEFAULTS:
        assert cairn_on(model, "show", "--lora", 8)["adapters"]["targets"] == DEFAULTS[kind]
        return
    with pytest.raises(ValueError):
        Adapters(targets=None).on(model)
    model.config.to_json_file(tmp_path / "config.json")
    assert "PEFT has no default" in refused("show", tmp_path / "config.json", "--lora", 8)


@pytest.mark.parametrize("kind", ("deepseek_v2", "deepseek_v3"))
def test_deepseeks_queries_may_be_one_layer(cairn_on, kind):
    model = models.build(kind, "meta", layers=LAYERS, q_lora_rank=None)
    adapters = Adapters(targets=("q_proj",))
    adapters.on(model)
    shown = cairn_on(model, "show", *adapters.options())
    assert shown["trainable_parameters"] == trained_count(model)


def test_a_target_that_is_trained_whole_leaves_none_to_adapt(tmp_path):
    model = models.build("llama", "meta", layers=LAYERS)
    adapters = Adapters(targets=("q_proj",), trained=("q_proj",))
    with pytest.raises(ValueError, match="No modules were targeted for adaptation"):
        adapters.on(model)
    model.config.to_json_file(tmp_path / "config.json")
    assert "none is left to have an adapter" in refused("show", tmp_path / "config.json",
                                                        *adapters.options())


@pytest.mark.parametrize("kind", EXPERTS)
def test_adapters_of_experts_parameters_are_refused(tmp_path, kind):
    model = models.build(kind, "meta", layers=2)  # the first may have no experts
    Adapters(targets=ALL_LINEAR).on(model)
    assert any(type(module).__name__ == "ParamWrapper" for module in model.modules())
    model.config.to_json_file(tmp_path / "config.json")
    message = refused("show", tmp_path / "config.json", "--lora", 8, "--lora-targets", ALL_LINEAR)
    assert "for its experts' parameters too" in message
