"""`cairn export` to what wraps the layers of a model (fsdp, lightning, accelerate): what it emits
runs, each layer as often as planned, and the gradients are those without checkpoints, bit for bit."""

import collections
import copy
import functools
import pathlib
import sys
import types

import pytest
import torch
import yaml
from exported import Exporter, check_equal, emitted, gradients
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
    checkpoint_wrapper,
)

import models

LAYERS = 6
SETS = [range(LAYERS), (0, 2, 4), (1, 3, 5), (0, 1, 4), ()]


def build(kind="llama", dropout=0.0):
    torch.manual_seed(3)
    return models.build(kind, dtype=torch.float32, dropout=dropout, layers=LAYERS)


def runs_of(layers):
    return [2 if layer in layers else 1 for layer in range(LAYERS)]


def check_runs(model, layers):
    """Of a model that the trainer has prepared, with or without wrappers around its layers."""
    runs = collections.Counter()

    def turn_on(model, step):
        for number, layer in enumerate(models.layers_of(model)):
            inner = getattr(layer, "_checkpoint_wrapped_module", layer)
            inner.register_forward_pre_hook(functools.partial(lambda i, *_: runs.update([i]), number))
        step()

    found = gradients(model, turn_on)
    assert [runs[number] for number in range(LAYERS)] == runs_of(layers)
    return {name.replace("_checkpoint_wrapped_module.", ""): gradient
            for name, gradient in found.items()}


@pytest.fixture
def one_rank(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous",
                                         rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("kind, dropout", [("llama", 0.0), ("gpt2", 0.1)])
@pytest.mark.parametrize("layers", SETS, ids=str)
def test_fsdp(tmp_path, kind, dropout, layers):
    model = build(kind, dropout)
    answer = Exporter(tmp_path, model, "fsdp").plan([(layer,) for layer in layers])
    assert answer["verdict"] == "exact"
    assert [layer["forward_runs"] for layer in answer["layers"]] == runs_of(layers)
    reference = gradients(copy.deepcopy(model))
    found = gradients(model, emitted(answer)["check_plan"])
    check_equal({name.replace("_checkpoint_wrapped_module.", ""): gradient
                 for name, gradient in found.items()}, reference)


def test_fsdp_says_when_a_layer_runs_otherwise(tmp_path):
    model = build()
    names = emitted(Exporter(tmp_path, model, "fsdp").plan([(0,), (3,)]))
    names["LAYER_RUNS"]["model.layers.3"] = 1
    with pytest.raises(AssertionError, match="model.layers.3"):
        gradients(model, names["check_plan"])


def step_of(model):
    generator = torch.Generator().manual_seed(7)
    ids = torch.randint(0, model.config.vocab_size, (2, 64), generator=generator)
    return lambda: model(input_ids=ids, labels=ids).loss.backward()


def test_fsdp_before_fully_shard(tmp_path, one_rank):
    model = build()
    names = emitted(Exporter(tmp_path, model, "fsdp").plan([(0,), (3,)]))
    names["apply_plan"](model)
    mesh = torch.distributed.init_device_mesh("cpu", (1,))
    for layer in models.layers_of(model):
        torch.distributed.fsdp.fully_shard(layer, mesh=mesh)
    names["check_plan"].__globals__["apply_plan"] = lambda model: None
    names["check_plan"](model, step_of(model))


def test_fsdp_behind_fully_sharded_data_parallel(tmp_path, one_rank):
    model = build()
    names = emitted(Exporter(tmp_path, model, "fsdp").plan([(0,), (3,)]))
    layer = type(models.layers_of(model)[0])
    sharded = torch.distributed.fsdp.FullyShardedDataParallel(
        model, device_id=torch.device("cpu"), use_orig_params=True,
        auto_wrap_policy=torch.distributed.fsdp.wrap.ModuleWrapPolicy({layer}))
    names["check_plan"](sharded, step_of(model))


@pytest.mark.parametrize("layers", SETS, ids=str)
def test_lightning_policy(tmp_path, layers):
    """The call that FSDPStrategy makes of the policy (lightning 2.6.6, fabric/strategies/fsdp.py), of
    a module that holds the model."""
    model = build()
    reference = gradients(copy.deepcopy(model))
    policy = emitted(Exporter(tmp_path, model, "lightning").plan([(i,) for i in layers]))["plan_policy"]
    holder = torch.nn.Module()
    holder.network = model
    apply_activation_checkpointing(holder, checkpoint_wrapper_fn=checkpoint_wrapper,
                                   auto_wrap_policy=policy(model))
    check_equal(check_runs(model, layers), reference)


@pytest.fixture
def accelerate(monkeypatch):
    folder = pathlib.Path(sys.prefix) / "finetune"
    assert (folder / "accelerate").is_dir(), "./dev python installs it"
    monkeypatch.syspath_prepend(str(folder))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "accelerate"]:
        del sys.modules[name]


@pytest.mark.parametrize("layers", [range(LAYERS), ()], ids=str)
def test_accelerate(tmp_path, monkeypatch, accelerate, layers):
    """Its own plugin, of the emitted lines as its launcher hands them on, and its own wrapping."""
    from accelerate.utils.dataclasses import FullyShardedDataParallelPlugin
    from accelerate.utils.fsdp_utils import fsdp2_apply_ac

    model = build()
    reference = gradients(copy.deepcopy(model))
    answer = Exporter(tmp_path, model, "accelerate").plan([(layer,) for layer in layers])
    assert answer["verdict"] == "exact"
    for key, value in yaml.safe_load(answer["text"])["fsdp_config"].items():
        name = key.removeprefix("fsdp_").upper()
        monkeypatch.setenv(f"FSDP_{name}", str(value).lower() if value in (True, False) else str(value))
    plugin = FullyShardedDataParallelPlugin()
    assert plugin.fsdp_version == 2
    assert plugin.activation_checkpointing == bool(layers)
    plugin.set_auto_wrap_policy(model)
    model.config.use_cache = False
    if plugin.activation_checkpointing:
        accelerator = types.SimpleNamespace(state=types.SimpleNamespace(fsdp_plugin=plugin))
        model = fsdp2_apply_ac(accelerator, model)
    check_equal(check_runs(model, layers), reference)


@pytest.mark.parametrize("target", ["accelerate", "fsdp", "lightning"])
def test_runs_of_layers_become_another_plan_of_no_larger_peak_or_none(tmp_path, target):
    exporter = Exporter(tmp_path, build(), target)
    answer = exporter.plan([(0, 1), (2, 3)])
    assert answer["verdict"] == "approximated"
    assert answer["exported"]["peak_bytes"] <= answer["chosen"]["peak_bytes"]
