"""torch.autocast as a GPU has it, in a torch without one.

Fake tensors on a pretended CUDA device dispatch as real ones do: to AutocastCUDA's lists, compiled
into every build of torch, to autograd, and to meta kernels. No list is written down here.
"""

import contextlib
import ctypes
import pathlib
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from transformers import masking_utils

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
def autocast(device, dtype=torch.bfloat16):
    """torch.autocast(device, dtype), also for a CUDA device that is only pretended."""
    before = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    torch.set_autocast_enabled(device, True)
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
def pretended_gpu():
    """Tensors made on device "cuda" are fake; attention and dropout go to a GPU's kernels. Yields
    what attention kernels keep of their random numbers."""
    _pretend_cuda_has_a_device_guard()
    rand = torch.rand  # a layerdrop compares a random number, which a fake tensor has not
    with FakeTensorMode(), models.gpu_kernels() as random_states, \
            mock.patch.object(torch, "rand", lambda *size, **named: 1.0 if size == ([],)
                              else rand(*size, **named)), \
            mock.patch.object(masking_utils, "is_tracing", return_value=False):
        attend = functional.scaled_dot_product_attention
        with mock.patch.object(functional, "scaled_dot_product_attention",
                               lambda *tensors, **named: _casting(attend, *tensors, **named)):
            yield random_states


def _casting(attend, q, k, v, attn_mask=None, **named):
    """scaled_dot_product_attention is on autocast's list, but models.gpu_kernels() replaces it by
    the kernels that torch calls below autocast."""
    if not torch.is_autocast_enabled(q.device.type):
        return attend(q, k, v, attn_mask, **named)
    dtype = torch.get_autocast_dtype(q.device.type)
    if attn_mask is not None and attn_mask.is_floating_point():
        attn_mask = attn_mask.to(dtype)
    q, k, v = (tensor.to(dtype) for tensor in (q, k, v))
    return attend(q, k, v, attn_mask, **named)
