#!/usr/bin/env python3
"""docs/accuracy.md, which `cairn check` makes of the measurements in tests/measured.

    tests/docs/accuracy_page.py --cairn build/release/cairn [--update]

Compares the page with what the program writes, or with --update writes it there. Exit code 1 when
they differ. Whether the bounds are met, the page says; `cairn check tests/measured` exits with it.
"""

import pathlib
import subprocess
import sys
import tempfile

from made_page import ROOT, compare_or_update


def made_page(cairn, _):
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "accuracy.md"
        command = [cairn, "check", "tests/measured", "--md", str(page)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        if done.returncode not in (0, 1):
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
        return page.read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(compare_or_update(__doc__, "accuracy.md", made_page))
