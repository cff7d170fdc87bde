"""Parameter counts: Transformers' own models against Cairn, exactly."""

import json

import pytest
import torch
import transformers
import yaml
from conftest import HF_CONFIGS, REPOSITORY, cairn
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

MODELS = REPOSITORY / "models"

# What a config without "architectures" is a model for.
CLASS_OF_TYPE = {"bert": "BertForMaskedLM", "t5": "T5ForConditionalGeneration",
                 "vit": "ViTForImageClassification"}


def count(config, architecture=None):
    kind = getattr(transformers, architecture or CLASS_OF_TYPE.get(config.model_type, ""), None)
    with torch.device("meta"):
        model = kind(config) if kind else AutoModelForCausalLM.from_config(config)
    return sum(parameter.numel() for parameter in model.parameters())  # tied weights once


def config_of(values):
    values = dict(values)
    return CONFIG_MAPPING[values.pop("model_type")].from_dict(values)


@pytest.mark.skipif(not HF_CONFIGS.exists(), reason=f"{HF_CONFIGS.name} is not beside the checkout")
@pytest.mark.parametrize("path", sorted(HF_CONFIGS.glob("*.json")), ids=lambda path: path.stem)
def test_a_config_json_has_the_parameters_that_transformers_makes_of_it(path):
    values = json.loads(path.read_text())
    expected = count(config_of(values), (values.get("architectures") or [None])[0])
    assert cairn("show", path)["parameters"] == expected


def sections_of(family):
    """The family file's sections, those it includes merged in."""
    merged = {}
    included = family.get("include", [])
    for name in [included] if isinstance(included, str) else included:
        merged |= sections_of(yaml.safe_load((MODELS / "sections" / f"{name}.yaml").read_text()))
    for section in ("texts", "dims", "flags", "rates", "factors"):
        merged |= family.get(section) or {}
    return merged


def first_key(keys):
    if isinstance(keys, dict):  # {key: sliding_window, default: 4096, if_null: 0}
        keys = keys["key"]
    if isinstance(keys, list):  # older configs have a plain key where newer ones have a path
        return next((key for key in keys[:-1] if "." not in key), keys[0])
    return keys


def config_of_catalogue_model(name):
    """The Transformers config with a catalogue model's dims, by the keys its family reads."""
    model = yaml.safe_load((MODELS / "catalogue" / f"{name}.yaml").read_text())
    family = yaml.safe_load((MODELS / "families" / f"{model['family']}.yaml").read_text())
    types = family.get("model_types", [])
    types = [types] if isinstance(types, str) else types
    if not types or types[0] not in CONFIG_MAPPING:
        pytest.skip(f"Transformers has no {model['family']}: see vision_test.py and flops_test.py")
    sections = sections_of(family)
    values = {"model_type": types[0]}
    for dim, value in model["dims"].items():
        keys = sections[dim]
        key = first_key(keys)
        if isinstance(keys, dict) and keys.get("if_null") == value:
            value = None  # 0 stands for a null: there is none
        if not key.replace("_", "").isalnum():
            pytest.skip(f"{key} is a path: torchvision's models are the oracle (vision_test.py)")
        values[key] = value
    return values


def catalogue():
    return sorted(path.stem for path in (MODELS / "catalogue").glob("*.yaml"))


@pytest.mark.parametrize("name", catalogue())
def test_a_catalogue_model_has_the_parameters_that_transformers_makes_of_its_dims(name):
    expected = count(config_of(config_of_catalogue_model(name)))
    assert cairn("show", name)["parameters"] == expected
