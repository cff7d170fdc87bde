"""Every model type that Transformers knows, by its default config: counted exactly, or refused."""

import functools
import json
import os
import subprocess

import pytest
import yaml
from conftest import REPOSITORY
from parameter_counts_test import count
from transformers import CONFIG_MAPPING

# What a model without "architectures" is for, where that is no language model.
CLASS_OF_TYPE = {"resnet": "ResNetForImageClassification"}

# Their default configs ask a server for another model's config.
NEEDS_NETWORK = "the default config of {} is made of files on a server"


@functools.lru_cache(maxsize=None)
def known_types():
    types = set()
    for path in (REPOSITORY / "models" / "families").glob("*.yaml"):
        named = yaml.safe_load(path.read_text()).get("model_types", [])
        types |= {named} if isinstance(named, str) else set(named)
    return types & set(CONFIG_MAPPING)


UNCOUNTED = yaml.safe_load((REPOSITORY / "models" / "uncounted" / "hugging_face.yaml").read_text())


@functools.lru_cache(maxsize=None)
def default_config(model_type):
    try:
        return CONFIG_MAPPING[model_type]()
    except Exception:  # noqa: BLE001: each class that needs more fails in a way of its own
        return None


def show(config, folder):
    (folder / "config.json").write_text(json.dumps(config.to_dict(), default=str))
    binary = os.environ.get("CAIRN_BINARY", str(REPOSITORY / "build" / "release" / "cairn"))
    return subprocess.run([binary, "show", str(folder), "--json"], capture_output=True, text=True)


@pytest.mark.parametrize("model_type", sorted(known_types()))
def test_the_default_config_of_a_known_type_has_the_parameters_that_transformers_makes(
        model_type, tmp_path):
    config = default_config(model_type)
    run = show(config, tmp_path)
    if run.returncode == 2:  # DeepSeek V2's has no number of experts a token
        nulls = [key for key, value in config.to_dict().items() if value is None]
        assert any(f"key '{key}': expected a value, found nothing" in run.stderr for key in nulls)
        return
    assert run.returncode == 0, run.stderr
    expected = count(config, CLASS_OF_TYPE.get(model_type))
    assert json.loads(run.stdout)["parameters"] == expected


@pytest.mark.parametrize("model_type", sorted(set(CONFIG_MAPPING) - known_types()))
def test_another_type_is_refused_by_name(model_type, tmp_path):
    config = default_config(model_type)
    if config is None:
        pytest.skip(NEEDS_NETWORK.format(model_type))
    values = config.to_dict()
    if values["model_type"] in known_types():
        pytest.skip(f"{model_type} calls itself {values['model_type']}")
    run = show(config, tmp_path)
    assert run.returncode == 2
    assert values["model_type"] in run.stderr
    missing = [what for section in UNCOUNTED.values() if isinstance(section, dict)
               for key, what in section.items() if values.get(key) is not None]
    if missing:
        assert any(what in run.stderr for what in missing)
    if values.get("text_config") is not None:
        assert "--part text" in run.stderr
