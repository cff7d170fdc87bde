#!/usr/bin/env python3
"""Spoils every key that Cairn uses of every real config.json, one at a time.

    sweep_configs.py [--cairn BINARY]

A key is removed, made negative, or given values of wrong types. Each spoilt config must be refused
(exit code 2, with the file and the key in the message) or, where the key was removed, be read with
defaults that --explain-defaults names. Nothing may crash, hang, or be read as if nothing were wrong.
"""

import argparse
import copy
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CONFIGS = ROOT.parent / "shared" / "data" / "hf_configs"
SECONDS_ALLOWED = 20
WRONG_VALUES = {"text": "many", "list": [1, "x"], "mapping": {"a": 1}, "flag": True, "number": 7,
                "fraction": 1.5}
DTYPE_KEYS = ("dtype", "torch_dtype")  # of an unknown one bf16 is taken, and a note says so


def show(cairn, path):
    return subprocess.run([cairn, "show", str(path), "--json"], capture_output=True, text=True,
                          timeout=SECONDS_ALLOWED)


def top_key(path):
    return re.split(r"[.\[]", path)[0]


def used_keys(answer, config):
    """The keys of the config that something was read from."""
    origins = answer["dim_origins"].values()
    keys = {top_key(origin["what"]) for origin in origins if origin["from"] == "file"}
    keys |= {key for key in (*DTYPE_KEYS, "model_type", "text_config") if key in config}
    return sorted(key for key in keys if config.get(key) is not None)


def kind_of(value):
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, (int, float)):
        return "number"
    return {str: "text", list: "list", dict: "mapping"}[type(value)]


def spoilt(config, key):
    """(what was done, config) for each way to spoil one key."""
    without = copy.deepcopy(config)
    del without[key]
    yield "removed", without
    value = config[key]
    if kind_of(value) == "number":
        yield "negative", {**config, key: -value if value else -1}
    for name, wrong in WRONG_VALUES.items():
        fits = {"text": ("number", "text"), "number": ("number", "fraction")}
        if name != kind_of(value) and name not in fits.get(kind_of(value), ()):
            yield f"a {name}", {**config, key: wrong}
    if isinstance(value, int) and not isinstance(value, bool):
        yield "a fraction", {**config, key: value + 0.5}


def fault_of(cairn, path, key, what):
    """What is wrong with Cairn's answer to a spoilt config, or None."""
    try:
        run = show(cairn, path)
    except subprocess.TimeoutExpired:
        return f"no answer within {SECONDS_ALLOWED} s"
    if run.returncode == 2:
        names_key = key in run.stderr or (what == "removed" and key == "model_type")
        if names_key and path.name in run.stderr and not run.stdout:
            return None
        return f"the message does not name the key: {run.stderr.strip().splitlines()[:1]}"
    if run.returncode != 0:
        return f"exit code {run.returncode}: {run.stderr.strip()[:200]}"
    answer = json.loads(run.stdout)
    if key in DTYPE_KEYS and (what == "removed" or any(key[-5:] in n for n in answer["notes"])):
        return None
    if what != "removed":
        return "read as if nothing were wrong"
    still = [name for name, origin in answer["dim_origins"].items()
             if origin["from"] == "file" and top_key(origin["what"]) == key]
    return f"{still} still come from the removed key" if still else None


def check_config(cairn, source, folder):
    """(number of spoilt configs, faults) of one config.json."""
    config = json.loads(source.read_text("utf-8"))
    run = show(cairn, source)
    if run.returncode != 0:
        return 1, [f"{source.name}: is not read: {run.stderr.strip().splitlines()[:1]}"]
    count, faults = 0, []
    path = Path(folder) / source.name
    for key in used_keys(json.loads(run.stdout), config):
        for what, wrong in spoilt(config, key):
            path.write_text(json.dumps(wrong), "utf-8")
            fault = fault_of(cairn, path, key, what)
            count += 1
            if fault:
                faults.append(f"{source.name}: '{key}' {what}: {fault}")
    return count, faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cairn", default=str(ROOT / "build" / "release" / "cairn"))
    cairn = str(Path(parser.parse_args().cairn).resolve())
    sources = sorted(CONFIGS.glob("*.json"))
    if not sources:
        print(f"no {CONFIGS.name} beside the checkout\n0 passed, 0 failed, 1 skipped")
        return 0
    total, faults = 0, []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        for count, found in pool.map(lambda source: check_config(cairn, source, folder), sources):
            total += count
            faults += found
    for fault in faults:
        print(f"FAILED {fault}")
    print(f"{len(sources)} configs, {total} ways to spoil them")
    print(f"{total - len(faults)} passed, {len(faults)} failed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
