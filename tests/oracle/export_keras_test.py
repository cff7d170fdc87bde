"""`cairn export --to keras`: the scope recomputes the planned layers and no others, on the backends
jax and torch, and the gradients are those of a model made outside of it."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import torch
from exported import Exporter

import models

LAYERS = 6
RUN = pathlib.Path(__file__).parent / "export_keras_run.py"


@pytest.mark.parametrize("layers", [[0, 3, 4], [], range(LAYERS)], ids=["a set", "none", "all"])
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_layers_run_as_often_as_planned(tmp_path, backend, layers):
    model = models.build("llama", dtype=torch.float32, layers=LAYERS)
    answer = Exporter(tmp_path, model, "keras").plan([(layer,) for layer in layers])
    assert answer["verdict"] == "exact"
    path = tmp_path / "exported.py"
    path.write_text(answer["text"])
    run = subprocess.run([sys.executable, RUN, backend, path], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["runs"] == [layer["forward_runs"] for layer in answer["layers"]]
    for a, b in zip(found["gradients"], found["plain"], strict=True):
        assert np.abs(b).max() > 0
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6 * np.abs(b).max())
    missing = "expected one layer 'transformer_layer_0', found 0"
    not_made = [f"'block_{layers[0]}' was not made in plan_scope"] if layers else []
    assert found["failures"] == [*not_made, missing]
