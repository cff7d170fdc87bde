"""`cairn export --to mlx` on the CPU: gradients are those without checkpoints, and each layer runs as
often as it says."""

import io
import pathlib
import sys

import pytest
import torch
from exported import Exporter, emitted

import models

sys.path.append(str(pathlib.Path(sys.prefix) / "export"))  # export_requirements.txt

import mlx.core as mx
import mlx.nn as nn
import numpy as np

LAYERS, WIDTH = 6, 8

PLANS = {
    "nothing": [],
    "a set": [(0,), (3,), (4,)],
    "runs": [(0, 1), (3, 5)],
    "every layer": [(layer,) for layer in range(6)],
}


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def __call__(self, x, scale):
        return x + scale * self.down(mx.tanh(self.up(x)))


class Model(nn.Module):
    def __init__(self, run):
        super().__init__()
        mx.random.seed(4)
        self.layers = [Layer() for _ in range(LAYERS)]
        self.scale = mx.ones(WIDTH)
        self.run = run

    def __call__(self, x):
        return mx.sum(self.run(self.layers, x, self.scale) ** 2)


def one_by_one(layers, x, scale):
    for layer in layers:
        x = layer(x, scale)
    return x


def gradients(run):
    model = Model(run)
    mx.eval(model.parameters())
    x = mx.random.normal((4, WIDTH), key=mx.random.key(3))
    _, found = nn.value_and_grad(model, lambda x: model(x))(x)
    return found


def tanhs(found):
    """How often the tanh of layers is in the graph that the gradients come from."""
    text = io.StringIO()
    mx.export_to_dot(text, *[value for _, value in nn.utils.tree_flatten(found)])
    return text.getvalue().count('"Tanh"')


@pytest.mark.parametrize("regions", PLANS.values(), ids=PLANS)
def test_mlx(tmp_path, regions):
    model = models.build("llama", dtype=torch.float32, layers=LAYERS)
    answer = Exporter(tmp_path, model, "mlx").plan(regions)
    assert answer["verdict"] == "exact"
    names = emitted(answer)
    found, plain = gradients(names["run_layers"]), gradients(one_by_one)
    assert tanhs(found) == sum(layer["forward_runs"] for layer in answer["layers"])
    found, plain = (dict(nn.utils.tree_flatten(tree)) for tree in (found, plain))
    assert found.keys() == plain.keys() and "scale" in found
    for name, value in plain.items():
        assert mx.abs(value).max() > 0
        np.testing.assert_allclose(np.array(found[name]), np.array(value), rtol=1e-4, atol=1e-5)


def test_nested_runs_are_not_told(tmp_path):
    """An outer recompute there runs the inner regions whole, which no extent of Cairn's is."""
    exporter = Exporter(tmp_path, models.build("llama", dtype=torch.float32, layers=LAYERS), "mlx")
    assert exporter.plan([(0, 2, [(1,)])])["verdict"] != "exact"
