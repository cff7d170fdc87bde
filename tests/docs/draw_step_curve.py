#!/usr/bin/env python3
"""Draws docs/step_curve.svg: the live bytes of a training step, torch's and Cairn's.

    draw_step_curve.py --cairn build/release/cairn [--output docs/step_curve.svg]

Needs the oracles' environment (tests/oracle/requirements.txt). The x axis is cut where a layer
begins or ends, each part as wide as the others; within one, events and steps are spread evenly.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "oracle"))

WIDTH, HEIGHT, LEFT, TOP, GAP = 860, 170, 62, 34, 58
BATCH, TOKENS = 4, 128
COLOURS = {"torch": "#c2410c", "Cairn": "#1d4ed8"}


def points(segments, highest):
    """(x, y) pixels; of each column of pixels the first, lowest and highest bytes alone."""
    part = WIDTH / len(segments)
    columns = {}
    for number, segment in enumerate(segments):
        for i, live in enumerate(segment.live):
            column = round((number + (i + 0.5) / len(segment.live)) * part)
            columns.setdefault(column, []).append(live)
    for column, lives in sorted(columns.items()):
        kept = [lives[0], min(lives), max(lives), lives[-1]]
        for live in dict.fromkeys(kept):
            yield column, round(HEIGHT * (1 - live / highest), 1)


def panel(title, curves, top):
    highest = 1.05 * max(max(segment.live) for curve in curves.values() for segment in curve)
    names = [segment.name for segment in next(iter(curves.values()))]
    lines = [f'<g transform="translate({LEFT},{top})">',
             f'<text x="0" y="-10" class="title">{title}</text>',
             f'<rect width="{WIDTH}" height="{HEIGHT}" class="frame"/>']
    step = 20_000_000
    for live in range(0, int(highest), step):
        y = round(HEIGHT * (1 - live / highest), 1)
        lines.append(f'<path d="M0 {y}H{WIDTH}" class="grid"/>'
                     f'<text x="-6" y="{y + 4}" class="axis">{live // 1_000_000} MB</text>')
    part = WIDTH / len(names)
    for number, name in enumerate(names):
        x = round(number * part, 1)
        phase, _, rest = name.partition(" ")
        lines.append(f'<path d="M{x} 0V{HEIGHT}" class="grid"/>')
        lines.append(f'<text x="{x + 3}" y="{HEIGHT + 13}" class="part">{phase}</text>'
                     f'<text x="{x + 3}" y="{HEIGHT + 24}" class="part">{rest}</text>')
    for who, curve in curves.items():
        path = " ".join(f"{x},{y}" for x, y in points(curve, highest))
        lines.append(f'<polyline points="{path}" stroke="{COLOURS[who]}" class="curve"/>')
    return lines + ["</g>"]


def svg(panels):
    height = TOP + len(panels) * (HEIGHT + GAP)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 12} {height}">',
             "<style>text{font:11px sans-serif;fill:#333}.title{font-size:13px}"
             ".axis{text-anchor:end}.part{font-size:9px}.frame{fill:#fff;stroke:#888}"
             ".grid{stroke:#ddd;fill:none}.curve{fill:none;stroke-width:1.2;stroke-opacity:.8}"
             "</style>", f'<rect width="100%" height="{height}" fill="#fff"/>']
    for number, who in enumerate(COLOURS):
        x = LEFT + WIDTH - 150 + 70 * number
        lines.append(f'<text x="{x}" y="16" style="fill:{COLOURS[who]}">&#8212; {who}</text>')
    for number, (title, curves) in enumerate(panels.items()):
        lines += panel(title, curves, TOP + number * (HEIGHT + GAP))
    return "\n".join(lines + ["</svg>"]) + "\n"


def curves_of(checkpointing):
    from conftest import cairn
    from step_curve import inputs_of, measured, simulated
    from step_curve_test import LAYERS, build, simulate_options

    model = build("llama", checkpointing)
    with tempfile.TemporaryDirectory() as folder:
        model.config.to_json_file(Path(folder) / "config.json")
        answer = cairn("simulate", Path(folder) / "config.json", "--precision", "fp32",
                       *simulate_options(BATCH, TOKENS, checkpointing))
    return {"torch": measured(model, inputs_of(model, BATCH, TOKENS)),
            "Cairn": simulated(answer, LAYERS)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cairn", default=str(ROOT / "build/release/cairn"))
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "step_curve.svg")
    options = parser.parse_args()
    os.environ["CAIRN_BINARY"] = str(Path(options.cairn).resolve())
    import torch
    torch.set_num_threads(1)
    panels = {f"Llama, 4 layers, hidden 256, fp32, batch {BATCH} x {TOKENS} tokens, checkpointing "
              f"{checkpointing}": curves_of(checkpointing)
              for checkpointing in ("none", "every-layer")}
    options.output.write_text(svg(panels), encoding="utf-8")


if __name__ == "__main__":
    main()
