"""States and temporaries of the optimizers that users train with: real steps of the libraries
against `cairn show` and `cairn simulate`, in the first step and in a later one."""

import pytest
import torch
from live_bytes import growths
from optimizer_libraries import (any_precision_adamw, bitsandbytes, idle_kernels, lion, muon, of_all,
                                 state_bytes, trainers_own)

import models

BF16, FP32 = torch.bfloat16, torch.float32
# Tables past 100,000 elements (paged) and not of whole blocks; matrices of whole blocks and not, of
# fewer than 4,096 elements, and of as many; biases.
DIMS = {"llama": dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2,
                      intermediate_size=150),
        "gpt2": dict(n_embd=64, n_head=4)}
VOCAB = 2003
FOR_LOOP = ["--optimizer-loop", "for-loop"]
FOREACH = ["--optimizer-loop", "foreach"]

# As Trainer makes them, by the names of its --optim; the options that ask Cairn for the same.
TRAINERS = {"adamw_bnb_8bit": [], "lion_8bit": [], "lion_32bit": [], "paged_adamw_32bit": [],
            "paged_adamw_8bit": [], "paged_lion_8bit": [], "paged_lion_32bit": [],
            "adamw_torch_8bit": [], "adamw_torch_4bit": [], "adafactor": []}
MADE_HERE = {
    "lion": (lion, FOR_LOOP),
    "adafactor-torch": (of_all(torch.optim.Adafactor), []),
    "adafactor-torch foreach": (of_all(torch.optim.Adafactor, foreach=True), FOREACH),
    "muon": (lambda model: muon(model, fused=True), []),
    "muon for-loop": (lambda model: muon(model, foreach=False), FOR_LOOP),
    "adamw": (of_all(torch.optim.AdamW, fused=True), []),
    "adamw states bf16": (lambda model: any_precision_adamw(model, BF16),
                          ["--optimizer-states", "bf16"]),
    "adamw states fp32": (lambda model: any_precision_adamw(model, FP32),
                          ["--optimizer-states", "fp32"]),
}
# Counted for their states alone: torchao's step is compiled, which decides its temporaries, and
# states of another type are counted in one kernel, while AnyPrecisionAdamW is a loop.
OTHER_STEPS = ("adamw_torch", "adamw states")
KINDS = [(kind, dtype) for kind in DIMS for dtype in (FP32, BF16)]
CASES = [(kind, dtype, name) for kind, dtype in KINDS for name in (*TRAINERS, *MADE_HERE)]


def make_case(kind, dtype, name, folder):
    model = models.build(kind, "cpu", dtype, "sdpa", layers=2, vocab=VOCAB, **DIMS[kind])
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    make = trainers_own(name, folder) if name in TRAINERS else MADE_HERE[name][0]
    return model, make(model)


def step(optimizers):
    return lambda: [optimizer.step() for optimizer in optimizers]


@pytest.fixture(scope="module")
def stepped(tmp_path_factory):
    """{case: (model, optimizers)}, and {(case, step): the most bytes out during it}."""
    folder = str(tmp_path_factory.mktemp("trainer"))
    made = {case: make_case(*case, folder) for case in CASES}
    with idle_kernels():
        measured = growths(((case, number), step(made[case][1]))
                           for case in CASES for number in (1, 2))
    return made, measured


def step_peaks(ask, model, *options):
    """Of the optimizer's step, the first and a later one."""
    answer = ask(model, "simulate", "--tokens", 16, *options)
    row = next(row for row in answer["phases"] if row["phase"] == "optimizer step")
    return row["first_step_bytes"], row["bytes"]


BARE = {}  # peak with an optimizer without states, by (kind, dtype)


def counted(cairn_on, model, kind, name):
    """States on the device and paged, and what the first step's and a later one's peak have over
    parameters and gradients."""
    options = TRAINERS[name] if name in TRAINERS else MADE_HERE[name][1]
    options = ["--optimizer", name.split()[0], *options]
    shown = cairn_on(model, "show", *options)
    if (kind, model.dtype) not in BARE:
        BARE[kind, model.dtype], _ = step_peaks(cairn_on, model, "--optimizer", "sgd")
    bare = BARE[kind, model.dtype]
    first, later = step_peaks(cairn_on, model, *options)
    states = shown["model_optimizer_bytes"]
    return (states, shown["model_optimizer_paged_bytes"], first - bare, later - bare - states)


# Of bitsandbytes' states in 8 bits: on a CPU they come with the optimizer.
TABLES = {"adamw_bnb_8bit": 2048, "paged_adamw_8bit": 2048, "lion_8bit": 1024,
          "paged_lion_8bit": 1024}
# Learning rates and the like, as tensors of one element.
NUMBERS = 16


def unmodelled_bytes(kind, dtype, name):
    """What a step may have out that Cairn does not count: the CPU's own."""
    if name == "muon" and dtype == FP32:
        return 7200  # its 16-bit product packs a transposed matrix
    if name.startswith("adafactor-torch") and dtype == BF16:
        return 4 * VOCAB  # its mean of 16-bit numbers casts them first: of rows
    return 0


@pytest.mark.parametrize("kind, dtype, name", CASES, ids=str)
def test_a_first_and_a_later_step_have_the_bytes_that_cairn_counts(cairn_on, stepped, kind, dtype,
                                                                   name):
    made, measured = stepped
    model, optimizers = made[kind, dtype, name]
    states, paged, first, later = counted(cairn_on, model, kind, name)
    real_states, step_counts = state_bytes(optimizers)
    assert real_states == states + paged
    if name.startswith(OTHER_STEPS):
        return
    unmodelled = unmodelled_bytes(kind, dtype, name)
    assert 0 <= measured[(kind, dtype, name), 2] - later <= NUMBERS + unmodelled
    growth = measured[(kind, dtype, name), 1] - first - paged + TABLES.get(name, 0)
    assert 0 <= growth <= step_counts + NUMBERS + unmodelled


OWN = {"adamw-8bit": bitsandbytes.optim.AdamW8bit, "lion-8bit": bitsandbytes.optim.Lion8bit,
       "paged-adamw-8bit": bitsandbytes.optim.PagedAdamW8bit}


@pytest.mark.parametrize("name", OWN)
def test_embeddings_have_states_of_8_bits_where_no_trainer_asks_for_more(cairn_on, name):
    # torchtune's llama has the parameters of Transformers', and hands them to the optimizer as they are.
    model = models.build("llama", "cpu", BF16, "sdpa", layers=2, vocab=VOCAB, **DIMS["llama"])
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    bitsandbytes.optim.GlobalOptimManager.get_instance().initialize()  # without earlier trainers'
    optimizer = OWN[name](model.parameters())
    with idle_kernels():
        optimizer.step()
    states, _ = state_bytes([optimizer])
    shown = {library: cairn_on(model, "show", "--optimizer", name, "--library", library)
             for library in ("hf", "torchtune")}
    counted = {library: answer["model_optimizer_bytes"] + answer["model_optimizer_paged_bytes"]
               for library, answer in shown.items()}
    assert states == counted["torchtune"]
    table = VOCAB * DIMS["llama"]["hidden_size"]
    state_count = 1 if name == "lion-8bit" else 2
    scales = 4 * -(-table // 256)
    assert counted["hf"] - counted["torchtune"] == state_count * (3 * table - scales)
