"""The storages that autograd keeps for backward, seen through torch's own hooks."""

import collections

from torch.autograd.graph import saved_tensors_hooks


def saved_storages(run, resident=()):
    """Bytes of every storage packed during run(), each once; `resident` tensors are left out."""
    skipped = {tensor.untyped_storage()._cdata for tensor in resident}
    packed = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in skipped:
            packed[storage._cdata] = storage  # held, so that no other takes its place
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        output = run()
    sizes = collections.Counter(storage.nbytes() for storage in packed.values())
    del output
    return sizes


def total(sizes):
    return sum(size * count for size, count in sizes.items())


def cairn_storages(shown):
    """The same of `cairn show --json`: what the block's ops save, each storage once."""
    storage_of = {}  # the parts of a split, or a slice, lie on the storage of what they are part of
    bytes_of = {}
    for op in shown["ops"]:
        whole = sum(output["bytes"] for output in op["outputs"])
        for output in op["outputs"]:
            name = op["name"] if op["kind"] == "split" else output["name"]
            storage_of[output["name"]] = name
            bytes_of[name] = whole
        for auxiliary in op["auxiliaries"]:
            storage_of[auxiliary["name"]] = auxiliary["name"]
            bytes_of[auxiliary["name"]] = auxiliary["bytes"]
    saved = {}
    for op in shown["ops"]:
        for tensor in op["saved"]:
            if tensor["name"] in ("cos", "sin", "ids", "labels"):
                continue  # inputs of the graph: live for the whole step, shared by all layers
            name = storage_of.get(tensor["name"], tensor["name"])
            saved[name] = bytes_of.get(name, tensor["bytes"])
    return collections.Counter(saved.values())
