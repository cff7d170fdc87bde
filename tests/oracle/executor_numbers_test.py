"""Numbers that change no byte: Cairn has those of a config.json, and what it leaves out as
Transformers has it."""

import json

import pytest
import transformers
from conftest import cairn

# What is read: class of the config, its key, Cairn's dim.
NUMBERS = [(f"{kind}Config", "rms_norm_eps", "epsilon")
           for kind in ("Llama", "Mistral", "Qwen2", "Qwen3", "Phi3", "Gemma", "Gemma2",
                        "Gemma3Text", "Mixtral", "Qwen3Moe", "GptOss", "DeepseekV2",
                        "DeepseekV3")]
NUMBERS += [(f"{kind}Config", "layer_norm_eps", "epsilon") for kind in ("GPTNeoX", "Bert", "ViT")]
NUMBERS += [(f"{kind}Config", "layer_norm_epsilon", "epsilon") for kind in ("GPT2", "T5")]
NUMBERS += [(f"{kind}Config", "query_pre_attn_scalar", "score_width")
            for kind in ("Gemma2", "Gemma3Text")]
NUMBERS += [(f"Deepseek{kind}Config", "routed_scaling_factor", "routed_factor")
            for kind in ("V2", "V3")]
NUMBERS += [("GPT2Config", "scale_attn_weights", "scaled"),
            ("GPT2Config", "scale_attn_by_inverse_layer_idx", "scaled_by_layer")]
OTHERS = {bool: lambda value: not value, int: lambda value: value + 1, float: lambda _: 0.375}
DIMS = {"DeepseekV2Config": dict(num_experts_per_tok=2)}


def dims_of(folder, config):
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return cairn("show", path)["dims"]


@pytest.mark.parametrize("kind, key, dim", NUMBERS)
def test_a_number_is_the_configs_or_its_class_default(kind, key, dim, tmp_path):
    config = getattr(transformers, kind)(**DIMS.get(kind, {})).to_dict()
    default = config[key]
    config[key] = OTHERS[type(default)](default)
    assert dims_of(tmp_path, config)[dim] == config[key]
    del config[key]
    assert dims_of(tmp_path, config)[dim] == default
