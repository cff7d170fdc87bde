#!/usr/bin/env python3
"""Runs the text tests of the command line, tests/cli/*.test.

    run_cli_tests.py [--cairn BINARY] [--update] [FILE.test ...]

A file holds cases, one after the other:

    # a sentence that says what is true
    $ cairn fit llama-3.1-8b --gpu rtx4090
    what stdout must be,
    ...
    line by line
    stderr:
    what stderr must be
    exit: 1

* The `$` line is run by bash, so pipes, `&&` and redirections work; `cairn` is the binary under
  test. A line that ends in a backslash goes on in the next.
* Each case runs in a new empty folder with the contents of tests/cli/files copied into it.
* `...` alone on a line stands for any lines, or none.
* Without a `stderr:` block stderr must be empty. `exit: N` is required, and ends the case.
* Blank lines and further `#` lines between cases are kept, and mean nothing.

--update writes what the commands do into each case that does not match; a case that matches, with
its `...` lines, stays as it is.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ANY_LINES = "..."
TIMEOUT_SECONDS = 120


class FormatError(Exception):
    pass


@dataclass
class Case:
    line: int  # of the `$` line, from 1
    title: str
    before: list[str] = field(default_factory=list)  # lines kept as they are, up to the `$` line
    command: list[str] = field(default_factory=list)  # lines, the first with its "$ "
    stdout: list[str] = field(default_factory=list)
    stderr: list[str] = field(default_factory=list)
    exit_code: int = 0

    def text(self) -> list[str]:
        stderr = ["stderr:", *self.stderr] if self.stderr else []
        return [*self.before, *self.command, *self.stdout, *stderr, f"exit: {self.exit_code}"]


def parse(path: Path) -> tuple[list[Case], list[str]]:
    """The cases of a file, and the lines after the last one."""
    lines = path.read_text(encoding="utf-8").splitlines()
    cases, before, at = [], [], 0
    while at < len(lines):
        line = lines[at]
        if line == "" or line.startswith("#"):
            before.append(line)
            at += 1
            continue
        titles = [text for text in before if text.startswith("# ")]
        if not line.startswith("$ ") or not titles:
            raise FormatError(
                f"{path}:{at + 1}: expected '# a sentence' then '$ cairn ...', found: {line}")
        case = Case(line=at + 1, title=titles[-1][2:], before=before)
        before = []
        case.command.append(line)
        while case.command[-1].endswith("\\") and at + 1 < len(lines):
            at += 1
            case.command.append(lines[at])
        block = case.stdout
        for at in range(at + 1, len(lines)):
            if ended := re.fullmatch(r"exit: (\d+)", lines[at]):
                case.exit_code = int(ended[1])
                break
            if lines[at] == "stderr:" and block is case.stdout:
                block = case.stderr
            else:
                block.append(lines[at])
        else:
            raise FormatError(f"{path}:{case.line}: the case does not end in 'exit: N'")
        at += 1
        cases.append(case)
    return cases, before


def matches(expected: list[str], actual: list[str]) -> bool:
    """Whether `actual` is `expected`, where a line `...` stands for any lines."""
    reachable = {0}  # how many lines of `actual` the expected lines so far can account for
    for line in expected:
        if line == ANY_LINES:
            reachable = set(range(min(reachable), len(actual) + 1))
        else:
            reachable = {n + 1 for n in reachable if n < len(actual) and actual[n] == line}
        if not reachable:
            return False
    return len(actual) in reachable


def run(case: Case, binary: Path) -> Case:
    """What the case's command really does, as a case."""
    with tempfile.TemporaryDirectory() as folder:
        tools, work = Path(folder) / "tools", Path(folder) / "work"
        tools.mkdir()
        (tools / "cairn").symlink_to(binary)
        if (HERE / "files").is_dir():
            shutil.copytree(HERE / "files", work)
        else:
            work.mkdir()
        environment = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}", LC_ALL="C.UTF-8",
                           OMP_WAIT_POLICY="passive")  # other tests run beside it
        command = "\n".join(case.command)[2:]
        try:
            done = subprocess.run(
                ["bash", "-c", command], cwd=work, env=environment, stdin=subprocess.DEVNULL,
                capture_output=True, timeout=TIMEOUT_SECONDS)
            code, stdout, stderr = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as late:
            code, stdout = 124, late.stdout or b""
            stderr = (late.stderr or b"") + f"\nstopped after {TIMEOUT_SECONDS} s".encode()
    return Case(
        line=case.line, title=case.title, before=case.before, command=case.command,
        stdout=stdout.decode("utf-8", "backslashreplace").splitlines(),
        stderr=stderr.decode("utf-8", "backslashreplace").splitlines(), exit_code=code)


def report(path: Path, expected: Case, actual: Case) -> None:
    print(f"FAILED {path}:{expected.line}: {expected.title}")
    print("\n".join(f"    {line}" for line in expected.command))
    for name in ("stdout", "stderr"):
        want, got = getattr(expected, name), getattr(actual, name)
        if not matches(want, got):
            for label, lines in (("expected", want), ("found", got)):
                print(f"  {label} {name}:" + ("" if lines else " nothing"))
                print("".join(f"    | {line}\n" for line in lines), end="")
    if expected.exit_code != actual.exit_code:
        print(f"  expected exit: {expected.exit_code}, found exit: {actual.exit_code}")


def default_binary() -> Path:
    for preset in ("dev", "release"):
        if (ROOT / "build" / preset / "cairn").exists():
            return ROOT / "build" / preset / "cairn"
    return ROOT / "build" / "dev" / "cairn"


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the text tests of the command line.")
    parser.add_argument("--cairn", type=Path, default=default_binary(), help="the binary to test")
    parser.add_argument("--update", action="store_true", help="write what the commands do")
    parser.add_argument("files", type=Path, nargs="*", help="default: tests/cli/*.test")
    options = parser.parse_args()
    binary = options.cairn.resolve()
    if not binary.is_file():
        print(f"{options.cairn}: no such binary; build it first")
        return 2

    passed = failed = 0
    for path in options.files or sorted(HERE.glob("*.test")):
        try:
            cases, rest = parse(path)
        except FormatError as error:
            print(f"FAILED {error}")
            failed += 1
            continue
        lines = []
        for case in cases:
            actual = run(case, binary)
            good = (matches(case.stdout, actual.stdout) and matches(case.stderr, actual.stderr)
                    and case.exit_code == actual.exit_code)
            if good:
                passed += 1
            elif options.update:
                print(f"updated {path}:{case.line}: {case.title}")
                passed += 1
            else:
                failed += 1
                report(path, case, actual)
            lines += (case if good else actual).text()
        if options.update:
            path.write_text("".join(f"{line}\n" for line in lines + rest), encoding="utf-8")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
