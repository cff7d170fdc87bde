"""Runs a random module for real, its regions as nested checkpoints, and writes down what happens."""

import functools

import torch
from random_modules import FLOAT, KINDS, SIDE
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import (CheckpointPolicy, checkpoint,
                                    create_selective_checkpoint_contexts)


class Kernels(TorchDispatchMode):
    """Counts the kernels of forward's ops, and watches all that they make. Entered before all other
    modes: it does not see what a selective checkpoint answers from what it kept."""

    def __init__(self, watch):
        super().__init__()
        self.watch = watch
        self.in_op = False
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if self.in_op and function is not torch.ops.aten.detach.default:  # checkpoint's own
            self.count += 1
            self.watch(result if isinstance(result, (tuple, list)) else [result])
        return result


class TorchRun:
    """Runs a program once, with its regions or without, and writes down what happens."""

    def __init__(self, program, seed, **options):
        self.program, self.seed = program, seed
        self.options = options  # of checkpoint()
        self.last = program.last_reads() | {program.ops[-1].outputs[0]: len(program.ops)}
        self.kernels = Kernels(self.watch)
        self.op = None  # in work
        self.kernel_counts = {}  # of an op's first run
        self.events = []  # of backward: "R op", "B op"
        self.live = []  # bytes of forward's tensors that are live, behind each step of backward
        self.storages = []  # StorageWeakRef, bytes
        self.in_backward = False
        torch.manual_seed(seed)
        self.leaves = {}
        for name in program.inputs:
            tensor = program.tensors[name]
            value = torch.rand(SIDE, SIDE * tensor.columns) - 0.5
            self.leaves[name] = value.requires_grad_(tensor.requires_grad)
        for name, shape in program.parameters.items():
            self.leaves[name] = (torch.rand(shape) - 0.5).requires_grad_()
        self.resident = {leaf.untyped_storage()._cdata for leaf in self.leaves.values()}

    def forward(self, regions):
        environment = {name: self.leaves[name] for name in self.program.inputs}
        self.run_items(0, len(self.program.ops), regions, environment)
        return environment[self.program.ops[-1].outputs[0]]

    def run(self, with_regions=True):
        with self.kernels:
            return self._run(with_regions)

    def _run(self, with_regions):
        loss = self.forward(self.program.regions if with_regions else [])
        self.bytes_after_forward = self.live_bytes() - FLOAT
        self.in_backward = True
        loss.backward()
        self.begin_step()
        return {name: leaf.grad for name, leaf in self.leaves.items() if leaf.requires_grad}

    def live_bytes(self):
        self.storages = [entry for entry in self.storages if not entry[0].expired()]
        unique = {reference.cdata: size for reference, size in self.storages}
        return sum(unique.values())

    def run_items(self, begin, end, regions, environment):
        position = begin
        starts = {region.begin: region for region in regions}
        while position < end:
            if position in starts:
                region = starts[position]
                self.run_region(region, environment)
                position = region.end
            else:
                self.run_op(self.program.ops[position], environment)
                position += 1
            for name in list(environment):
                if self.last[name] < position:
                    del environment[name]

    def run_region(self, region, environment):
        ops = self.program.ops[region.begin:region.end]
        made = [name for op in ops for name in op.outputs]
        inputs = [name for name in dict.fromkeys(name for op in ops for name in op.inputs)
                  if name not in made]
        outputs = [name for name in made if self.last[name] >= region.end]

        def function(*arguments):
            inside = dict(zip(inputs, arguments))
            self.run_items(region.begin, region.end, region.inner, inside)
            return tuple(inside[name] for name in outputs)

        options = dict(self.options)
        if region.keep:
            options["context_fn"] = functools.partial(create_selective_checkpoint_contexts,
                                                      lambda *_, **__: self.policy(region))
        results = checkpoint(function, *[environment[name] for name in inputs], **options)
        environment.update(zip(outputs, results))

    def policy(self, region):
        """Of the op in work, everything is kept or nothing."""
        keep = any(name in region.keep for name in self.op.outputs)
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    def run_op(self, op, environment):
        arguments = [environment[name] for name in op.inputs]
        if op.parameter:
            arguments.append(self.leaves[op.parameter])
        if self.in_backward:
            self.begin_step()
        self.op, self.kernels.in_op, self.kernels.count = op, True, 0
        try:
            results = KINDS[op.kind](*arguments)
        finally:
            self.kernels.in_op = False
            self.note(op, self.kernels.count)
        results = results if isinstance(results, tuple) else (results,)
        environment.update(zip(op.outputs, results))
        if results[0].grad_fn is not None:
            # Behind its recompute, which the node itself starts.
            results[0].grad_fn.register_prehook(lambda gradients: self.begin_step())
            results[0].grad_fn.register_hook(lambda *_: self.finish_backward(op))

    def note(self, op, kernel_count):
        """An op has run when all its kernels have; a dropout when its mask is made."""
        if not self.in_backward:
            self.kernel_counts.setdefault(op.name, kernel_count)
            return
        expected = self.kernel_counts[op.name] - (op.kind == "dropout")
        if kernel_count >= expected:
            self.events.append(f"R {op.name}")

    def begin_step(self):
        """Measures behind the step before. None for what there is no moment to measure: behind the
        last op of a recompute, from where the node that started it goes on."""
        self.live += [None] * (len(self.events) - len(self.live))
        if self.live:
            self.live[-1] = self.live_bytes() - FLOAT  # run() holds the loss

    def finish_backward(self, op):
        if self.live and self.events[len(self.live) - 1].startswith("R"):
            self.live[-1] = None
        self.events.append(f"B {op.name}")

    def watch(self, tensors):
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if storage._cdata not in self.resident:
                self.storages.append((StorageWeakRef(storage), storage.nbytes()))
