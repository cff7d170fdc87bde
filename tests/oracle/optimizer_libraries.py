"""Optimizers as users make them: Transformers' Trainer, bitsandbytes, torchao, lion-pytorch.

bitsandbytes steps by kernels that get pointers: its Python code for a GPU runs here, with kernels
that do nothing, so that what it allocates is seen. torchao compiles its step, and what a compiled
step allocates is not of its source: it runs as written here, for its states alone.
"""

import contextlib
import importlib.util
import pathlib
import sys
from unittest import mock

import torch

FOLDER = pathlib.Path(sys.prefix) / "finetune"  # finetune_requirements.txt
sys.path.append(str(FOLDER))

with mock.patch.object(torch._C, "_cuda_getCurrentRawStream", lambda _: 0, create=True):
    import bitsandbytes
    import bitsandbytes.backends.cuda.ops as kernels

import transformers.trainer
import transformers.trainer_optimizer
import transformers.utils
from lion_pytorch import Lion
from transformers import Trainer, TrainingArguments


def trainers_own(optim, folder):
    """The optimizer that Transformers' Trainer makes for `--optim`."""
    def make(model):
        for is_available in (transformers.utils.is_bitsandbytes_available,
                             transformers.utils.is_torchao_available):
            getattr(is_available, "cache_clear", lambda: None)()
        arguments = TrainingArguments(output_dir=folder, optim=optim, use_cpu=True,
                                      report_to="none")
        return [Trainer(model=model, args=arguments).create_optimizer()]

    return make


def muon(model, **loop):
    """Muon of hidden matrices, then AdamW of tables, head, norms and biases."""
    others = {model.get_input_embeddings().weight, model.get_output_embeddings().weight}
    others |= {m.weight for m in model.modules() if isinstance(m, torch.nn.Embedding)}
    hidden = [p for p in model.parameters() if p.ndim == 2 and p not in others]
    rest = [p for p in model.parameters() if p.ndim != 2 or p in others]
    return [torch.optim.Muon(hidden), torch.optim.AdamW(rest, **loop)]


def in_order_of_use(model):
    """Parameters in the order in which Cairn has them: that of the forward pass."""
    used = {}
    hooks = [module.register_forward_pre_hook(
        lambda module, _: used.update(dict.fromkeys(module.parameters(recurse=False))))
        for module in model.modules()]
    with torch.no_grad():
        model(torch.zeros(1, 2, dtype=torch.long))
    for hook in hooks:
        hook.remove()
    assert used.keys() == set(model.parameters())
    return list(used)


def of_all(make, **named):
    return lambda model: [make(in_order_of_use(model), **named)]


lion = of_all(Lion)


def any_precision_adamw(model, dtype):
    """AnyPrecisionAdamW, which Transformers' Trainer has from torchdistx, as llama-recipes has it;
    from its file, since the package around it imports what no oracle needs."""
    name = "llama_recipes.policies.anyprecision_optimizer"
    path = (FOLDER / name.replace(".", "/")).with_suffix(".py")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return of_all(module.AnyPrecisionAdamW, momentum_dtype=dtype, variance_dtype=dtype)(model)


@contextlib.contextmanager
def idle_kernels():
    """bitsandbytes' steps as on a GPU, by kernels that return at once; torchao's uncompiled."""
    nothing = (lambda *_: None,) * 3
    ops = torch.ops.bitsandbytes
    with contextlib.ExitStack() as patches:
        for table in (kernels.str2optimizer32bit, kernels.str2optimizer8bit_blockwise):
            patches.enter_context(mock.patch.dict(table, {name: nothing for name in table}))
        for name, run in (("8bit_blockwise", kernels._optimizer_update_8bit_blockwise_impl),
                          ("32bit", kernels._optimizer_update_32bit_impl)):
            patches.enter_context(mock.patch.object(ops, f"optimizer_update_{name}", run))
        patches.enter_context(
            mock.patch.object(torch, "compile", lambda run=None, **_: run))
        yield


def storages(value):
    """The tensors that a state is made of, those inside quantised ones."""
    if not torch.is_tensor(value):
        return []
    if hasattr(value, "tensor_attrs"):
        return [part for name in value.tensor_attrs for part in storages(getattr(value, name))]
    return [value]


def state_bytes(optimizers):
    """(bytes of states, a storage once; bytes of step counts and other numbers)."""
    seen, states, numbers = set(), 0, 0
    for optimizer in optimizers:
        for state in optimizer.state.values():
            for value in state.values():
                for tensor in storages(value):
                    if tensor.data_ptr() in seen:
                        continue
                    seen.add(tensor.data_ptr())
                    if tensor.ndim == 0:
                        numbers += tensor.nbytes
                    else:
                        states += tensor.nbytes
    return states, numbers
