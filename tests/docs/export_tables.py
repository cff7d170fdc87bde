#!/usr/bin/env python3
"""The table of docs/export.md: what each target makes of each kind of plan.

    tests/docs/export_tables.py --cairn build/release/cairn [--update]

Makes the table with the program and compares it with the page, or with --update writes it there,
between the two marks. Exit code 1 when they differ.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

from made_page import between_marks, compare_or_update

LAYERS = 8
MODEL = ["llama-3.2-1b", "--set", f"layers={LAYERS}", "--batch", "4"]


def run(cairn, *arguments):
    command = [cairn, *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def plans(cairn):
    """A plan file's regions, and its order, of each kind."""
    every = json.loads(run(cairn, "export", *MODEL, "--checkpointing", "every-layer", "--to",
                           "json")["text"])
    edges = [(region["first_op"], region["last_op"]) for region in every["regions"]]
    steps = run(cairn, "simulate", *MODEL)["steps"]
    order = [step["op"] for step in steps if step["kind"] == "forward"]
    swapped = list(order)
    q, k = swapped.index("layers.0.attn.q"), swapped.index("layers.0.attn.k")
    swapped[q], swapped[k] = swapped[k], swapped[q]

    def region(first, last=None, **more):
        return {"first": edges[first][0], "last": edges[first if last is None else last][1]} | more

    def layers(*numbers):
        return [region(number) for number in numbers]

    attention = ["attn.attend", "attn.attend.logsumexp"]
    return {
        "nothing recomputed": ([], None),
        "all layers": (layers(*range(LAYERS)), None),
        "every 2nd, from layer 0": (layers(*range(0, LAYERS, 2)), None),
        "every 2nd, from layer 1": (layers(*range(1, LAYERS, 2)), None),
        "the first 3": (layers(0, 1, 2), None),
        "a set: 0, 3, 4": (layers(0, 3, 4), None),
        "equal runs of 2": ([region(i, i + 1) for i in range(0, LAYERS, 2)], None),
        "equal runs of 3": ([region(0, 2), region(3, 5), region(6, 7)], None),
        "runs: 0-3, 5-6": ([region(0, 3), region(5, 6)], None),
        "nested: 0-1 in 0-3": ([region(0, 3, regions=[region(0, 1)])], None),
        "keep lists: attention": (
            [region(i, keep=[f"layers.{i}.{name}" for name in attention])
             for i in range(LAYERS)], None),
        "keep lists: q of some": (
            [region(i, keep=[f"layers.{i}.attn.q"]) for i in range(3)], None),
        "parts of layers: MLPs": (
            [{"first": f"layers.{i}.norm2.x32", "last": f"layers.{i}.mlp.down"}
             for i in range(LAYERS)], None),
        "another order of ops": (layers(*range(LAYERS)), swapped),
    }


def cell(answer):
    exported = answer["exported"]
    if answer["verdict"] == "exact":
        return "exact"
    if answer["verdict"] == "refused":
        return "refused"
    return f"~ {exported['words']}"


TARGETS_A_TABLE = 5


def table(cairn):
    targets = [target["name"] for target in run(cairn, "export", "--list")["targets"]]
    cells = {}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "plan.json"
        for name, (regions, order) in plans(cairn).items():
            plan = {"cairn_plan": 1, "name": "by hand", "regions": regions}
            if order:
                plan["order"] = order
            path.write_text(json.dumps(plan), encoding="utf-8")
            cells[name] = [cell(run(cairn, "export", *MODEL, "--plan", str(path), "--to", target))
                           for target in targets]
    tables = []
    for first in range(0, len(targets), TARGETS_A_TABLE):
        some = slice(first, first + TARGETS_A_TABLE)
        rows = [f"| plan | {' | '.join(f'`{target}`' for target in targets[some])} |",
                "|---" * (len(targets[some]) + 1) + "|"]
        rows += [f"| {name} | {' | '.join(row[some])} |" for name, row in cells.items()]
        tables.append("\n".join(rows) + "\n")
    return "\n".join(tables)


def page(cairn, text):
    return between_marks(text, "export_tables.py", table(cairn))


if __name__ == "__main__":
    sys.exit(compare_or_update(__doc__, "export.md", page))
