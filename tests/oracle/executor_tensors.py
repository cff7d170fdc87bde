"""What `cairn run --save-tensors` wrote, and how near two tensors are."""

import pathlib

import numpy
import torch
from conftest import run_cairn

MOST_RELATIVE_ERROR = 1e-5  # in float32


class Saved:
    """The tensors of one training step, by Cairn's names."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def __getitem__(self, name):
        return torch.from_numpy(numpy.load(self.folder / f"{name}.npy"))

    def gradient(self, name):
        return self[f"{name}.grad"]

    def has_gradient(self, name):
        return (self.folder / f"{name}.grad.npy").exists()


def saved_tensors(folder, model, *options):
    """Runs one step of the model in fp32; the run is held against its simulation too."""
    run = run_cairn("run", model, "--precision", "fp32", "--steps", 1, "--alone", "--optimizer",
                    "sgd", "--save-tensors", folder, *options)
    assert run.returncode == 0, run.stderr or run.stdout
    return Saved(folder)


def relative_error(found, expected):
    """The largest difference over the largest element."""
    assert found.shape == expected.shape
    scale = expected.detach().abs().max().item()
    difference = (found - expected.detach()).abs().max().item()
    return difference if scale == 0 else difference / scale


def check_near(name, found, expected):
    error = relative_error(found.float(), expected.float())
    assert error <= MOST_RELATIVE_ERROR, f"{name}: relative error {error:.2e}"
