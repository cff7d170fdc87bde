"""`cairn export --to torchtune` beside torchtune: its own functions, told what its recipes would read
of the emitted lines, recompute the layers of the plan, and the gradients are those without
checkpoints, bit for bit. (torchtitan is exported to as of a version that the oracles do not install.)"""

import collections
import copy
import functools
import json

import libraries_test
import pytest
import torch
import yaml
from libraries_test import BATCH, DIMS, FP32, LIBRARIES, TOKENS, ask, built  # noqa: F401

from training_libraries import load

LAYERS, VOCAB = 6, 64
DIMENSIONS = DIMS["grouped heads"]


@pytest.fixture(autouse=True)
def more_layers(monkeypatch):
    monkeypatch.setattr(libraries_test, "LAYERS", LAYERS)


def apply_as_the_recipe(config, model):
    """As recipes/full_finetune_distributed.py of torchtune 0.6.1 does."""
    memory, activations, modules = load("torchtune.training.memory", "torchtune.training.activations",
                                        "torchtune.modules")
    vars(activations.checkpoint_wrapper).pop("_count", None)  # of layers in this process
    is_on, mode = config.get("enable_activation_checkpointing", False), config.get("ac_mode")
    if not is_on and mode is not None:
        activations.apply_selective_activation_checkpointing(model, mode, config.get("ac_option"))
    if is_on and mode is None:
        memory.set_activation_checkpointing(
            model, auto_wrap_policy={modules.TransformerSelfAttentionLayer})


def step(model):
    """Gradients, and how often each layer runs."""
    runs = collections.Counter()
    for number, layer in enumerate(model.layers):
        inner = getattr(layer, "_checkpoint_wrapped_module", layer)
        inner.register_forward_pre_hook(functools.partial(lambda i, *_: runs.update([i]), number))
    ids = torch.arange(BATCH * TOKENS).reshape(BATCH, TOKENS) % VOCAB
    LIBRARIES["torchtune"].loss(model, ids, ids).backward()
    gradients = {name.replace("_checkpoint_wrapped_module.", ""): parameter.grad
                 for name, parameter in model.named_parameters()}
    return gradients, [runs[number] for number in range(len(model.layers))]


@pytest.mark.parametrize("plan", ["none", "every-layer", *(f"every {k}" for k in range(2, LAYERS))])
def test_torchtune(ask, tmp_path, plan):  # noqa: F811
    exported = functools.partial(ask, "torchtune", DIMENSIONS, "export", vocab=VOCAB, dtype=FP32)
    chosen = ["--checkpointing", plan]
    if plan.startswith("every "):
        k = int(plan.split()[1])
        every = json.loads(exported("--checkpointing", "every-layer", "--to", "json")["text"])
        regions = [{"first": region["first_op"], "last": region["last_op"]}
                   for region in every["regions"][k - 1::k]]
        path = tmp_path / "plan.json"
        path.write_text(json.dumps({"cairn_plan": 1, "name": plan, "regions": regions}))
        chosen = ["--plan", path]
    answer = exported(*chosen, "--to", "torchtune")
    assert answer["verdict"] == "exact"
    torch.manual_seed(5)
    model = built("torchtune", DIMENSIONS, "cpu", FP32, vocab=VOCAB)
    expected, _ = step(copy.deepcopy(model))
    apply_as_the_recipe(yaml.safe_load(answer["text"]), model)
    found, runs = step(model)
    assert runs == [layer["forward_runs"] for layer in answer["layers"]]
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
