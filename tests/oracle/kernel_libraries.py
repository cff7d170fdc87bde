"""Liger-Kernel and Apple's Cut Cross-Entropy, with kernels that do nothing.

What these libraries allocate, save for backward and write gradients over is decided by their Python
code around Triton kernels, and a kernel allocates nothing. So that code runs here as it is installed
(`./dev` puts it into a folder of its own, kernels_requirements.txt), with a Triton in its place whose
kernels return at once: any device will do, and no number that they compute means anything.
"""

import importlib
import importlib.abc
import importlib.machinery
import pathlib
import sys
import types
from unittest import mock

import torch
import torch.profiler  # before the stand-in: torch looks for Triton where it is first used
import torch.utils.flop_counter  # noqa: F401

FOLDER = pathlib.Path(sys.prefix) / "kernels"


class _Kernel:
    """A function under @triton.jit: kernel[grid](...) does nothing."""

    def __init__(self, function=None, **_):
        del function

    def __getitem__(self, grid):
        return lambda *arguments, **named: None


class _Name:
    """Types, constants and functions that kernels alone use."""

    def __init__(self, value=None):
        self.value = value

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name()

    def __call__(self, *arguments, **named):
        return _Name(*arguments[:1])

    def __or__(self, other):  # in a type hint
        return self


class _Config:
    def __init__(self, *arguments, **named):
        pass

    def all_kwargs(self):
        return {}


class _Module(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name()


class _StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds triton and all modules in it."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] != "triton":
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        if module.__name__ != "triton":
            return
        module.__version__ = "3.9.0"
        module.jit = lambda function=None, **_: _Kernel(function)
        module.heuristics = module.autotune = lambda *_, **__: lambda kernel: kernel
        module.Config = _Config
        module.cdiv = lambda a, b: -(-a // b)
        module.next_power_of_2 = lambda n: 1 << (n - 1).bit_length()


def _load(*names):
    stand_in = _StandIn()
    sys.meta_path.insert(0, stand_in)
    sys.path.append(str(FOLDER))
    try:
        with mock.patch.object(torch, "compile", lambda *_, **__: lambda function: function):
            return [importlib.import_module(name) for name in names]
    finally:
        sys.path.remove(str(FOLDER))
        sys.meta_path.remove(stand_in)
        for name in [name for name in sys.modules if name.split(".")[0] == "triton"]:
            del sys.modules[name]


_norm, _layer_norm, _swiglu, _geglu, _rope, _loss, _fused, cut_cross_entropy = _load(
    *(f"liger_kernel.ops.{name}" for name in ("rms_norm", "layer_norm", "swiglu", "geglu", "rope",
                                              "cross_entropy", "fused_linear_cross_entropy")),
    "cut_cross_entropy")


def rms_norm(x, weight, gemma=False, in_place=True):
    offset, casting = (1.0, "gemma") if gemma else (0.0, "llama")
    return _norm.LigerRMSNormFunction.apply(x, weight, 1e-6, offset, casting, in_place)


def layer_norm(x, weight, bias):
    return _layer_norm.LigerLayerNormFunction.apply(x, weight, bias, 1e-6)


def swiglu(gate, up):
    return _swiglu.LigerSiLUMulFunction.apply(gate, up)


def geglu(gate, up):
    return _geglu.LigerGELUMulFunction.apply(gate, up)


def rope(q, k, cos, sin, unsqueeze_dim=1):
    return _rope.LigerRopeFunction.apply(q, k, cos, sin, None, unsqueeze_dim)


def cross_entropy(logits, labels, ignore_index=-100, reduction="mean"):
    return _loss.LigerCrossEntropyFunction.apply(logits, labels, None, ignore_index)[0]


def fused_linear_cross_entropy(x, weight, labels, bias=None):
    return _fused.LigerFusedLinearCrossEntropyFunction.apply(x, weight, labels, bias)[0]


def cut_linear_cross_entropy(x, weight, labels):
    return cut_cross_entropy.linear_cross_entropy(x, weight, labels)
