"""The peak of a whole step, forward, loss and backward: torch's allocator against `cairn simulate`.

Every byte of difference has a name here. Two vocabularies: with the large one the peak is at the
loss, with the small one in a layer.
"""

import pytest
import torch
from live_bytes import peak_bytes, rng_state_bytes, step_peak_bytes

import models

BATCH, TOKENS, LAYERS, HEADS = 2, 64, 4, 4
LARGE_VOCAB, SMALL_VOCAB = 2000, 64
BF16, FP32 = torch.bfloat16, torch.float32
ITEM_BYTES = {BF16: 2, FP32: 4}

# Windows wider than the tokens: a CPU's kernel with a mask is not a GPU's.
NO_WINDOW = dict(sliding_window=1000)
DIMS = {
    "llama": dict(hidden_size=64, num_attention_heads=HEADS, num_key_value_heads=2,
                  intermediate_size=172),
    "gpt2": dict(n_embd=64, n_head=HEADS), "mistral": NO_WINDOW, "gemma2": NO_WINDOW,
    "gemma3_text": NO_WINDOW,
}
DECODERS = ("llama", "gpt2", "mistral", "qwen2", "qwen3", "phi3", "gemma", "gemma2", "gemma3_text",
            "opt", "gpt_neox")
LAYER_NORMS = ("gpt2", "opt", "gpt_neox")  # all others have RMSNorm
# Products with a number, in a layer and after the layers.
SCALINGS = {"gpt2": (3, 0), "opt": (1, 0), "gemma2": (0, 2)}
# A small model's peak with a small vocabulary is in a layer; of these it is not in the attention
# kernel, whose workspace on a CPU is not a GPU's.
IN_A_LAYER = [("llama", "sdpa"), ("gpt2", "sdpa"), ("phi3", "sdpa")] + [
    (kind, "eager") for kind in ("llama", "gpt2", "mistral", "qwen2", "qwen3", "phi3", "gemma",
                                 "gemma2", "gemma3_text")]


def build(kind, dtype, attention, vocab):
    dims = DIMS.get(kind, {})
    return models.build(kind, "cpu", dtype, attention, layers=LAYERS, vocab=vocab, **dims)


def torch_peak(model):
    ids = torch.randint(0, model.config.vocab_size, (BATCH, TOKENS))
    return step_peak_bytes(model, {"input_ids": ids, "labels": ids.clone()})


def unmodelled_bytes(model, kind, attention, checkpointed, in_loss, batch=BATCH, tokens=TOKENS,
                     layers=None, scalings=SCALINGS):
    """What torch has out at the peak and Cairn does not count, or the other way round. The peak is
    in the loss, or in a layer's backward: the first one's, or the last of `layers`."""
    config, dtype = model.config, model.dtype
    # Layers whose checkpoint or saved tensors are there: only the first where its backward is the
    # peak, and that is where layers are checkpointed and the loss is small.
    layers = layers or (1 if checkpointed and not in_loss else LAYERS)
    rebuilt = LAYERS if not checkpointed else int(not in_loss)
    bytes_of = {}
    bytes_of["divisor of the mean loss, gradient of the loss"] = 4 + 4
    # x * 0.5 keeps 0.5, as a tensor of 8 bytes that no checkpoint drops.
    in_layer, after = scalings.get(kind, (0, 0))
    if attention == "eager":
        in_layer += 3 if kind == "gemma2" else 1  # its softcap
    bytes_of["constant factors"] = 8 * (in_layer * layers + (after if in_loss else 0))
    if checkpointed:
        bytes_of["random state of each checkpoint"] = rng_state_bytes() * layers
        if kind != "gpt2":  # handed to every layer; gpt2's are an input to Cairn
            bytes_of["positions"] = 8 * tokens * (batch if kind == "opt" else 1)
        if attention == "eager":  # of all layers of a kind; only checkpoints hold it for backward
            masks = len(set(getattr(config, "layer_types", ["all"])[:layers]))
            bytes_of["attention masks"] = masks * batch * tokens * tokens * ITEM_BYTES[dtype]
    if kind in LAYER_NORMS:  # a CPU's layer norm keeps mean and rstd in the activations' type
        norms = 2 * rebuilt + int(in_loss)
        narrower = 4 - ITEM_BYTES[dtype]
        bytes_of["statistics"] = -2 * norms * batch * tokens * narrower
    if kind == "gemma3_text":  # the first layers all have a window: no table of the others'
        bytes_of["tables"] = -2 * tokens * config.head_dim * ITEM_BYTES[dtype]
    return sum(bytes_of.values())


def cases():
    for kind in DECODERS:
        for vocab in (LARGE_VOCAB, SMALL_VOCAB):
            for attention in ("sdpa", "eager"):
                if vocab == SMALL_VOCAB and (kind, attention) not in IN_A_LAYER:
                    continue
                for dtype in (FP32, BF16) if kind in ("llama", "gpt2") else (BF16,):
                    for plan in ("none", "every-layer"):
                        name = f"{kind}, vocabulary {vocab}, {attention}, {dtype}, {plan}"
                        yield pytest.param(kind, vocab, attention, dtype, plan, id=name)


@pytest.fixture(scope="module")
def table(request):
    """The differences, printed when all cases have run."""
    rows = []
    yield rows
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print("\npeak of a step, bytes: torch, Cairn, difference, of it explained")
        for name, measured, simulated, explained in rows:
            print(f"  {name:64}{measured:>10,}{simulated:>11,}{measured - simulated:>8,}"
                  f" ({(measured - simulated) / measured:+.2%}){explained:>8,}")


@pytest.mark.parametrize("kind, vocab, attention, dtype, plan", list(cases()))
def test_the_peak_is_torchs_but_for_named_bytes(cairn_on, table, request, kind, vocab, attention,
                                                dtype, plan):
    model = build(kind, dtype, attention, vocab)
    if plan == "every-layer":
        models.checkpoint_layers(model)
    measured = torch_peak(model)
    simulated = cairn_on(model, "simulate", "--batch", BATCH, "--tokens", TOKENS, "--optimizer",
                         "sgd", "--checkpointing", plan)["peak_bytes"]
    explained = unmodelled_bytes(model, kind, attention, plan == "every-layer",
                                 in_loss=vocab == LARGE_VOCAB)
    table.append((request.node.callspec.id, measured, simulated, explained))
    assert measured - simulated == explained


@pytest.mark.parametrize("micro_batches", [1, 2])
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_tied_table_and_both_contributions_to_its_gradient_are_there_at_once(cairn_on, kind,
                                                                               micro_batches):
    # Few tokens: the peak is where the words' contribution is added to the head's, out of place; in
    # a second micro-batch beside the gradient that is there.
    few = 4
    tied = {"tie_word_embeddings": True} if kind == "llama" else {}
    model = models.build(kind, "cpu", FP32, "eager", layers=1, vocab=LARGE_VOCAB,
                         **DIMS[kind] | tied)
    ids = torch.randint(0, LARGE_VOCAB, (1, few))
    inputs = {"input_ids": ids, "labels": ids.clone()}
    if micro_batches == 1:
        measured = step_peak_bytes(model, inputs)
    else:
        model(**inputs).loss.backward()
        there = [*model.parameters(), *(weight.grad for weight in model.parameters()),
                 *inputs.values()]
        measured = peak_bytes(lambda: model(**inputs).loss.backward()) + sum(
            tensor.nbytes for tensor in there)
    answer = cairn_on(model, "simulate", "--batch", 1, "--tokens", few, "--optimizer", "sgd",
                      "--checkpointing", "none", "--accumulate", micro_batches)
    table = "embed" if kind == "llama" else "wte"
    assert answer["peak_at"].startswith(f"backward of {table}")
    sums = [item for item in answer["live_at_peak"] if item["name"].startswith("what the gradient")]
    assert [item["bytes"] for item in sums] == [2 * LARGE_VOCAB * 64 * 4]  # view, contribution
    bytes_of = {"the loss and its gradient": 4 + 4}
    if kind == "llama":
        bytes_of["cos and sin, gone by then"] = -2 * few * model.config.head_dim * 4
    else:
        bytes_of["positions, gone by then"] = -8 * few
    assert measured - answer["peak_bytes"] == sum(bytes_of.values())
