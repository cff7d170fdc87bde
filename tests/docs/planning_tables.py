#!/usr/bin/env python3
"""The measured tables of docs/planning.md: what auto costs where others fit, and the reverse.

    tests/docs/planning_tables.py --cairn build/release/cairn [--update]

Makes the tables with the program and compares them with the page, or with --update writes them
there, between the two marks. Exit code 1 when they differ.
"""

import json
import subprocess
import sys

from made_page import between_marks, compare_or_update

GPU = "h100-sxm"
MODELS = [
    ("llama-3.1-8b", "1 x 8,192 tokens", ["--tokens", "8192"]),
    ("qwen3-8b", "1 x 8,192 tokens", ["--tokens", "8192"]),
    ("gemma-2-2b", "1 x 8,192 tokens", ["--tokens", "8192"]),
    ("gpt2-xl", "8 x 1,024 tokens", ["--batch", "8", "--tokens", "1024"]),
    ("resnet-152", "64 images", ["--batch", "64"]),
]
TARGETS = [("prefix", "torch"), ("needed", "any")]
GIB = 1 << 30


def plan(cairn, model, options, target, budget, *more):
    command = [cairn, "plan", model, *options, "--gpu", GPU, "--for", target,
               "--budget", budget, "--json", *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def percent(value):
    return f"+{100 * value:.1f} %"


def gib(value):
    return f"{value / GIB:.1f}"


def halfway(a, b):
    return (a + b) // 2


def rows_of(cairn, model, title, options, extent, target):
    """Rows of both tables for a model and an extent."""
    whole = plan(cairn, model, options, target, "100%", "--compare", "--frontier")
    others = {row["algorithm"]: row for row in whole["compared"]
              if row["algorithm"] in ("every-layer", "sqrt")}
    every, sqrt = others["every-layer"], others["sqrt"]
    budgets = [("half of what every-layer saves",
                halfway(every["peak_bytes"], whole["keep_all_peak_bytes"])),
               ("the peak of every-layer", every["peak_bytes"]),
               ("the peak of sqrt", sqrt["peak_bytes"])]
    at_budgets = []
    for name, budget in budgets:
        answer = plan(cairn, model, options, target, f"{budget}B")["answer"]
        cost = [percent(row["slowdown"]) if row["peak_bytes"] <= budget else "-"
                for row in (every, sqrt)]
        at_budgets.append(f"| {title} | `{extent}` | {name} | {gib(budget)} "
                          f"| **{percent(answer['slowdown'])}** | {cost[0]} | {cost[1]} "
                          f"| {percent(answer['lower_bound']['slowdown'])} |")
    at_costs = []
    for row in (every, sqrt):
        peak = min(point["peak_bytes"] for point in whole["frontier"]["points"]
                   if point["slowdown"] <= row["slowdown"])
        at_costs.append(f"| {title} | `{extent}` | {row['algorithm']} | {percent(row['slowdown'])} "
                        f"| {gib(row['peak_bytes'])} | **{gib(min(peak, row['peak_bytes']))}** "
                        f"| {gib(whole['keep_all_peak_bytes'])} |")
    return at_budgets, at_costs


def tables(cairn):
    at_budgets = ["| model | extent | budget | GiB | auto | every-layer | sqrt | no plan below |",
                  "|---|---|---|---|---|---|---|---|"]
    at_costs = ["| model | extent | as slow as | slowdown | its peak, GiB | auto, GiB "
                "| keep all, GiB |", "|---|---|---|---|---|---|---|"]
    for model, size, options in MODELS:
        for extent, target in TARGETS:
            more_budgets, more_costs = rows_of(cairn, model, f"{model}, {size}", options, extent,
                                               target)
            at_budgets += more_budgets
            at_costs += more_costs
    return "\n".join(["Step time beyond keeping everything, at equal peak:", "", *at_budgets, "",
                      "Peak, at equal step time:", "", *at_costs]) + "\n"


def page(cairn, text):
    return between_marks(text, "planning_tables.py", tables(cairn))


if __name__ == "__main__":
    sys.exit(compare_or_update(__doc__, "planning.md", page))
