"""The peak of a step under torch.autocast on a CPU."""
import pytest
import torch
from live_bytes import peak_bytes
import peak_test
import models
from peak_test import BATCH, TOKENS, LAYERS, LARGE_VOCAB, SMALL_VOCAB, FP32


def torch_peak(model):
    ids = torch.randint(0, model.config.vocab_size, (BATCH, TOKENS))
    inputs = {"input_ids": ids, "labels": ids.clone()}

    def step():
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(**inputs).loss
        loss.backward()

    step()
    model.zero_grad(set_to_none=True)
    return peak_bytes(step) + sum(t.nbytes for t in [*model.parameters(), *inputs.values()])


@pytest.mark.parametrize("plan", ["none", "every-layer"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("vocab", [LARGE_VOCAB, SMALL_VOCAB])
def test_p(cairn_on, vocab, attention, plan):
    kind = "llama"
    model = peak_test.build(kind, FP32, attention, vocab)
    if plan == "every-layer":
        models.checkpoint_layers(model)
    measured = torch_peak(model)
    sim = cairn_on(model, "simulate", "--batch", BATCH, "--tokens", TOKENS, "--optimizer",
                         "sgd", "--checkpointing", plan, precision="autocast-bf16")
    simulated = sim["peak_bytes"]
    explained = peak_test.unmodelled_bytes(model, kind, FP32, attention, plan == "every-layer", vocab)
    print("\n", vocab, attention, plan, measured, simulated, measured - simulated, explained, sim["peak_step"] if "peak_step" in sim else "")
    assert measured - simulated == explained
