"""bitsandbytes' quantised linear layers in models of Transformers, and the options of `cairn` that
mean the same.

What its layers allocate and keep is decided by Python code around kernels, and a kernel allocates
nothing. So the Python code of its CUDA backend runs here as it is installed, on a CPU's tensors,
with kernels that make zeros: no number that they compute means anything. How many rows a product
has decides there whether its weight is dequantised first or by the way; here it always is first, as
it is with more than 1,536 rows.

bitsandbytes lies in a folder of its own (`./dev` puts it there), beside accelerate, which
Transformers would use if it found it.
"""

import contextlib
import ctypes
import dataclasses
import importlib.util
import pathlib
import sys
import types
import warnings
from unittest import mock

import torch
import transformers
import transformers.utils

FOLDER = pathlib.Path(sys.prefix) / "finetune"


@contextlib.contextmanager
def libraries():
    """What asks for the versions of libraries finds them."""
    sys.path.append(str(FOLDER))
    try:
        yield
    finally:
        sys.path.remove(str(FOLDER))


with libraries(), mock.patch.object(transformers.utils, "is_accelerate_available", lambda: False):
    import bitsandbytes as bnb
    import bitsandbytes._ops
    import bitsandbytes.cextension
    from bitsandbytes.autograd import _functions
    from transformers.integrations import bitsandbytes as integration
    from transformers.quantizers.base import get_keys_to_not_convert

_functions.logger.disabled = True  # says of each product that its input is cast
ITEM_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2}


class _Kernels:
    """bitsandbytes' library of CUDA kernels. Those that make numbers make zeros."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name.startswith("cdequantize_blockwise_"):  # code, A, absmax, out, blocksize, n, stream
            item = ITEM_BYTES[name.split("_")[2]]
            return lambda *given: ctypes.memset(given[3], 0, item * given[5])
        if name == "cdequant_mm_int32_fp16":  # A, statistics twice, out, bias, rows, columns, stream
            return lambda *given: ctypes.memset(given[3], 0, 2 * given[5] * given[6])
        return mock.Mock(return_value=0)


def _cuda_backend():
    """The module of the CUDA backend, and the function of each op that it registers."""
    functions = {}

    def register_kernel(name, device):
        def take(function):
            functions[name.split("::")[1]] = function
            return function

        return take

    name = "bitsandbytes.backends.cuda.ops"
    path = pathlib.Path(bnb.__file__).parent / "backends" / "cuda" / "ops.py"
    spec = importlib.util.spec_from_file_location(name, path)
    backend = importlib.util.module_from_spec(spec)
    package = types.ModuleType("bitsandbytes.backends.cuda")
    with mock.patch.object(bitsandbytes._ops, "register_kernel", register_kernel), \
         mock.patch.object(bitsandbytes.cextension, "lib", _Kernels()), \
         mock.patch.object(torch._C, "_cuda_getCurrentRawStream", lambda _: 0, create=True), \
         mock.patch.dict(sys.modules, {package.__name__: package}):
        spec.loader.exec_module(backend)
    backend.CUBLAS_Context = mock.MagicMock()
    backend._gpu_dispatch_props = lambda _: (132, 9, 0)  # an H100
    return backend, functions


backend, _functions_of_ops = _cuda_backend()
_OPS = ("gemm_4bit", "dequantize_4bit", "dequantize_blockwise", "int8_linear_matmul",
        "int8_mm_dequant", "int8_vectorwise_quant")


def _linear_8bit(x, weight, out=None, state=None, threshold=0.0, bias=None):
    """bitsandbytes.matmul, which takes another function for a CPU's tensors."""
    assert threshold == 0.0 and state.threshold == 6.0
    return _functions.MatMul8bitLt.apply(x, weight, out, bias, state)


@contextlib.contextmanager
def cuda_code(chosen_kernel=lambda *shape: False):
    """`chosen_kernel(device, type, rows, out, in)`: whether few rows have a kernel that dequantises
    as it goes."""
    library = torch.library.Library("bitsandbytes", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that others are replaced, and how slow the rest is
            for name in _OPS:
                library.impl(name, _functions_of_ops[name], "CPU", allow_override=True)
        with mock.patch.object(bnb, "matmul", _linear_8bit), \
             mock.patch.object(backend, "_gemm_4bit_use_custom_fn", chosen_kernel):
            yield
    finally:
        library._destroy()


@dataclasses.dataclass(frozen=True)
class Quantization:
    format: str = "nf4"
    double: bool = False
    compute: torch.dtype | None = torch.bfloat16

    def options(self):
        """Those of `cairn`."""
        if self.format == "int8":
            return ["--quantize", "int8"]
        compute = {torch.float32: "fp32", torch.bfloat16: "bf16"}[self.compute]
        return ["--quantize", self.format, "--double-quant", "yes" if self.double else "no",
                "--quantize-compute", compute]

    def config(self):
        """Transformers' own."""
        with libraries():
            if self.format == "int8":
                return transformers.BitsAndBytesConfig(load_in_8bit=True)
            return transformers.BitsAndBytesConfig(
                load_in_4bit=True, bnb_4bit_quant_type=self.format,
                bnb_4bit_use_double_quant=self.double, bnb_4bit_compute_dtype=self.compute)

    def on(self, model):
        """The model with quantised weights, replaced in place as Transformers does when it loads
        one."""
        kept = get_keys_to_not_convert(model) + list(model._keep_in_fp32_modules or ())
        before = dict(model.named_modules())
        integration.replace_with_bnb_linear(model, kept, self.config())
        is_int8 = self.format == "int8"
        quantise = (integration.Bnb8bitQuantize if is_int8 else integration.Bnb4bitQuantize)(None)
        for name, module in quantised_modules(model).items():
            weight = f"{name}.weight"
            made = quantise.convert({weight: before[name].weight.data}, full_layer_name=weight,
                                    model=model)
            module.weight = made[weight]
            if module.bias is not None:
                module.bias = torch.nn.Parameter(before[name].bias.data, requires_grad=False)
        return model


def quantised_modules(model):
    return {name: module for name, module in model.named_modules()
            if isinstance(module, (bnb.nn.Linear4bit, bnb.nn.Linear8bitLt))}


def in_fp32(model):
    """As peft's prepare_model_for_kbit_training: what is not quantised, in fp32."""
    for weight in model.parameters():
        if weight.dtype in (torch.float16, torch.bfloat16):
            weight.data = weight.data.float()
    return model


def _state_tensors(module):
    """What a quantised layer has beside its parameters."""
    if isinstance(module, bnb.nn.Linear8bitLt):
        return [scale for scale in (module.weight.SCB, module.state.SCB) if scale is not None]
    state = module.weight.quant_state
    nested = [state.offset, state.state2.absmax, state.state2.code] if state.nested else []
    return [state.absmax, state.code, *nested]


def resident_bytes(model):
    """Of all that a model's weights are stored in, each storage once."""
    tensors = [*model.parameters()]
    for module in quantised_modules(model).values():
        tensors += _state_tensors(module)
    storages = {tensor.untyped_storage()._cdata: tensor.untyped_storage() for tensor in tensors}
    return sum(storage.nbytes() for storage in storages.values())


def parameter_count(model):
    """Of the model before it was packed into bytes."""
    quantised = quantised_modules(model).values()
    packed = {id(module.weight): module for module in quantised}
    return sum(packed[id(weight)].in_features * packed[id(weight)].out_features
               if id(weight) in packed else weight.numel() for weight in model.parameters())
