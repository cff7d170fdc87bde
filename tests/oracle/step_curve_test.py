"""The curve of a step's live bytes, from its first op to its last: torch's CPU allocator against the
timeline of `cairn simulate`. In backward, each layer's highest bytes are torch's but for those that
peak_test.py names; so is the peak of the step, and it is at the same place. In forward, where no
peak is, a module's locals hold what Cairn counts as freed.

tests/docs/draw_step_curve.py draws the two.
"""

import pytest
import torch
from peak_test import unmodelled_bytes
from step_curve import inputs_of, measured, peak_of, simulated

import models

LAYERS, VOCAB = 4, 2000
DIMS = {"llama": dict(hidden_size=256, num_attention_heads=4, num_key_value_heads=2,
                      intermediate_size=688),
        "gpt2": dict(n_embd=256, n_head=4)}


def build(kind, checkpointing):
    model = models.build(kind, "cpu", torch.float32, "sdpa", layers=LAYERS, vocab=VOCAB,
                         **DIMS[kind])
    if checkpointing == "every-layer":
        models.checkpoint_layers(model)
    return model


def simulate_options(batch, tokens, checkpointing):
    return ["--batch", batch, "--tokens", tokens, "--optimizer", "sgd",
            "--checkpointing", checkpointing]


@pytest.mark.parametrize("kind", DIMS)
@pytest.mark.parametrize("batch, tokens", [(4, 128), (2, 256)])
@pytest.mark.parametrize("checkpointing", ["none", "every-layer"])
def test_the_curve_is_torchs_in_backward(cairn_on, kind, batch, tokens, checkpointing):
    model = build(kind, checkpointing)
    answer = cairn_on(model, "simulate", *simulate_options(batch, tokens, checkpointing))
    expected = simulated(answer, LAYERS)
    segments = measured(model, inputs_of(model, batch, tokens))
    assert [segment.name for segment in segments] == [segment.name for segment in expected]
    differences = {theirs.name: max(theirs.live) - max(ours.live)
                   for theirs, ours in zip(segments, expected)}

    def explained(in_loss, layers):
        return unmodelled_bytes(model, kind, "sdpa", checkpointing == "every-layer", in_loss, batch,
                                tokens, layers)

    assert differences["backward last"] == explained(True, LAYERS)
    for layer in range(LAYERS):
        assert differences[f"backward layer {layer}"] == explained(False, layer + 1)
    if (kind, checkpointing) == ("llama", "none"):  # the positions, which nothing keeps
        for layer in range(LAYERS):
            assert differences[f"forward layer {layer}"] == 8 * tokens
    place, peak = peak_of(segments)
    assert place == peak_of(expected)[0]
    assert place == ("backward last" if checkpointing == "none" else "backward layer 0")
    assert peak - peak_of(expected)[1] == differences[place]
