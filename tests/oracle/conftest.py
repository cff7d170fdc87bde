"""What all oracle tests share: Cairn's answers as JSON, and the models they are held against.

Run by `./dev test`, which sets CAIRN_BINARY.
"""

import json
import os
import pathlib
import subprocess
import sys

# Transformers looks once whether accelerate, peft and bitsandbytes are there, where it is imported.
sys.path.append(str(pathlib.Path(sys.prefix) / "finetune"))  # finetune_requirements.txt
os.environ["HF_HUB_OFFLINE"] = "1"  # some configs ask a server; read when Transformers is imported

import pytest
import torch

TESTS = pathlib.Path(__file__).resolve().parent
REPOSITORY = TESTS.parent.parent
HF_CONFIGS = REPOSITORY.parent / "shared" / "data" / "hf_configs"


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs an NVIDIA GPU")
    torch.set_num_threads(1)  # tiny models: more threads only wait for each other


def run_cairn(*arguments):
    binary = os.environ.get("CAIRN_BINARY", str(REPOSITORY / "build" / "release" / "cairn"))
    return subprocess.run([binary, *map(str, arguments), "--json"], capture_output=True, text=True)


def refused(*arguments):
    """Runs `cairn ARGUMENTS`, which must refuse them; returns what it says."""
    run = run_cairn(*arguments)
    assert run.returncode == 2
    return run.stderr


def cairn(*arguments):
    """Runs `cairn ARGUMENTS --json`; returns the object it prints."""
    run = run_cairn(*arguments)
    assert run.returncode in (0, 1), run.stderr
    return json.loads(run.stdout)


@pytest.fixture
def cairn_on(tmp_path):
    """cairn_on(model, "show", ...): Cairn about the config.json of a Transformers model."""

    def ask(model, command, *options, precision=None):
        model.config.to_json_file(tmp_path / "config.json")
        precision = precision or {torch.float32: "fp32", torch.bfloat16: "bf16"}[model.dtype]
        attention = ["--attention", model.config._attn_implementation]
        return cairn(command, tmp_path / "config.json", "--precision", precision, *attention,
                     *options)

    return ask
