"""The list of autocast that each op kind states (OpKindInfo::autocast), against the dispatcher."""

import re

import pytest
import torch
from autocast import autocast, pretended_gpu
from conftest import REPOSITORY
from op_kinds_test import OPS

BF16, FP32 = torch.bfloat16, torch.float32

# list: types of what is made of bf16 and of fp32 inputs
TYPES = {"kNone": {BF16: BF16, FP32: FP32}, "kLowerPrecision": {BF16: BF16, FP32: BF16},
         "kFloat32": {BF16: FP32, FP32: FP32}, "kFloat32Output": {BF16: FP32, FP32: FP32}}


def stated_lists():
    """{"linear": "kLowerPrecision", ...}"""
    lists = {}
    for path in (REPOSITORY / "graph" / "ops").glob("*.cc"):
        for line, lines in re.findall(r"^OpKindInfo \w+\(\) \{(?:([^\n]*)\}$|\n(.*?)^\}$)",
                                      path.read_text(), re.S | re.M):
            body = line + lines
            kind = re.search(r'return (?:\{\s*\.name = |unary\()"(\w+)"', body)
            unstated = "kNone" if "unary(" in body else "kNotKnown"
            stated = re.search(r"AutocastList::(\w+)", body)
            if kind:
                lists[kind[1]] = stated[1] if stated else unstated
    return lists


LISTS = stated_lists()
# A row that states its own types, and one that makes its flags on the meta device.
LEFT_OUT = ("softmax with a dtype", "linear in fp32", "cast", "mul_one_plus_weight", "mask_causal")
ROWS = [name for name in OPS
        if LISTS[re.match(r"\w+", name)[0]] != "kNotKnown" and name not in LEFT_OUT]


def test_every_kind_states_a_list_or_is_refused():
    assert {"topk", "gather", "group_mask", "masked_fill", "dispatch", "take", "expert_linear",
            "combine", "append_sinks", "drop_sinks", "join_heads", "sum", "rope", "swiglu", "geglu",
            "cross_entropy", "cross_entropy_in_place", "cross_entropy_compiled", "custom",
            "linear_4bit_saving_input"} == {
                kind for kind, stated in LISTS.items() if stated == "kNotKnown"}


@pytest.mark.parametrize("dtype", [BF16, FP32])
@pytest.mark.parametrize("name", ROWS)
def test_an_op_makes_the_type_that_its_list_says(name, dtype):
    _, tensors, call, *_ = OPS[name]

    def on_gpu(tensor):
        of = dtype if tensor.is_floating_point() else tensor.dtype
        made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=of, device="cuda")
        return made.requires_grad_(tensor.requires_grad)

    with pretended_gpu(), autocast("cuda"):
        output = call(*map(on_gpu, tensors.values()))
    assert output.dtype == TYPES[LISTS[re.match(r"\w+", name)[0]]][dtype]


def test_a_cpu_has_other_lists():
    # autocast_peak_test.py runs on a CPU; there these are on no list (ATen/autocast_mode.cpp).
    x = torch.zeros(4, 4, dtype=BF16)
    calls = {"pow": lambda: x.pow(3), "rsqrt": x.rsqrt, "softmax": lambda: x.softmax(-1),
             "layer_norm": lambda: torch.nn.functional.layer_norm(x, (4,)),
             "log_softmax": lambda: x.log_softmax(-1)}
    with torch.autocast("cpu", BF16):
        assert {name: call().dtype for name, call in calls.items()} == dict.fromkeys(calls, BF16)
    for name in calls:
        assert TYPES[LISTS[name]][BF16] == FP32
