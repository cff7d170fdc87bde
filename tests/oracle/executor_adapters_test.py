"""Adapters of a tiny Llama: loss and their gradients of Cairn's executor against PEFT on the CPU,
with the alpha of a recipe and with PEFT's own."""

import adapters
import pytest
import torch
import transformers
from executor_models_test import BATCH, ROTARY, SIZES, TOKENS, TWO_NORMS, loss_of, with_positions
from executor_tensors import check_near, saved_tensors, stands_for

RANK = 3
WHOLE = "base_model.model."
NAMES = [(r"layers\.(\d+)\.attn\.([qv])\.(?:a|low)\.",
          WHOLE + r"model.layers.\1.self_attn.\2_proj.lora_A.default."),
         (r"layers\.(\d+)\.attn\.([qv])\.(?:b|product)\.",
          WHOLE + r"model.layers.\1.self_attn.\2_proj.lora_B.default."),
         (r"layers\.(\d+)\.attn\.([qv])\.magnitude\.",
          WHOLE + r"model.layers.\1.self_attn.\2_proj.lora_magnitude_vector.default."),
         (r"layers\.(\d+)\.attn\.([qv])\.(base\.)?",
          WHOLE + r"model.layers.\1.self_attn.\2_proj.base_layer.")]
NAMES += [(ours, WHOLE + theirs) for ours, theirs in ROTARY + TWO_NORMS]

# What the recipe says beside the rank, and what PEFT is told.
SCALES = {
    "PEFT's own alpha": ("", {}),
    "alpha": (", alpha: 5", dict(lora_alpha=5)),
    "rsLoRA": (", alpha: 5, rslora: true", dict(lora_alpha=5, use_rslora=True)),
    "DoRA": (", alpha: 5, dora: true", dict(lora_alpha=5, use_dora=True)),
}


@pytest.mark.parametrize("name", SCALES)
def test_loss_and_gradients_are_those_of_peft(name, tmp_path):
    stated, told = SCALES[name]
    config = transformers.LlamaConfig(**SIZES)
    config._attn_implementation = "eager"
    config.to_json_file(tmp_path / "config.json")
    (tmp_path / "recipe.yaml").write_text(f"title: adapters\nlora: {{rank: {RANK}{stated}}}\n")
    saved = saved_tensors(tmp_path / "tensors", tmp_path / "config.json", "--batch", BATCH,
                          "--tokens", TOKENS, "--attention", "eager", "--recipe",
                          tmp_path / "recipe.yaml")
    model = transformers.LlamaForCausalLM(config).train()
    with_positions(model, saved)
    model = adapters.peft.get_peft_model(model, adapters.peft.LoraConfig(
        r=RANK, target_modules=["q_proj", "v_proj"], lora_dropout=0.0, **told))
    trained = []
    with torch.no_grad():
        for theirs, parameter in model.named_parameters():
            ours = stands_for(saved, NAMES, theirs)
            parameter.copy_(saved[ours].reshape(parameter.shape))
            if parameter.requires_grad:
                trained.append((theirs, parameter, ours))
    assert len(trained) == len(list(saved.folder.glob("*.grad.npy")))
    loss = loss_of(model, saved)
    loss.backward()
    check_near("the loss", saved["loss"].reshape(()), loss)
    for theirs, parameter, ours in trained:
        check_near(theirs, saved.gradient(ours).reshape(parameter.shape), parameter.grad)
