"""Parameter counts: Transformers' own models against Cairn, exactly."""

import json

import pytest
import torch
from conftest import HF_CONFIGS, REPOSITORY, cairn
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, GPT2Config, LlamaConfig

FAMILIES = ("llama", "mistral", "gpt2")


def configs():
    paths = sorted(HF_CONFIGS.glob("*.json"))
    return [path for path in paths if json.loads(path.read_text()).get("model_type") in FAMILIES]


def count(config):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return sum(parameter.numel() for parameter in model.parameters())  # tied weights once


@pytest.mark.skipif(not HF_CONFIGS.exists(), reason=f"{HF_CONFIGS.name} is not beside the checkout")
@pytest.mark.parametrize("path", configs(), ids=lambda path: path.stem)
def test_a_config_json_has_the_parameters_that_transformers_makes_of_it(path):
    config = json.loads(path.read_text())
    model_type = config.pop("model_type")
    expected = count(CONFIG_MAPPING[model_type].from_dict(config))
    assert cairn("fit", path, "--tokens", 64)["parameters"] == expected


def config_of(dims):
    """The Transformers config with a catalogue model's dims."""
    common = {"vocab_size": dims["vocab"], "tie_word_embeddings": bool(dims["tied"])}
    if "kv_heads" not in dims:
        return GPT2Config(n_embd=dims["hidden"], n_layer=dims["layers"], n_head=dims["heads"],
                          n_inner=dims["ffn"], n_positions=dims["max_tokens"],
                          bos_token_id=0, eos_token_id=0, **common)
    return LlamaConfig(hidden_size=dims["hidden"], num_hidden_layers=dims["layers"],
                       num_attention_heads=dims["heads"], num_key_value_heads=dims["kv_heads"],
                       head_dim=dims["head_dim"], intermediate_size=dims["ffn"],
                       attention_bias=bool(dims["qkv_bias"]), mlp_bias=bool(dims["mlp_bias"]),
                       max_position_embeddings=dims["max_tokens"], **common)


def catalogue():
    return sorted(path.stem for path in (REPOSITORY / "models" / "catalogue").glob("*.yaml"))


@pytest.mark.parametrize("name", catalogue())
def test_a_catalogue_model_has_the_parameters_that_transformers_makes_of_its_dims(name):
    shown = cairn("show", name, "--tokens", 64)
    if shown["family"] not in FAMILIES:
        pytest.skip(f"Transformers has no {shown['family']}")
    assert shown["parameters"] == count(config_of(shown["dims"]))
