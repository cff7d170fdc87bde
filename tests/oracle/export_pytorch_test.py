"""`cairn export --to pytorch` on small models of Transformers: what it emits runs, each layer as often
as it says, and the gradients are those without checkpoints, bit for bit."""

import copy

import pytest
import torch
from exported import Exporter, check_equal, emitted, gradients

import models

LAYERS = 6


def build(kind, dropout=0.0):
    torch.manual_seed(3)
    return models.build(kind, dtype=torch.float32, dropout=dropout, layers=LAYERS)


def check(model, answer):
    """The plan's own check counts; the gradients are compared here."""
    reference = gradients(copy.deepcopy(model))
    check_equal(gradients(model, emitted(answer)["check_plan"]), reference)


def runs(answer):
    return [layer["forward_runs"] for layer in answer["layers"]]


FAMILIES = [("llama", 0.0), ("gpt2", 0.0), ("gpt2", 0.1), ("qwen3", 0.0), ("gemma2", 0.0)]

# Regions, and how often each layer runs.
PLANS = {
    "nothing": ([], [1, 1, 1, 1, 1, 1]),
    "a set": ([(0,), (3,), (4,)], [2, 1, 1, 2, 2, 1]),
    "every second": ([(0,), (2,), (4,)], [2, 1, 2, 1, 2, 1]),
    "the first four": ([(0,), (1,), (2,), (3,)], [2, 2, 2, 2, 1, 1]),
    "runs": ([(0, 1), (3, 5)], [2, 2, 1, 2, 2, 2]),
    "a layer in a run": ([(0, 2, [(1,)])], [2, 3, 2, 1, 1, 1]),
    "nested runs": ([(0, 5, [(0, 3, [(0, 1)]), (4, 5)])], None),
}


@pytest.mark.parametrize("regions, expected", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("kind, dropout", FAMILIES)
def test_layers(tmp_path, kind, dropout, regions, expected):
    model = build(kind, dropout)
    answer = Exporter(tmp_path, model, "pytorch").plan(regions)
    assert answer["verdict"] == "exact"
    if expected is not None:
        assert runs(answer) == expected
    check(model, answer)


@pytest.mark.parametrize("strategy", ["every-layer", "uniform:2", "uniform:4", "sqrt"])
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_strategies(tmp_path, kind, strategy):
    model = build(kind)
    answer = Exporter(tmp_path, model, "pytorch").export("--checkpointing", strategy)
    assert answer["verdict"] == "exact"
    check(model, answer)


PARTS = {
    "the MLP of each": [(f"layers.{i}.norm2.square", f"layers.{i}.mlp.down") for i in range(LAYERS)],
    "attention of some": [(f"layers.{i}.norm1.square", f"layers.{i}.h") for i in (0, 2, 5)],
    "an MLP in a layer": [(0, 0, [("layers.0.norm2.square", "layers.0.mlp.down")])],
}


@pytest.mark.parametrize("regions", PARTS.values(), ids=PARTS)
def test_parts_of_layers(tmp_path, regions):
    model = build("llama")
    answer = Exporter(tmp_path, model, "pytorch").plan(regions)
    assert answer["verdict"] == "exact"
    check(model, answer)


def products_of_backward(model, answer):
    """How often each linear layer of layer 0 multiplies its input by its weight, after forward."""
    counts = {}
    names = emitted(answer)
    linear = {module.weight: name for name, module in model.named_modules()
              if isinstance(module, torch.nn.Linear) and ".0." in name}

    class Products(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), kwargs=None):
            if function is torch.ops.aten.mm.default and in_backward:
                for weight, name in linear.items():
                    # Forward multiplies by the transposed weight: a view of its storage.
                    right = arguments[1]
                    if right.data_ptr() == weight.data_ptr() and right.shape == weight.T.shape \
                            and right.stride() == weight.T.stride():
                        counts[name] = counts.get(name, 0) + 1
            return function(*arguments, **(kwargs or {}))

    in_backward = []
    names["apply_plan"](model)
    ids = torch.zeros(2, 16, dtype=torch.long)
    with Products():
        loss = model(input_ids=ids, labels=ids).loss
        in_backward.append(True)
        loss.backward()
    return counts


def test_what_is_kept_is_not_computed_again(tmp_path):
    model = build("llama")
    exporter = Exporter(tmp_path, model, "pytorch")
    keep = ["layers.0.attn.q", "layers.0.mlp.gate", "layers.0.attn.attend",
            "layers.0.attn.attend.logsumexp"]
    answer = exporter.plan([(0, 0, [], keep), (1,)])
    assert answer["verdict"] == "exact", answer["reason"]
    check(copy.deepcopy(model), answer)
    again = products_of_backward(model, answer)
    path = "model.layers.0."
    assert path + "self_attn.q_proj" not in again and path + "mlp.gate_proj" not in again
    assert again[path + "self_attn.k_proj"] == 1 and again[path + "mlp.up_proj"] == 1


@pytest.mark.parametrize("kind", ["llama", "gpt2", "qwen3"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_the_best_plan_runs(tmp_path, kind, share):
    """Within a budget that allows some of what every-layer saves to be kept."""
    model = build(kind)
    exporter = Exporter(tmp_path, model, "pytorch")
    every = exporter.export("--checkpointing", "every-layer")
    least, most = every["exported"]["peak_bytes"], every["keep_all_peak_bytes"]
    assert least < most
    budget = int(least + share * (most - least))
    answer = exporter.export("--best", "--budget", f"{budget}B")
    assert answer["exported"]["peak_bytes"] <= budget
    assert answer["exported"]["slowdown"] <= every["exported"]["slowdown"]
    check(model, answer)


def test_modules_that_do_not_follow_each_other_are_found_out(tmp_path):
    model = build("llama")
    names = emitted(Exporter(tmp_path, model, "pytorch").plan([(0, 1)]))
    names["RUNS"] = [(["model.layers.0", "model.layers.2"], [], False)]
    names["apply_plan"](model)
    with pytest.raises(RuntimeError, match="not called with what the one before"):
        gradients(model)
