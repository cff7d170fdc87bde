"""The bytes that torch's CPU allocator has out, read from the profiler's memory events.

Not a TorchDispatchMode: one holds tensors a moment longer, and then autograd, which adds a second
gradient in place only where it is the sole owner, adds out of place instead.
"""

import gc

import torch
from torch.profiler import ProfilerActivity, profile, record_function


def profiled(run):
    gc.collect()  # now, not during run(): what earlier tests left is no business of it
    gc.disable()
    try:
        return _profiled(run)
    finally:
        gc.enable()


def _profiled(run):
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    return sorted(profiler.profiler.kineto_results.events(), key=lambda event: event.start_ns())


def peak_bytes(run):
    """The most bytes that run() has out at once, over what was out before it."""
    live = peak = 0
    for event in profiled(run):
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    return peak


def step_peak_bytes(model, inputs):
    """The most bytes that are out during a model's forward, loss and backward, with its parameters
    and `inputs`."""
    def step():
        model(**inputs).loss.backward()

    step()  # libraries allocate on their first call
    model.zero_grad(set_to_none=True)
    resident = [*model.parameters(), *inputs.values()]
    return peak_bytes(step) + sum(tensor.nbytes for tensor in resident)


def phase_peaks(phases):
    """Of (name, run) pairs, run one after the other: {name: the most bytes out during it}, over
    what was out before the first."""
    names = []

    def run_all():
        for name, run in phases:
            names.append(name)
            with record_function(f"phase {len(names) - 1}"):
                run()

    live, peaks, spans = 0, {}, []
    events = profiled(run_all)
    for event in events:
        if event.name().startswith("phase "):
            spans.append((event.start_ns(), event.end_ns(), names[int(event.name()[6:])]))
    for event in events:
        if event.name() != "[memory]":
            continue
        for start, end, name in spans:
            if start <= event.start_ns() <= end:
                peaks[name] = max(peaks.get(name, live), live)
        live += event.nbytes()
        for start, end, name in spans:
            if start <= event.start_ns() <= end:
                peaks[name] = max(peaks[name], live)
    return peaks


def allocated_bytes(run):
    """All bytes that run() ever asked for."""
    events = profiled(run)
    return sum(event.nbytes() for event in events
               if event.name() == "[memory]" and event.nbytes() > 0)


def kernels(run, names):
    """How often run() called each of these: {"aten::add": 2, ...}."""
    called = [event.name() for event in profiled(run)]
    return {name: called.count(name) for name in names}


def rng_state_bytes():
    return torch.get_rng_state().nbytes


def growths(phases):
    """Of (name, run) pairs, run one after the other: {name: the most bytes out during it, over what
    was out when it began}."""
    names = []

    def run_all():
        for name, run in phases:
            names.append(name)
            with record_function(f"phase {len(names) - 1}"):
                run()

    most, live, end = {}, 0, None
    events = profiled(run_all)
    for event in events:
        if event.name().startswith("phase "):
            name, live, end = names[int(event.name()[6:])], 0, event.end_ns()
            most[name] = 0
        elif event.name() == "[memory]" and end is not None and event.start_ns() <= end:
            live += event.nbytes()
            most[name] = max(most[name], live)
    return most
