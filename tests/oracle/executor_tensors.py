"""What `cairn run --save-tensors` wrote, and how near two tensors are."""

import pathlib
import re

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


def other_name(ours, patterns):
    """What the other program calls it: of (pattern, what stands for it) the first that fits."""
    for pattern, theirs in patterns:
        match = re.match(pattern, ours)
        if match is not None:
            return match.expand(theirs) + ours[match.end():]
    return None


def names_of(saved, patterns):
    """Cairn's name of each parameter that has a gradient, by the other program's."""
    found = {}
    for path in saved.folder.glob("*.grad.npy"):
        ours = path.name.removesuffix(".grad.npy")
        theirs = other_name(ours, patterns)
        assert theirs is not None, f"nothing of the other program stands for {ours}"
        assert theirs not in found, f"{theirs} is {found.get(theirs)} and {ours}"
        found[theirs] = ours
    return found


def stands_for(saved, patterns, theirs):
    """Cairn's name of the other program's parameter."""
    names = [path.name.removesuffix(".npy") for path in saved.folder.glob("*.npy")]
    found = [ours for ours in names if other_name(ours, patterns) == theirs]
    assert len(found) == 1, f"{theirs} is one of {found}"
    return found[0]


def check_zero(name, found, expected, beside):
    """A gradient that is zero but for rounding, of both: beside the other of its module."""
    largest = max(found.abs().max().item(), expected.abs().max().item())
    assert largest <= MOST_RELATIVE_ERROR * beside.abs().max().item(), f"{name}: {largest:.2e}"


def check_model(saved, model, patterns, loss_of, arranged=None, zero=()):
    """Loss and every gradient of `model` with the weights that Cairn drew. Of some parameters both
    programs have another order: `arranged` makes theirs of ours. Biases whose names end in one of
    `zero` have a gradient of zero: without rotary positions, those of keys, for a softmax does not
    change with what is added to all scores of a query."""
    parameters = dict(model.named_parameters())
    names = names_of(saved, patterns)
    assert set(names) == set(parameters)

    def arrange(theirs, tensor):
        tensor = tensor if arranged is None else arranged(theirs, tensor)
        return tensor.reshape(parameters[theirs].shape)

    with torch.no_grad():
        for theirs, ours in names.items():
            parameters[theirs].copy_(arrange(theirs, saved[ours]))
    loss = loss_of(model)
    loss.backward()
    check_near("the loss", saved["loss"].reshape(()), loss)
    for theirs, ours in names.items():
        found = arrange(theirs, saved.gradient(ours))
        if theirs.endswith(tuple(zero)):
            weight = parameters[theirs.removesuffix("bias") + "weight"]
            check_zero(theirs, found, parameters[theirs].grad, weight.grad)
        else:
            check_near(theirs, found, parameters[theirs].grad)
