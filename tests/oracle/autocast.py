"""torch.autocast as a GPU has it, in a torch without one.

Fake tensors on a pretended CUDA device dispatch as real ones do: to AutocastCUDA, whose lists are
compiled into every build of torch, to autograd, and to meta kernels. No list is written down here.
"""

import contextlib
import ctypes
import pathlib
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from transformers import masking_utils
from transformers.initialization import no_init_weights

import models

_CUDA, _META = 1, 14  # c10/core/DeviceType.h


def _pretend_cuda_has_a_device_guard():
    """autograd asks a tensor's device for its stream. A CPU build has no guard for CUDA; the meta
    device's does nothing, and answers."""
    library = ctypes.CDLL(str(pathlib.Path(torch.__file__).parent / "lib" / "libc10.so"))
    guards = (ctypes.c_void_p * (_META + 1)).in_dll(library,
                                                    "_ZN3c104impl26device_guard_impl_registryE")
    assert guards[_META] is not None
    if guards[_CUDA] is None:
        guards[_CUDA] = guards[_META]


@contextlib.contextmanager
def autocast(device, dtype=torch.bfloat16, enabled=True):
    """torch.autocast(device, dtype), also for a CUDA device that is only pretended."""
    before = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    torch.set_autocast_enabled(device, enabled)
    torch.set_autocast_dtype(device, dtype)
    torch.autocast_increment_nesting()
    try:
        yield
    finally:
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()
        torch.set_autocast_enabled(device, before[0])
        torch.set_autocast_dtype(device, before[1])


@contextlib.contextmanager
def pretended_gpu(kernels=models.gpu_kernels):
    """Tensors made on device "cuda" are fake; attention and dropout go to a GPU's `kernels`. Yields
    what attention kernels keep of their random numbers."""
    _pretend_cuda_has_a_device_guard()
    with FakeTensorMode(), kernels() as random_states, contextlib.ExitStack() as stack:
        rand, attend = torch.rand, functional.scaled_dot_product_attention
        # A layerdrop compares a random number, of which a fake tensor has no value.
        stack.enter_context(mock.patch.object(
            torch, "rand",
            lambda *size, **named: 1.0 if size == ([],) else rand(*size, **named)))
        stack.enter_context(no_init_weights())  # ViT's looks at values
        stack.enter_context(mock.patch.object(masking_utils, "is_tracing", return_value=False))
        stack.enter_context(mock.patch.object(
            functional, "scaled_dot_product_attention",
            lambda *tensors, **named: _below_autocast(attend, *tensors, **named)))
        yield random_states


def _below_autocast(attend, q, k, v, attn_mask=None, **named):
    """scaled_dot_product_attention is on autocast's list; `kernels` put in its place what torch runs
    behind that: below autocast, of inputs that are cast."""
    device = q.device.type
    if not torch.is_autocast_enabled(device):
        return attend(q, k, v, attn_mask, **named)
    dtype = torch.get_autocast_dtype(device)
    if attn_mask is not None and attn_mask.is_floating_point():
        attn_mask = attn_mask.to(dtype)
    q, k, v = (tensor.to(dtype) for tensor in (q, k, v))
    with autocast(device, enabled=False):
        return attend(q, k, v, attn_mask, **named)
