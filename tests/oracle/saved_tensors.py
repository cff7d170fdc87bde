"""The storages that autograd keeps for backward, seen through torch's own hooks."""

import collections
import dataclasses
import weakref

import torch
from torch.autograd.graph import saved_tensors_hooks


def saved_storages(run, left_out=()):
    """Bytes of every storage packed during run() and still held by its output, each once, but for
    those of the tensors that are `left_out` when it is over."""
    packed = []  # what autograd holds in place of a tensor dies with the node that saved it

    def pack(tensor):
        kept = Kept(tensor)
        packed.append(weakref.ref(kept))
        return kept

    with saved_tensors_hooks(pack, lambda kept: kept.tensor):
        output = run()
    held = [kept().tensor.untyped_storage() for kept in packed if kept() is not None]
    storages = {storage._cdata: storage for storage in held}
    for tensor in left_out:
        storages.pop(tensor.untyped_storage()._cdata, None)
    sizes = collections.Counter(storage.nbytes() for storage in storages.values())
    del output
    return sizes


@dataclasses.dataclass(eq=False)
class Kept:
    tensor: torch.Tensor


def total(sizes):
    return sum(size * count for size, count in sizes.items())


def cairn_storages(shown):
    """The same of `cairn show --json`: what the block's ops save, each storage once. Inputs of the
    graph are live for the whole step, and shared by all layers."""
    outside = ("cos", "sin", "turns", "ids", "labels", "positions")
    saved = {tensor["storage"]: tensor["storage_bytes"] for op in shown["ops"]
             for tensor in op["saved"] if tensor["storage"] not in outside}
    return collections.Counter(saved.values())


def kept_at_the_end_of_forward(answer):
    """Of `cairn simulate --json`: all that a plan without recomputes keeps for backward; the loss is
    not read again."""
    last = [step for step in answer["steps"] if step["kind"] == "forward"][-1]
    return last["after_bytes"] - answer["resident_bytes"]
