#!/usr/bin/env python3
"""Runs the commands that README.md and docs/*.md show, and compares what they print.

    run_readme.py [--cairn BINARY] [--update] [FILE.md ...]

Every fenced block whose info string is `console` is run; `console no-run` is not. In a block:

    $ ./dev fit llama-3.1-8b --gpu rtx4090
    what it prints, stdout and stderr together,
    ...
    line by line
    [exit 1]

* `$ ./dev X` and `$ cairn X` both run `X` with the binary under test, through bash, so pipes work.
  A line that ends in a backslash goes on in the next. ./dev's own verbs belong in a no-run block.
* `...` alone on a line stands for any lines, or none. `[exit N]` ends the output of a command that
  exits with N; without it the exit code must be 0.
* The commands of one document run one after the other in a folder that shows the repository's
  entries as links, so what they write does not land in the checkout.

--update writes what the commands print into the blocks that do not match.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "cli"))
from run_cli_tests import matches  # noqa: E402

TIMEOUT_SECONDS = 300

# ./dev, as far as documents may use it: all but its own verbs.
DEV_SCRIPT = """#!/usr/bin/env bash
case "${1:-}" in
  build | test | tidy | format | fuzz | bench)
    echo "./dev $1 cannot run inside a document test: use a 'console no-run' block"
    exit 125
    ;;
esac
exec cairn "$@"
"""


@dataclass
class Command:
    line: int  # in the document, from 1
    text: list[str]  # as written, the first with its "$ "
    output: list[str]  # as written, with its `[exit N]` line


def split(lines: list[str]) -> list[str | Command]:
    """The document as plain lines and, for what is to be run, commands."""
    parts: list[str | Command] = []
    fence = None  # the fence that closes the block we are in
    running = False
    for number, line in enumerate(lines, start=1):
        opened = re.match(r"\s*(`{3,}|~{3,})\s*(.*?)\s*$", line)
        if fence is None:
            if opened:
                fence, running = opened[1], opened[2] == "console"
            parts.append(line)
        elif opened and opened[1].startswith(fence) and not opened[2]:
            fence = None
            parts.append(line)
        elif not running:
            parts.append(line)
        elif line.startswith("$ "):
            parts.append(Command(line=number, text=[line], output=[]))
        elif isinstance(parts[-1], Command):
            command = parts[-1]
            goes_on = not command.output and command.text[-1].endswith("\\")
            (command.text if goes_on else command.output).append(line)
        else:
            parts.append(line)  # before the block's first command
    return parts


def run(command: Command, work: Path, environment: dict[str, str]) -> list[str]:
    """What the command prints, followed by `[exit N]` when N is not 0."""
    try:
        done = subprocess.run(
            ["bash", "-c", "\n".join(command.text)[2:]], cwd=work, env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        return [f"stopped after {TIMEOUT_SECONDS} s", "[exit 124]"]
    lines = done.stdout.decode("utf-8", "backslashreplace").splitlines()
    return lines + ([f"[exit {done.returncode}]"] if done.returncode else [])


def run_document(path: Path, binary: Path, update: bool) -> tuple[int, int]:
    """Runs one document; returns how many commands passed and failed."""
    passed = failed = 0
    written: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        tools, work = Path(folder) / "tools", Path(folder) / "work"
        tools.mkdir()
        work.mkdir()
        (tools / "cairn").symlink_to(binary)
        for entry in ROOT.iterdir():
            if entry.name != "dev":
                (work / entry.name).symlink_to(entry)
        (work / "dev").write_text(DEV_SCRIPT, encoding="utf-8")
        (work / "dev").chmod(0o755)
        environment = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}", LC_ALL="C.UTF-8",
                           OMP_WAIT_POLICY="passive")  # other tests run beside it
        for part in split(path.read_text(encoding="utf-8").splitlines()):
            if isinstance(part, str):
                written.append(part)
                continue
            actual = run(part, work, environment)
            if matches(part.output, actual):
                passed += 1
                actual = part.output
            elif update:
                passed += 1
                print(f"updated {path}:{part.line}: {part.text[0]}")
            else:
                failed += 1
                print(f"FAILED {path}:{part.line}: {part.text[0]}")
                for label, lines in (("expected", part.output), ("found", actual)):
                    print(f"  {label}:" + ("" if lines else " nothing"))
                    print("".join(f"    | {line}\n" for line in lines), end="")
            written += part.text + actual
    if update:
        path.write_text("".join(f"{line}\n" for line in written), encoding="utf-8")
    return passed, failed


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the commands the documents show.")
    parser.add_argument("--cairn", type=Path, default=ROOT / "build" / "release" / "cairn",
                        help="the binary to run; default: build/release/cairn")
    parser.add_argument("--update", action="store_true", help="write what the commands print")
    parser.add_argument("files", type=Path, nargs="*", help="default: README.md and docs/*.md")
    options = parser.parse_args()
    if not options.cairn.is_file():
        print(f"{options.cairn}: no such binary; build it first")
        return 2

    documents = options.files or [*ROOT.glob("README.md"), *sorted((ROOT / "docs").glob("*.md"))]
    passed = failed = 0
    for path in documents:
        counts = run_document(path, options.cairn.resolve(), options.update)
        passed += counts[0]
        failed += counts[1]
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
