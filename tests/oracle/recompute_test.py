"""What a checkpointed layer runs again, and when: torch.utils.checkpoint against the R steps."""

import collections

import pytest
import torch

import models

LAYERS, BATCH, TOKENS = 3, 2, 16

# Modules of a layer, by the op of Cairn's family that ends them.
LLAMA = {"norm1": "input_layernorm", "attn.q": "self_attn.q_proj", "attn.k": "self_attn.k_proj",
         "attn.v": "self_attn.v_proj", "attn.o": "self_attn.o_proj",
         "norm2": "post_attention_layernorm", "mlp.gate": "mlp.gate_proj", "mlp.up": "mlp.up_proj",
         "mlp.down": "mlp.down_proj"}
GPT2 = {"norm1": "ln_1", "qkv": "attn.c_attn", "o": "attn.c_proj", "norm2": "ln_2",
        "up": "mlp.c_fc", "act.gelu_new.out": "mlp.act", "down": "mlp.c_proj"}
GPT2_DROPOUTS = {"attn_drop": "attn.resid_dropout", "mlp_drop": "mlp.dropout"}


DIMS = {"llama": dict(hidden_size=32, intermediate_size=48), "gpt2": dict(n_embd=32)}


def build(kind, dropout=0.0):
    attention = "sdpa" if kind == "llama" else "eager"
    return models.build(kind, attention=attention, dropout=dropout, layers=LAYERS, **DIMS[kind])


def modules_of(kind, dropout):
    return LLAMA if kind == "llama" else GPT2 | (GPT2_DROPOUTS if dropout > 0 else {})


def events_of_backward(model, names):
    """In order: ("R", layer, module) for what runs again, ("B", layer, module) for the gradient of
    the last module's output."""
    events = []
    in_backward = [False]

    def watch(layer, number, name):
        def ran(module, *_):
            if in_backward[0]:
                events.append(("R", number, name))

        def made(module, inputs, output):
            if output.requires_grad and not in_backward[0]:
                output.register_hook(lambda gradient: events.append(("B", number, name)))

        module = layer.get_submodule(name)
        if isinstance(module, torch.nn.Dropout):
            # The stop comes when the last mask is saved: made, but the module does not return.
            module.register_forward_pre_hook(ran)
        else:
            module.register_forward_hook(ran)
        if name == names[-1]:
            module.register_forward_hook(made)

    for number, layer in enumerate(models.layers_of(model)):
        for name in names:
            watch(layer, number, name)
    ids = torch.zeros(BATCH, TOKENS, dtype=torch.long)
    loss = model(input_ids=ids, labels=ids).loss
    in_backward[0] = True
    loss.backward()
    return events


def simulated_recomputes(cairn_on, model, extent, modules):
    steps = cairn_on(model, "simulate", "--batch", BATCH, "--tokens", TOKENS, "--checkpointing",
                     "every-layer", "--extent", extent)["steps"]
    recomputes = []
    for step in steps:
        _, _, number_and_op = (step["op"] or "").partition(".")
        number, _, op = number_and_op.partition(".")
        if step["kind"] == "recompute" and op in modules:
            recomputes.append(("R", int(number), modules[op]))
    return recomputes


CASES = [("llama", 0.0), ("gpt2", 0.0), ("gpt2", 0.1)]


@pytest.mark.parametrize("reentrant, extent", [(False, "prefix"), (True, "whole")])
@pytest.mark.parametrize("kind, dropout", CASES)
def test_the_modules_that_run_again_are_those_of_the_extent(cairn_on, kind, dropout, reentrant,
                                                            extent):
    model = build(kind, dropout)
    models.checkpoint_layers(model, reentrant)
    modules = modules_of(kind, dropout)
    events = events_of_backward(model, list(modules.values()))
    finished = [event for event in events if event[0] == "R"]
    assert finished == simulated_recomputes(cairn_on, model, extent, modules)
    # The literal of it: without reentrance, a last module that saves only its inputs stops short.
    last = list(modules.values())[-1]
    stops_short = not reentrant and dropout == 0
    counts = collections.Counter(name for _, _, name in finished)
    expected = dict.fromkeys(modules.values(), LAYERS)
    if stops_short:
        del expected[last]
    assert counts == expected


def test_a_layer_is_rebuilt_after_the_backward_of_its_last_add(cairn_on):
    """The add at the end of a layer saves nothing: its gradient is there before the recompute."""
    model = build("llama")
    models.checkpoint_layers(model)
    events = events_of_backward(model, list(LLAMA.values()))
    # In torch the layer's inner graph is that of the first forward, so the gradient of down_proj's
    # output, which the add hands on, comes before the first module that runs again.
    for number in range(LAYERS):
        of_layer = [event for event in events if event[1] == number]
        assert of_layer[0] == ("B", number, "mlp.down_proj")
        assert of_layer[1] == ("R", number, "input_layernorm")
    steps = cairn_on(model, "simulate", "--batch", BATCH, "--tokens", TOKENS, "--checkpointing",
                     "every-layer")["steps"]
    texts = [f"{step['kind'][0].upper()} {step['op']}" for step in steps if step["op"]]
    for number in range(LAYERS):
        first_recompute = next(text for text in texts if text.startswith(f"R layers.{number}."))
        assert texts[texts.index(first_recompute) - 1] == f"B layers.{number}.x"
