"""The live bytes of a real step, event by event, and those of Cairn's timeline, cut at the same
places: the layers in forward, and in backward each layer with its recompute."""

import contextlib
import dataclasses
import re

import torch
from live_bytes import profiled
from torch.profiler import record_function

import models

MARK = "step curve: "


@dataclasses.dataclass
class Segment:
    name: str  # "forward layer 2"
    live: list = dataclasses.field(default_factory=list)  # bytes, in order


def peak_of(segments):
    """The highest segment's name, the first of several, and its bytes."""
    highest = max(segments, key=lambda segment: max(segment.live))
    return highest.name, max(highest.live)


def phases(model, inputs):
    """The step: what runs in order. More can follow: an optimizer's step, a second one."""
    loss = []
    yield "forward first", lambda: loss.append(model(**inputs).loss)
    yield "backward last", lambda: loss.pop().backward()


def mark(name):
    with record_function(MARK + name):
        pass


@contextlib.contextmanager
def marked_layers(model):
    """Marks where each layer begins and ends in forward, and begins and ends in backward."""
    hooks, layers, in_backward = [], models.layers_of(model), [False]

    def gradient(name):
        def hook(_):
            in_backward[0] = True
            mark(name)
        return hook

    def watch(number):
        def before(module, args):
            if in_backward[0]:
                return  # a recompute
            mark(f"forward layer {number}")
            if number == 0:
                args[0].register_hook(gradient("backward first"))

        def behind(module, args, output):
            if in_backward[0]:
                return
            if number + 1 == len(layers):
                mark("forward last")
            output = output[0] if isinstance(output, tuple) else output
            output.register_hook(gradient(f"backward layer {number}"))

        hooks.append(layers[number].register_forward_pre_hook(before))
        hooks.append(layers[number].register_forward_hook(behind))

    for number in range(len(layers)):
        watch(number)
    yield
    for hook in hooks:
        hook.remove()


def measured(model, inputs):
    """Of torch's CPU allocator, with the parameters and inputs that are there before."""
    def step():
        for name, run in phases(model, inputs):
            mark(name)
            run()

    for _, run in phases(model, inputs):  # libraries allocate on their first call
        run()
    model.zero_grad(set_to_none=True)
    live = sum(tensor.nbytes for tensor in (*model.parameters(), *inputs.values()))
    segments = []
    with marked_layers(model):
        events = profiled(step)
    for event in events:
        if event.name().startswith(MARK):
            segments.append(Segment(event.name().removeprefix(MARK), [live]))
        elif event.name() == "[memory]":
            live += event.nbytes()
            segments[-1].live.append(live)
    return segments


def simulated(answer, layer_count):
    """Of `cairn simulate --json`: bytes during each step and after it."""
    segments = [Segment("forward first", [answer["resident_bytes"]])]
    for step in answer["steps"]:
        if step["kind"] not in ("forward", "recompute", "backward"):
            continue  # an optimizer's
        phase = "forward" if step["kind"] == "forward" else "backward"
        layer = re.match(r"\w+\.(\d+)\.", step["op"])
        if layer:
            part = f"layer {layer[1]}"
        else:
            before = segments[-1].name in ("forward first", "backward layer 0", "backward first")
            part = "first" if before else "last"
        name = f"{phase} {part}"
        if segments[-1].name != name:
            segments.append(Segment(name, [segments[-1].live[-1]]))
        segments[-1].live += [step["during_bytes"], step["after_bytes"]]
    assert len(segments) == 2 * (layer_count + 2)
    return segments


def inputs_of(model, batch, tokens):
    torch.manual_seed(0)
    ids = torch.randint(0, model.config.vocab_size, (batch, tokens))
    return {"input_ids": ids, "labels": ids.clone()}
