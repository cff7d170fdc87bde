#!/usr/bin/env python3
"""Holds the memory that runs add to the process against the peaks that are simulated.

    tests/cli/footprint.py --cairn build/release/cairn

A model whose peaks are over 1 GiB runs one training step with every layer recomputed, and one with
everything kept; what each adds is to be within 3 % of its peak. For a build without sanitizers:
theirs keep what is freed. Exit code 1 where one does not hold.
"""

import argparse
import json
import os
import subprocess
import sys

MODEL = ["gpt2", "--set", "layers=4", "--tokens", "128", "--precision", "fp32"]
GIB = 1 << 30
MOST_ERROR = 0.03


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cairn", required=True)
    command = [parser.parse_args().cairn, "run", *MODEL, "--checkpointing", "every-layer",
               "--steps", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    report = json.loads(done.stdout)
    failed = 0
    for run in report["plan"], report["keep_all"]:
        peak, footprint = run["simulated_peak_bytes"], run["footprint_bytes"]
        error = footprint / peak - 1
        holds = peak > GIB and abs(error) <= MOST_ERROR
        failed += not holds
        print(f"{'ok  ' if holds else 'FAIL'} {run['checkpointing']}: simulated {peak / GIB:.3f} "
              f"GiB, the process {footprint / GIB:.3f} GiB, {100 * error:+.2f} %")
    print(f"{2 - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
