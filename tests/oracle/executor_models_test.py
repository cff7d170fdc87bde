"""A tiny model, whole: loss and every gradient of Cairn's executor against Transformers on the CPU,
with the weights, tables and tokens that Cairn drew."""

import re

import pytest
import torch
import transformers
from executor_tensors import check_near, saved_tensors
from torch.nn import functional

BATCH, TOKENS, VOCAB = 2, 8, 50

GPT2 = dict(
    config=transformers.GPT2Config(
        n_embd=16, n_layer=2, n_head=4, n_positions=16, vocab_size=VOCAB, embd_pdrop=0.0,
        attn_pdrop=0.0, resid_pdrop=0.0),
    names=[(r"wte\.weight", "transformer.wte.weight"), (r"wpe\.weight", "transformer.wpe.weight"),
           (r"h\.(\d+)\.norm1\.", r"transformer.h.\1.ln_1."),
           (r"h\.(\d+)\.norm2\.", r"transformer.h.\1.ln_2."),
           (r"h\.(\d+)\.qkv\.", r"transformer.h.\1.attn.c_attn."),
           (r"h\.(\d+)\.o\.", r"transformer.h.\1.attn.c_proj."),
           (r"h\.(\d+)\.up\.", r"transformer.h.\1.mlp.c_fc."),
           (r"h\.(\d+)\.down\.", r"transformer.h.\1.mlp.c_proj."),
           (r"norm\.", "transformer.ln_f.")],
    transposed=("c_attn.weight", "c_proj.weight", "c_fc.weight"))

ROTARY = [(r"embed\.weight|table\.weight", "model.embed_tokens.weight"),
          (r"layers\.(\d+)\.norm1(\.\w+)?\.weight", r"model.layers.\1.input_layernorm.weight"),
          (r"layers\.(\d+)\.attn\.([qkvo])\.", r"model.layers.\1.self_attn.\2_proj."),
          (r"layers\.(\d+)\.attn\.([qk])_norm\.normed(\.\w+)?\.",
           r"model.layers.\1.self_attn.\2_norm."),
          (r"layers\.(\d+)\.mlp\.(gate|up|down)\.", r"model.layers.\1.mlp.\2_proj."),
          (r"norm(\.\w+)?\.weight", "model.norm.weight"), (r"logits\.weight", "lm_head.weight")]
TWO_NORMS = [(r"layers\.(\d+)\.norm2(\.\w+)?\.weight",
              r"model.layers.\1.post_attention_layernorm.weight")]
FOUR_NORMS = [
    (r"layers\.(\d+)\.attn_norm(\.\w+)?\.weight",
     r"model.layers.\1.post_attention_layernorm.weight"),
    (r"layers\.(\d+)\.norm2(\.\w+)?\.weight", r"model.layers.\1.pre_feedforward_layernorm.weight"),
    (r"layers\.(\d+)\.mlp_norm(\.\w+)?\.weight",
     r"model.layers.\1.post_feedforward_layernorm.weight")]

SIZES = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=4, vocab_size=VOCAB, max_position_embeddings=64)

MODELS = {
    "gpt2": GPT2,
    "llama": dict(config=transformers.LlamaConfig(**SIZES), names=ROTARY + TWO_NORMS),
    "mistral": dict(config=transformers.MistralConfig(**SIZES, sliding_window=None),
                    names=ROTARY + TWO_NORMS),
    "qwen2": dict(config=transformers.Qwen2Config(**SIZES), names=ROTARY + TWO_NORMS),
    "qwen3": dict(config=transformers.Qwen3Config(**SIZES), names=ROTARY + TWO_NORMS),
    "gemma": dict(config=transformers.GemmaConfig(**SIZES), names=ROTARY + TWO_NORMS),
    "gemma2": dict(
        config=transformers.Gemma2Config(**SIZES, query_pre_attn_scalar=4, sliding_window=4),
        names=ROTARY + FOUR_NORMS),
}


def names_of(saved, names):
    """Cairn's name of each parameter, by Transformers'."""
    found = {}
    for path in saved.folder.glob("*.grad.npy"):
        ours = path.name.removesuffix(".grad.npy")
        for pattern, theirs in names:
            match = re.match(pattern, ours)
            if match is None:
                continue
            found[match.expand(theirs) + ours[match.end():]] = ours
            break
        else:
            pytest.fail(f"no parameter of Transformers for {ours}")
    return found


def with_positions(model, saved):
    """The positions or tables that Cairn drew, whatever a model's own would be. Of position_ids in
    no order Transformers makes a mask of packed samples."""
    if (saved.folder / "cos.npy").exists():
        tables = (saved["cos"], saved["sin"])
        for module in model.modules():
            if type(module).__name__.endswith("RotaryEmbedding"):
                module.forward = lambda *_, **__: tables
    else:
        table = model.transformer.wpe
        table.forward = lambda _: functional.embedding(saved["positions"], table.weight)


def loss_of(model, saved):
    """Of each token's own label: Cairn's labels are shifted already."""
    logits = model(input_ids=saved["ids"], use_cache=False).logits
    return functional.cross_entropy(logits.flatten(0, 1).float(), saved["labels"].flatten())


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", MODELS)
def test_loss_and_gradients_are_those_of_transformers(name, attention, tmp_path):
    case = MODELS[name]
    if name == "gemma2" and attention == "sdpa":
        pytest.skip("Transformers leaves out the softcap, and says so")
    config = case["config"]
    config._attn_implementation = attention
    config.to_json_file(tmp_path / "config.json")
    saved = saved_tensors(tmp_path / "tensors", tmp_path / "config.json", "--batch", BATCH,
                          "--tokens", TOKENS, "--attention", attention)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.train()
    parameters = dict(model.named_parameters())
    names = names_of(saved, case["names"])
    assert set(names) == set(parameters)

    def turned(theirs, tensor):
        return tensor.T if theirs.endswith(case.get("transposed", ())) else tensor

    with torch.no_grad():
        for theirs, ours in names.items():
            parameters[theirs].copy_(turned(theirs, saved[ours]))
    with_positions(model, saved)
    loss = loss_of(model, saved)
    loss.backward()
    check_near("the loss", saved["loss"].reshape(()), loss)
    for theirs, ours in names.items():
        check_near(theirs, turned(theirs, saved.gradient(ours)), parameters[theirs].grad)
