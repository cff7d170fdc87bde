"""Small random modules: DAGs of known ops with nested runs of them under torch.utils.checkpoint.

One Program is run by torch for real, and written down as a plain graph and a plan for Cairn.
"""

import dataclasses
import json
import random

import torch
from torch.nn import functional

SIDE = 6  # every tensor has SIDE rows, and one to three times as many columns
FLOAT = 4
NEVER = -1


class SquareFunction(torch.autograd.Function):
    """Saves its input alone, as many custom kernels do."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


@dataclasses.dataclass
class Tensor:
    columns: int  # of SIDE; 0 for a scalar
    requires_grad: bool
    view_of: str | None = None

    @property
    def bytes(self):
        return FLOAT * (SIDE * SIDE * self.columns if self.columns else 1)


@dataclasses.dataclass
class Op:
    name: str
    kind: str
    inputs: list
    outputs: list
    parameter: str | None = None


@dataclasses.dataclass
class Region:
    begin: int  # positions, half-open
    end: int
    inner: list = dataclasses.field(default_factory=list)
    keep: list = dataclasses.field(default_factory=list)  # outermost only


@dataclasses.dataclass
class Program:
    inputs: list
    parameters: dict  # name: shape
    tensors: dict  # name: Tensor
    ops: list
    regions: list

    def last_reads(self):
        """By tensor, the position of the last op that reads it."""
        last = dict.fromkeys(self.tensors, NEVER)
        for position, op in enumerate(self.ops):
            for name in op.inputs:
                last[name] = position
        return last


# kind: what it runs. w is its parameter, where it has one.
KINDS = {
    "linear": lambda x, w: functional.linear(x, w),
    "norm": lambda x: functional.layer_norm(x, x.shape[1:]),
    "weighted_norm": lambda x, w: functional.layer_norm(x, x.shape[1:], w),
    "tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu, "exp": torch.exp,
    "softmax": lambda x: x.softmax(-1),
    "sin": torch.sin, "silu": functional.silu,
    "neg": torch.neg, "scale": lambda x: x * 0.5, "clone": torch.clone,
    "add": torch.add, "mul": torch.mul, "mm": torch.mm,
    "cat": lambda *parts: torch.cat(parts, 1),
    "split": lambda x: x.split(SIDE, 1), "slice": lambda x: x[:, :SIDE],
    "dropout": lambda x: functional.dropout(x, 0.5),
    "relu_": lambda x: x.relu_(),
    "custom": SquareFunction.apply,
    "sum": torch.sum,
}
SAVES_OUTPUT = ("tanh", "sigmoid", "relu", "relu_", "exp", "softmax")
SAVES_INPUT = ("sin", "silu", "custom", "norm", "weighted_norm")
PRODUCTS = ("mul", "mm")  # save each factor where the other one requires a gradient
BINARY = ("add", "mul", "mm", "cat")
# What an op makes for its Backward alone: bytes a column of its input, of SIDE.
AUXILIARIES = {"norm": {"mean": FLOAT * SIDE, "rstd": FLOAT * SIDE},
               "weighted_norm": {"mean": FLOAT * SIDE, "rstd": FLOAT * SIDE}}


class Generator:
    """`plain` leaves out what reentrant checkpoints do not take: tensors without a gradient, and
    ops that the loss does not depend on."""

    def __init__(self, seed, plain=False, kinds=tuple(KINDS)):
        self.random = random.Random(seed)
        self.plain = plain
        self.kinds = [kind for kind in kinds if kind != "sum"]
        self.program = Program([], {}, {}, [], [])
        self.made_by = {}

    def generate(self):
        for number in range(self.random.randint(1, 3)):
            self.add_input(f"x{number}", True)
        if not self.plain and self.random.random() < 0.3:
            self.add_input("mask", False)
        for _ in range(self.random.randint(3, 10)):
            self.add_op()
        self.add_loss()
        self.program.regions = self.regions(0, len(self.program.ops), 0)
        return self.program

    def add_input(self, name, requires_grad):
        self.program.inputs.append(name)
        self.program.tensors[name] = Tensor(self.random.randint(1, 3), requires_grad)

    def pick(self, accept=lambda tensor: True):
        """A tensor, rather one that nothing has read yet, or the latest; None where none fits."""
        last = self.program.last_reads()
        names = [name for name, tensor in self.program.tensors.items()
                 if tensor.columns and accept(tensor) and name not in self.overwritten]
        if not names:
            return None
        unread = [name for name in names if last[name] == NEVER]
        return self.random.choice(unread if unread and self.random.random() < 0.6 else names[-4:])

    @property
    def overwritten(self):
        return {op.inputs[0] for op in self.program.ops if op.kind == "relu_"}

    def add_op(self):
        kind = self.random.choice(self.kinds)
        tensors, name = self.program.tensors, f"op{len(self.program.ops)}"
        first = self.pick(lambda tensor: kind != "mm" or tensor.columns == 1)
        if first is None or (kind == "relu_" and not self.may_overwrite(first)):
            return self.add_op()
        inputs, columns = [first], tensors[first].columns
        if kind in BINARY:
            second = self.pick(lambda tensor: {
                "mm": True, "cat": tensor.columns + columns <= 3,
            }.get(kind, tensor.columns == columns))
            if second is None:
                return self.add_op()
            inputs.append(second)
            columns = {"mm": tensors[second].columns,
                       "cat": columns + tensors[second].columns}.get(kind, columns)
        parameter = f"{name}.weight" if kind in ("linear", "weighted_norm") else None
        if kind == "linear":
            self.program.parameters[parameter] = (SIDE * (wide := self.random.randint(1, 3)),
                                                  SIDE * columns)
            columns = wide
        elif parameter:
            self.program.parameters[parameter] = (SIDE * columns,)
        requires_grad = parameter is not None or any(tensors[x].requires_grad for x in inputs)
        count = columns if kind == "split" else 1
        outputs = [f"{name}.{number}" if kind == "split" else f"{name}.out"
                   for number in range(count)]
        view_of = first if kind in ("split", "slice", "relu_") else None
        for output in outputs:
            width = 1 if kind in ("split", "slice") else columns
            tensors[output] = Tensor(width, requires_grad, view_of)
        self.program.ops.append(Op(name, kind, inputs, outputs, parameter))

    def may_overwrite(self, name):
        """Made by an op that does not save it, read by nobody, no view and no input."""
        makers = [op for op in self.program.ops if name in op.outputs]
        return (makers and makers[0].kind not in SAVES_OUTPUT + ("split", "slice")
                and self.program.last_reads()[name] == NEVER)

    def add_loss(self):
        """The sum of all that nobody has read, or of some of it."""
        last, program = self.program.last_reads(), self.program
        ends = [name for op in program.ops for name in op.outputs
                if last[name] == NEVER and program.tensors[name].requires_grad]
        ends = ends or [op.outputs[0] for op in program.ops
                        if program.tensors[op.outputs[0]].requires_grad
                        and op.outputs[0] not in self.overwritten][-1:]
        if not ends:
            self.program.ops.append(Op("exp", "exp", ["x0"], ["exp.out"]))
            self.program.tensors["exp.out"] = Tensor(self.program.tensors["x0"].columns, True)
            ends = ["exp.out"]
        if not self.plain and len(ends) > 1 and self.random.random() < 0.3:
            ends.pop(self.random.randrange(len(ends)))  # and this one leads nowhere
        total = None
        for number, end in enumerate(ends):
            scalar = f"sum{number}"
            self.add_scalar(Op(scalar, "sum", [end], [scalar + ".out"]))
            if total:
                self.add_scalar(Op(f"total{number}", "add", [total, scalar + ".out"],
                                   [f"total{number}.out"]))
            total = self.program.ops[-1].outputs[0]

    def add_scalar(self, op):
        self.program.ops.append(op)
        self.program.tensors[op.outputs[0]] = Tensor(0, True)

    def regions(self, begin, end, depth):
        regions, position = [], begin
        while position < end:
            length = self.random.randint(1, end - position)
            whole = length == end - begin and depth > 0
            if self.random.random() < 0.6 and not whole:
                region = Region(position, position + length)
                if depth < 2 and self.random.random() < 0.6:
                    region.inner = self.regions(position, position + length, depth + 1)
                regions.append(region)
            position += length
        return regions


def all_regions(regions):
    for region in regions:
        yield region
        yield from all_regions(region.inner)


def saved(program, op):
    """The names of what autograd saves for the op."""
    tensors = program.tensors
    rg = [tensors[name].requires_grad for name in op.inputs]
    if op.kind in PRODUCTS:
        return [name for name, other in zip(op.inputs, reversed(rg)) if other]
    if op.kind == "linear":
        return [op.inputs[0]] + ([op.parameter] if rg[0] else [])
    if not tensors[op.outputs[0]].requires_grad:
        return []
    names = list(op.outputs) if op.kind in SAVES_OUTPUT else []
    names += op.inputs if op.kind in SAVES_INPUT else []
    names += [f"{op.name}.{key}" for key in auxiliaries(program, op)]
    return names + ([op.parameter] if op.kind == "weighted_norm" else [])


def auxiliaries(program, op):
    """Name: bytes."""
    if op.kind == "dropout":  # a CPU's mask is in the type of the input
        return {"mask": program.tensors[op.inputs[0]].bytes}
    return AUXILIARIES.get(op.kind, {})


def graph_json(program):
    def made(name):
        tensor = program.tensors[name]
        view = {"view_of": tensor.view_of} if tensor.view_of else {}
        return {"name": name, "bytes": tensor.bytes} | view

    def op_json(op):
        document = {
            "name": op.name,
            "inputs": op.inputs + ([op.parameter] if op.parameter else []),
            "outputs": [made(name) for name in op.outputs],
            "auxiliaries": [{"name": f"{op.name}.{key}", "bytes": size}
                            for key, size in auxiliaries(program, op).items()],
            "saves": list(dict.fromkeys(saved(program, op)))}
        if op.kind == "relu_":
            document["in_place"] = True
        if op.kind == "custom":
            document["saves_after_forward"] = True
        return document

    return json.dumps({
        "cairn_graph": 1,
        "inputs": [{"name": name, "bytes": program.tensors[name].bytes,
                    "requires_grad": program.tensors[name].requires_grad}
                   for name in program.inputs],
        "parameters": [{"name": name, "bytes": FLOAT * torch.Size(shape).numel()}
                       for name, shape in program.parameters.items()],
        "ops": [op_json(op) for op in program.ops]})


def plan_json(program, extent):
    def region_json(region):
        document = {"first": program.ops[region.begin].name,
                    "last": program.ops[region.end - 1].name,
                    "regions": [region_json(inner) for inner in region.inner]}
        return document | ({"keep": region.keep} if region.keep else {})

    return json.dumps({"cairn_plan": 1, "extent": extent,
                       "regions": [region_json(region) for region in program.regions]})
