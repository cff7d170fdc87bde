"""The storages that autograd keeps for backward, seen through torch's own hooks."""

import collections

from torch.autograd.graph import saved_tensors_hooks


def saved_storages(run, left_out=()):
    """Bytes of every storage packed during run(), each once, but for those of the tensors that are
    `left_out` when it is over."""
    packed = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        packed[storage._cdata] = storage  # held, so that no other takes its place
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        output = run()
    for tensor in left_out:
        packed.pop(tensor.untyped_storage()._cdata, None)
    sizes = collections.Counter(storage.nbytes() for storage in packed.values())
    del output
    return sizes


def total(sizes):
    return sum(size * count for size, count in sizes.items())


def cairn_storages(shown):
    """The same of `cairn show --json`: what the block's ops save, each storage once. Inputs of the
    graph are live for the whole step, and shared by all layers."""
    outside = ("cos", "sin", "ids", "labels", "positions")
    saved = {tensor["storage"]: tensor["storage_bytes"] for op in shown["ops"]
             for tensor in op["saved"] if tensor["storage"] not in outside}
    return collections.Counter(saved.values())
