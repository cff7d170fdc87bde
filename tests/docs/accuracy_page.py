#!/usr/bin/env python3
"""docs/accuracy.md, which `cairn check` makes of the measurements in tests/measured.

    tests/docs/accuracy_page.py --cairn build/release/cairn [--update]

Compares the page with what the program writes, or with --update writes it there. Exit code 1 when
they differ. Whether the bounds are met, the page says; `cairn check tests/measured` exits with it.
"""

import argparse
import difflib
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "accuracy.md"


def made_page(cairn):
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "accuracy.md"
        command = [cairn, "check", "tests/measured", "--md", str(page)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        if done.returncode not in (0, 1):
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
        return page.read_text(encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--cairn", required=True)
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    made = made_page(str(pathlib.Path(arguments.cairn).resolve()))
    found = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if made == found:
        print("docs/accuracy.md is what cairn says\n1 passed, 0 failed")
        return 0
    if arguments.update:
        PAGE.write_text(made, encoding="utf-8")
        print("docs/accuracy.md: written")
        return 0
    difference = difflib.unified_diff(found.splitlines(), made.splitlines(), "docs/accuracy.md",
                                      "made now", lineterm="")
    print("docs/accuracy.md is not what cairn says; run with --update:")
    print("\n".join(list(difference)[:60]))
    print("0 passed, 1 failed")
    return 1


if __name__ == "__main__":
    sys.exit(main())
