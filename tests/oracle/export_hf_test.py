"""`cairn export --to hf` on small models of Transformers: arguments and flags turn on just the layers
that it says, and the gradients are those without checkpoints, bit for bit."""

import copy

import pytest
import torch
from exported import Exporter, check_equal, emitted, gradients

import models

LAYERS = 6


def build(kind, dropout=0.0):
    torch.manual_seed(3)
    return models.build(kind, dtype=torch.float32, dropout=dropout, layers=LAYERS)


SETS = [(), range(LAYERS), (0, 2, 4), (0, 3), (0, 1, 2), (1, 3, 5), (0, 1, 4)]


@pytest.mark.parametrize("layers", SETS, ids=str)
@pytest.mark.parametrize("kind, dropout", [("llama", 0.0), ("gpt2", 0.1), ("qwen3", 0.0)])
def test_sets_of_layers(tmp_path, kind, dropout, layers):
    model = build(kind, dropout)
    answer = Exporter(tmp_path, model, "hf").plan([(layer,) for layer in layers])
    assert answer["verdict"] == "exact"
    runs = [2 if layer in layers else 1 for layer in range(LAYERS)]
    assert [layer["forward_runs"] for layer in answer["layers"]] == runs
    reference = gradients(copy.deepcopy(model))
    check_equal(gradients(model, emitted(answer)["check_plan"]), reference)


@pytest.mark.parametrize("layers", [range(LAYERS), (0, 2, 4), (1, 3, 5), (0, 1, 4)], ids=str)
def test_what_the_trainer_does_turns_on_these_layers(tmp_path, layers):
    """Its call, with the emitted arguments: twice, for the Trainer's and that of a generation."""
    model = build("llama")
    names = emitted(Exporter(tmp_path, model, "hf").plan([(layer,) for layer in layers]))
    if "apply_plan" in names:
        names["apply_plan"](model)
    for _ in range(2):
        options = dict(names["ARGUMENTS"]["gradient_checkpointing_kwargs"])
        every = options.pop("every_n_layers", 1)
        model.gradient_checkpointing_disable()
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options,
                                            every_n_layers=every)
        on = [layer.gradient_checkpointing for layer in models.layers_of(model)]
        assert on == [layer in layers for layer in range(LAYERS)]


def test_every_kth_takes_an_argument_where_it_is_in_phase(tmp_path):
    exporter = Exporter(tmp_path, build("llama"), "hf")
    assert '"every_n_layers": 2' in exporter.plan([(0,), (2,), (4,)])["text"]
    assert "apply_plan" in exporter.plan([(1,), (3,), (5,)])["text"]


@pytest.mark.parametrize("regions", [[(0, 1), (2, 3)], [(0, 5, [(0, 2)])]])
def test_runs_become_a_set_of_no_larger_peak(tmp_path, regions):
    model = build("llama")
    answer = Exporter(tmp_path, model, "hf").plan(regions)
    assert answer["verdict"] == "approximated"
    assert answer["exported"]["peak_bytes"] <= answer["chosen"]["peak_bytes"]
    reference = gradients(copy.deepcopy(model))
    check_equal(gradients(model, emitted(answer)["check_plan"]), reference)
