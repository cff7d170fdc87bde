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


def phase_levels(phases):
    """Of (name, run) pairs, run one after the other: [(name, levels)], the bytes out when it began
    and behind each allocation and free in it, over what was out before the first."""
    names = []

    def run_all():
        for name, run in phases:
            names.append(name)
            with record_function(f"phase {len(names) - 1}"):
                run()

    live, end, spans = 0, None, []
    for event in profiled(run_all):
        if event.name().startswith("phase "):
            spans.append((names[int(event.name()[6:])], [live]))
            end = event.end_ns()
        elif event.name() == "[memory]":
            live += event.nbytes()
            if spans and event.start_ns() <= end:
                spans[-1][1].append(live)
    return spans


def phase_peaks(phases):
    """{name: the most bytes out during the phases of that name}, over what was out before the
    first of all."""
    peaks = {}
    for name, levels in phase_levels(phases):
        peaks[name] = max(peaks.get(name, levels[0]), max(levels))
    return peaks


def growths(phases):
    """{name: the most bytes out during it, over what was out when it began}."""
    return {name: max(levels) - levels[0] for name, levels in phase_levels(phases)}


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
