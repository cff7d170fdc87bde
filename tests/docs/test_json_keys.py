#!/usr/bin/env python3
"""Compares the JSON that cairn prints with the tables of docs/json.md.

    test_json_keys.py [--cairn BINARY]

For each command: every key that is printed is in a table, every key of a table is printed, each
value has the type of its row, and "or null" stands where null was seen and nowhere else.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PLAIN_GRAPH = "tests/models/graphs/x4_flash_attention.yaml"
NAMED = ("dims", "dim_origins", "implementations")  # whose keys are the model's own
EVERY, MODEL = "In every answer", "The model"
# Models that show what most have not: adapters, quantised weights, types.
TRAINED = ["llama-3.2-1b", "--set", "layers=2", "--tokens", "16"]
RECIPES = [TRAINED + ["--recipe", "qlora", "--optimizer-states", "bf16"],
           TRAINED + ["--lora", "4", "--quantize", "int8"]]
COSTS = ["tests/cli/files/two_branches.yaml", "--costs", "tests/cli/files/two_branches_costs.yaml"]

TINY_GPT = ["gpt2", "--set", "layers=1", "--set", "hidden=32", "--set", "heads=2", "--set",
            "max_tokens=32", "--set", "attention_dropout=0", "--tokens", "32", "--vocab", "256",
            "--precision", "fp32"]
SMALL_GRAPH = "tests/cli/files/small_blocks.yaml"

# Keys below these are not asked for: what only a wrong program prints, which
# tests/cli/run_report_test.cc makes, and what no command line above has.
EXEMPT = {"run": ("gradient_difference", "loss_difference", "plan.bytes_difference",
                  "keep_all.bytes_difference", "adapters", "quantization", "recipe",
                  "optimizer_states", "main_gradients", "expert_")}

# command: (the sections whose keys it prints, command lines that together show every key and null)
COMMANDS = {
    "fit": ([EVERY, MODEL, "cairn fit"],
            [["gpt2", "--gpu", "rtx4090"], ["gpt2", "--gpu", "24GiB", "--explain"], ["gpt2"], [PLAIN_GRAPH],
             ["llama-3.1-8b", "--gpu", "rtx4090"], *RECIPES]),
    "plan": ([EVERY, MODEL, "cairn plan"],
             [["gpt2", "--batch", "8", "--budget", "60%", "--for", "hf", "--keep", "*.attn",
               "--compare"],
              ["gpt2", "--gpu", "rtx4090", "--frontier"], ["gpt2", "--frontier"],
              ["gpt2", "--budget", "1GiB", "--algorithm", "none"],
              ["gpt2", "--batch", "8", "--gpu", "rtx4090", "--budget", "6GiB",
               "--algorithm", "none"],
              ["gpt2", "--batch", "8", "--budget", "60%", "--compare", "--recompute", "*.up"],
              ["gpt2", "--budget", "60%", "--shapes", "{folder}/shapes.yaml"],
              ["resnet-50", "--budget", "60%", "--shapes", "{folder}/images.yaml"],
              ["gpt2", "--budget", "1GiB", "--for", "hf"], [PLAIN_GRAPH, "--frontier"],
              COSTS + ["--budget", "116B"],
              *[recipe + ["--budget", "60%"] for recipe in RECIPES]]),
    "simulate": ([EVERY, MODEL, "cairn simulate"],
                 [["gpt2", "--gpu", "rtx4090", "--checkpointing", "sqrt"], ["gpt2"],
                  [PLAIN_GRAPH], COSTS, *RECIPES]),
    "run": ([EVERY, MODEL, "cairn run"],
            [[*TINY_GPT, "--checkpointing", "every-layer", "--limit", "1GiB"],
             [*TINY_GPT, "--alone"],
             [*TINY_GPT, "--optimizer", "sgd", "--learning-rate", "1e30"],
             [SMALL_GRAPH, "--checkpointing", "sqrt"]]),
    "export": ([EVERY, MODEL, "cairn export"],
               [["gpt2", "--checkpointing", "uniform:2", "--to", "hf", "--gpu", "rtx4090"],
                ["gpt2", "--to", "megatron", "--best", "--budget", "90%"],
                ["gpt2", "--to", "axolotl", "--best", "--budget", "1MiB"], ["--list"],
                [PLAIN_GRAPH, "--checkpointing", "every-layer", "--to", "json"],
                *[recipe + ["--checkpointing", "every-layer", "--to", "hf"]
                  for recipe in RECIPES]]),
    "show": ([EVERY, MODEL, "cairn show"], [["gpt2"], [PLAIN_GRAPH], *RECIPES]),
    "models": ([EVERY, "cairn models"], [["gpt2"], ["no such model"]]),
    "recipes": ([EVERY, "cairn recipes"], [[], ["no such recipe"]]),
    "gpus": ([EVERY, "cairn gpus"], [[], ["no such GPU"], ["--models", "{folder}"]]),
    "check": ([EVERY, "cairn check"],
              [["tests/cli/files/measured.yaml", "--bound", "p90=50%"],
               ["tests/cli/files/measured_bounds.yaml"]]),
}

# A GPU of which nothing is known, for the rates that every built-in one has.
UNKNOWN_GPU = "gpus:\n  - {id: unknown, name: Unknown card}\n"

TYPES = {"integer": int, "number": float, "text": str, "flag": bool, "object": dict,
         "null": type(None)}


def sections(text: str) -> dict[str, dict[str, str]]:
    """Key path: type, of each table, by heading."""
    found, heading = {}, ""
    for line in text.splitlines():
        if match := re.match(r"##+ (.*)", line):
            heading = match[1]
        elif match := re.match(r"\| `([^`]+)` \| ([^|]+) \|", line):
            found.setdefault(heading, {})[match[1]] = match[2].strip()
    return found


def anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")


def documented(command: str, tables: dict[str, dict[str, str]]) -> dict[str, str]:
    """Key path: type, with the keys of every table that a type links to, and of those it does."""
    by_anchor = {anchor(heading): table for heading, table in tables.items()}
    rows = {}

    def add(table: dict[str, str], prefix: str) -> None:
        for key, type_text in table.items():
            link = re.search(r"\[\w+\]\(#([\w-]+)\)", type_text)
            if not link:
                rows[prefix + key] = type_text
                continue
            is_list = type_text.startswith("list of ")
            null = " or null" if type_text.endswith(" or null") else ""
            rows[prefix + key] = ("list of objects" if is_list else "object") + null
            add(by_anchor[link[1]], f"{prefix}{key}{'[]' if is_list else ''}.")

    for heading in COMMANDS[command][0]:
        add(tables[heading], "")
    return rows


def values(value, path: str = ""):
    """(key path, value) of everything below `value`."""
    for key, inner in value.items():
        inner_path = f"{path}.{'NAME' if path in NAMED else key}".lstrip(".")
        yield inner_path, inner
        if isinstance(inner, dict):
            yield from values(inner, inner_path)
        elif isinstance(inner, list):
            for item in inner:
                if isinstance(item, dict):
                    yield from values(item, f"{inner_path}[]")


def has_type(value, type_text: str) -> bool:
    if type_text.startswith("list of "):
        item_type = re.sub(r"s\b", "", type_text.removeprefix("list of "))
        return isinstance(value, list) and all(has_type(item, item_type) for item in value)
    return any(type(value) is TYPES[name] for name in re.split(r", | or ", type_text))


def complaints(command: str, rows: dict[str, str], answers: list[dict]) -> list[str]:
    seen, nullable, wrong = set(), set(), set()
    for answer in answers:
        for path, value in values(answer):
            seen.add(path)
            type_text = rows.get(path, "")
            if path not in rows:
                wrong.add(f"{path} is printed, and not in a table")
            elif value is None:
                nullable.add(path)
                if not type_text.endswith(" or null"):
                    wrong.add(f"{path} is null, and its row does not say so")
            elif not has_type(value, type_text.removesuffix(" or null")):
                found = type(value).__name__
                wrong.add(f"{path} is printed as {found}, and its row says {type_text}")
    asked = {path for path in rows if not path.startswith(EXEMPT.get(command, ()))}
    wrong |= {f"{path} is in a table, and not printed" for path in asked - seen}
    wrong |= {f"{path} is never null here, and its row says {rows[path]}"
              for path in seen & asked - nullable if rows[path].endswith(" or null")}
    return [f"{command}: {complaint}" for complaint in sorted(wrong)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cairn", default=str(ROOT / "build" / "release" / "cairn"))
    cairn = str(Path(parser.parse_args().cairn).resolve())
    tables = sections((ROOT / "docs" / "json.md").read_text("utf-8"))
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "gpus").mkdir()
        (Path(folder) / "gpus" / "unknown.yaml").write_text(UNKNOWN_GPU, "utf-8")
        (Path(folder) / "shapes.yaml").write_text("- {batch: 2}\n- {tokens: 512}\n", "utf-8")
        (Path(folder) / "images.yaml").write_text("- {batch: 2}\n- {batch: 1}\n", "utf-8")
        for command, (_, cases) in COMMANDS.items():
            answers = []
            for case in cases:
                line = [cairn, command, *(word.format(folder=folder) for word in case), "--json"]
                run = subprocess.run(line, capture_output=True, text=True, cwd=ROOT)
                answers.append(json.loads(run.stdout))
            found = complaints(command, documented(command, tables), answers)
            failed += bool(found)
            for complaint in found:
                print(f"FAILED {complaint}")
    print(f"{len(COMMANDS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
