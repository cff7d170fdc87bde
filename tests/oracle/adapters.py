"""PEFT's adapters on the small models of models.py, and the options of `cairn` that mean the same.

peft lies in a folder of its own (`./dev` puts it there), beside accelerate, which it imports:
Transformers would use any accelerate that it finds.
"""

import contextlib
import dataclasses
import pathlib
import sys
from unittest import mock

import torch
import transformers  # noqa: F401  before accelerate can be found
from torch._subclasses.fake_tensor import FakeTensor

FOLDER = pathlib.Path(sys.prefix) / "finetune"


def _import_peft():
    sys.path.append(str(FOLDER))
    try:
        import peft
        import peft.tuners.lora  # noqa: F401
    finally:
        sys.path.remove(str(FOLDER))
    return peft


peft = _import_peft()


def _made_anew(module, *arguments, **named):
    for owner in module.modules():
        for name, parameter in owner.named_parameters(recurse=False):
            new = parameter.detach().to(*arguments, **named)
            owner._parameters[name] = torch.nn.Parameter(new, parameter.requires_grad)
    return module


@contextlib.contextmanager
def _parameters_made_anew(model):
    """Module.to() cannot replace parameters that are fake tensors: it makes new ones of them."""
    if not isinstance(next(model.parameters()), FakeTensor):
        yield
        return
    with mock.patch.object(torch.nn.Module, "to", _made_anew):
        yield


@dataclasses.dataclass(frozen=True)
class Adapters:
    rank: int = 8
    targets: tuple | str | None = ("q_proj", "v_proj")  # None: PEFT's own for the model
    dropout: float = 0.0
    fp32: bool = True  # PEFT's autocast_adapter_dtype
    dora: bool = False
    trained: tuple = ()  # modules_to_save

    def options(self):
        """Those of `cairn`."""
        targets = self.targets or ()
        options = ["--lora", self.rank]
        for target in [targets] if isinstance(targets, str) else targets:
            options += ["--lora-targets", target]
        options += ["--lora-dropout", self.dropout] if self.dropout > 0 else []
        options += [] if self.fp32 else ["--lora-dtype", "bf16"]
        options += ["--dora"] if self.dora else []
        for module in self.trained:
            options += ["--lora-train", module]
        return options

    def on(self, model):
        """The model with them; its own modules are replaced in place."""
        targets = list(self.targets) if isinstance(self.targets, tuple) else self.targets
        config = peft.LoraConfig(r=self.rank, lora_alpha=2 * self.rank, target_modules=targets,
                                 lora_dropout=self.dropout, use_dora=self.dora,
                                 modules_to_save=list(self.trained) or None)
        sys.path.append(str(FOLDER))
        try:
            with _parameters_made_anew(model):
                return peft.get_peft_model(model, config, autocast_adapter_dtype=self.fp32)
        finally:
            sys.path.remove(str(FOLDER))


def trained_bytes(model):
    return sum(weight.nbytes for weight in model.parameters() if weight.requires_grad)


def trained_count(model):
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad)


