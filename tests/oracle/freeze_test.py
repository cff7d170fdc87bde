"""What is kept for backward where parts of a model are not trained: torch against `cairn --freeze`.

Every family of models.py on the meta device, with a GPU's kernels: the storages that each layer
keeps, and those of the whole model, to the byte.
"""

import collections
import fnmatch
import weakref

import pytest
import torch
from saved_tensors import Kept, cairn_storages, kept_at_the_end_of_forward, total
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

import models

BATCH, TOKENS, LAYERS = 2, 32, 2
BF16 = torch.bfloat16

# Options, in the paths of a family's layers and modules.
FREEZES = {
    "the embeddings": ["--freeze", "*embed*", "--freeze", "*wte", "--freeze", "*wpe"],
    "the first half of the layers": ["--freeze", "{layers}.0"],
    "the embeddings and the first half of the layers": [
        "--freeze", "*embed*", "--freeze", "*wte", "--freeze", "*wpe", "--freeze", "{layers}.0"],
    "all norms": ["--freeze", "*norm*", "--freeze", "*ln_?"],
    "all MLPs": ["--freeze", "*.mlp", "--freeze", "*.fc?"],
    "all but the head": ["--train-only", "lm_head"],
    "all but the norms": ["--train-only", "*norm*", "--train-only", "*ln_?"],
    "all but one layer's attention output": ["--train-only", "{layers}.0.*{output}"],
    "all but one layer's q": ["--train-only", "{layers}.0.*{query}"],
}
QUERY = {"gpt2": "c_attn", "phi3": "qkv_proj", "gpt_neox": "query_key_value",
         "deepseek_v2": "q_proj", "deepseek_v3": "q_a_proj"}
OUTPUT = {"gpt2": "attn.c_proj", "opt": "out_proj", "gpt_neox": "dense"}


def options_of(kind, freeze, model):
    """The options, less patterns that name nothing in this family."""
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    words = {"layers": models.FAMILIES[kind].layers, "query": QUERY.get(kind, "q_proj"),
             "output": OUTPUT.get(kind, "o_proj")}
    pairs = [(option, pattern.format(**words))
             for option, pattern in zip(FREEZES[freeze][::2], FREEZES[freeze][1::2])]
    return [(option, pattern) for option, pattern in pairs
            if any(names_part(pattern, name) for name in names)]


def names_part(pattern, name):
    parts = name.split(".")
    return any(fnmatch.fnmatchcase(".".join(parts[:end]), pattern)
               for end in range(1, len(parts) + 1))


def apply(options, model):
    """Freezes the same of a model; a shared parameter by any of its names."""
    frozen, trained = ({id(parameter)
                        for name, parameter in model.named_parameters(remove_duplicate=False)
                        for option, pattern in options
                        if option == wanted and names_part(pattern, name)}
                       for wanted in ("--freeze", "--train-only"))
    for parameter in model.parameters():
        is_trained = not trained or id(parameter) in trained
        parameter.requires_grad_(is_trained and id(parameter) not in frozen)


def storages_by_layer(model, random_states):
    """Storages kept by each layer, and by all of the model, but for parameters, buffers and what is
    handed to all layers."""
    packed, here, handed = [], [None], []

    def pack(tensor):
        kept = Kept(tensor)
        packed.append((here[0], weakref.ref(kept)))
        return kept

    def enter(layer, named):
        here[0] = layer
        handed.extend(leaf for leaf in torch.utils._pytree.tree_leaves(named)
                      if isinstance(leaf, torch.Tensor))

    for number, layer in enumerate(models.layers_of(model)):
        layer.register_forward_pre_hook(
            lambda module, args, named, number=number: enter(
                number, {k: v for k, v in named.items() if k != "hidden_states"}),
            with_kwargs=True)
        layer.register_forward_hook(lambda *_: here.__setitem__(0, None))
    inputs = models.family_of(model).inputs(model, BATCH, TOKENS)
    with saved_tensors_hooks(pack, lambda kept: kept.tensor), models.meta_answers():
        loss = model(**inputs).loss
    left_out = {tensor.untyped_storage()._cdata for tensor in
                [*model.parameters(), *model.buffers(), *handed, *random_states, *inputs.values()]}
    layers = collections.defaultdict(dict)
    for layer, reference in packed:
        kept = reference()
        if kept is None or kept.tensor.untyped_storage()._cdata in left_out:
            continue
        storage = kept.tensor.untyped_storage()
        layers[layer][storage._cdata] = storage
        layers["all"][storage._cdata] = storage
    del loss
    return {layer: collections.Counter(storage.nbytes() for storage in storages.values())
            for layer, storages in layers.items()}


def cases():
    for kind, family in models.FAMILIES.items():
        for freeze in FREEZES:
            for attention in family.attentions:
                for dropout in (0.0, 0.1) if family.dropouts else (0.0,):
                    name = f"{kind}, {freeze}, {attention}, dropout {dropout}"
                    yield pytest.param(kind, freeze, attention, dropout, id=name)


@pytest.mark.parametrize("kind, freeze, attention, dropout", list(cases()))
def test_what_is_kept_of_a_partly_frozen_model_is_torchs(cairn_on, kind, freeze, attention, dropout):
    model = models.build(kind, "meta", BF16, attention, dropout, layers=LAYERS)
    options = options_of(kind, freeze, model)
    apply(options, model)
    with models.gpu_kernels() as random_states:
        kept = storages_by_layer(model, random_states)
    options = ["--batch", BATCH, "--tokens", TOKENS, *(word for pair in options for word in pair)]
    for layer in range(LAYERS):
        shown = cairn_on(model, "show", *options, "--block", layer)
        assert shown["trainable_parameters"] == sum(
            parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
        counted = cairn_storages(shown)
        for op in shown["ops"]:  # the state of random numbers, which Cairn counts with dropout
            if any(saved["name"].endswith(".rng_state") for saved in op["saved"]):
                counted.subtract([16])
        assert kept.get(layer, {}) == +counted, layer
    answer = cairn_on(model, "simulate", *options, "--checkpointing", "none")
    states = sum(16 for step in answer["steps"] if step["kind"] == "backward" and dropout > 0
                 and attention == "sdpa" and step["op"].endswith(("attn", "attend", "masked")))
    bytes_of = {"labels, which the loss shifts into a tensor of its own": 8 * BATCH * TOKENS,
                "divisor of the mean loss": 4}
    if kind == "opt" and model.model.decoder.embed_positions.weight.requires_grad:
        bytes_of["positions, which OPT shifts into a tensor of its own"] = 8 * BATCH * TOKENS
    difference = total(kept["all"]) - kept_at_the_end_of_forward(answer) + states
    assert difference == sum(bytes_of.values())


@pytest.mark.parametrize("freeze", FREEZES)
@pytest.mark.parametrize("kind, attention", [(kind, attention)
                                             for kind in ("llama", "gpt2", "qwen3", "opt", "mixtral")
                                             for attention in ("sdpa", "eager")])
def test_a_step_of_a_partly_frozen_model_has_the_flops_that_torch_counts(cairn_on, kind, attention,
                                                                         freeze):
    # torch's counter knows no formula for grouped products: experts run as batched ones.
    model = models.build(kind, "meta", BF16, attention, layers=LAYERS, experts="batched_mm")
    pairs = options_of(kind, freeze, model)
    apply(pairs, model)
    with models.gpu_kernels(), FlopCounterMode(display=False) as counter:
        models.train_step(model, BATCH, TOKENS)
    angles = sum(sum(flops.values()) for module, flops in counter.get_flop_counts().items()
                 if module.partition(".")[2] in models.rotary_modules(model))
    options = ["--batch", BATCH, "--tokens", TOKENS, *(word for pair in pairs for word in pair)]
    answer = cairn_on(model, "fit", *options)
    assert answer["step_flops"] == counter.get_total_flops() - angles
