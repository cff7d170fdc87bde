#!/usr/bin/env python3
"""Checks that includes point one way, and that each third-party header stays in one folder.

    check_includes.py [ROOT]      prints file:line for each violation; exit 1 when there is one
    check_includes.py --self-test checks the checker on small trees of its own
"""

import re
import sys
import tempfile
from pathlib import Path

# What each folder may include, besides itself. The rest of the repository may include everything.
ARROWS = {
    "graph": set(),
    "models": {"graph"},
    "sim": {"graph"},
    "executor": {"graph"},
    "planner": {"graph", "sim"},
    "export": {"graph", "sim", "planner"},
    "cli": {"graph", "models", "sim", "executor", "planner", "export"},
}
FREE = {"tests", "bench", "fuzz"}

# The one folder (and its tests) where headers that match may appear.
HOMES = [
    (re.compile(r"boost/"), "graph"),
    (re.compile(r"yaml-cpp/"), "models"),
    (re.compile(r"CLI/"), "cli"),
    (re.compile(r"(cuda|cublas|cudnn|cusparse|curand|nvrtc|nvml|nvToolsExt)"), "executor/cuda"),
]

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:<(?P<angle>[^>]+)>|"(?P<quote>[^"]+)")')
SUFFIXES = {".h", ".cc", ".cu", ".cuh"}


def violation(file: str, header: str, quoted: bool) -> str | None:
    """Why `file` (relative to the root) may not include `header`, or None when it may."""
    for pattern, home in HOMES:
        if pattern.match(header):
            at_home = file.startswith((f"{home}/", f"tests/{home}/"))
            return None if at_home else f"<{header}> belongs in {home}/ only"
    source, target = file.split("/")[0], header.split("/")[0]
    if target not in ARROWS and target not in FREE:
        return f'"{header}" does not start at the repository root' if quoted else None
    if source in FREE or target == source or target in ARROWS[source]:
        return None
    allowed = ", ".join(sorted(ARROWS[source] | {source}))
    return f'"{header}" points the wrong way: {source}/ may include {allowed}'


def check(root: Path) -> list[str]:
    """Every violation below `root`, as "file:line: why"."""
    found = []
    for folder in sorted(ARROWS.keys() | FREE):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            file = path.relative_to(root).as_posix()
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
                if match := INCLUDE.match(line):
                    quoted = match["quote"] is not None
                    why = violation(file, match["quote"] or match["angle"], quoted)
                    if why:
                        found.append(f"{file}:{number}: {why}")
    return found


SELF_TESTS = [
    # file, line, whether it must be caught
    ("graph/a.cc", '#include "graph/b.h"', False),
    ("graph/a.cc", '#include "sim/b.h"', True),
    ("graph/ops/a.cc", '#  include "models/b.h"', True),
    ("graph/a.cc", "#include <boost/graph/adjacency_list.hpp>", False),
    ("sim/a.cc", "#include <boost/graph/adjacency_list.hpp>", True),
    ("sim/a.h", '#include "models/b.h"', True),
    ("sim/a.h", '#include "planner/b.h"', True),
    ("sim/a.h", "#include <vector>", False),
    ("sim/a.h", '#include "b.h"', True),
    ("models/a.cc", "#include <yaml-cpp/yaml.h>", False),
    ("models/a.cc", '#include "sim/b.h"', True),
    ("planner/a.cc", '#include "sim/b.h"', False),
    ("planner/a.cc", '#include "models/b.h"', True),
    ("planner/a.cc", '#include "tests/seed.h"', True),
    ("planner/a.cc", "#include <cuda_runtime.h>", True),
    ("executor/a.cc", "#include <cuda_runtime.h>", True),
    ("executor/cuda/a.cu", "#include <cuda_runtime.h>", False),
    ("executor/a.cc", '#include "sim/b.h"', True),
    ("export/a.cc", '#include "planner/b.h"', False),
    ("export/a.cc", '#include "cli/b.h"', True),
    ("cli/a.cc", '#include "export/b.h"', False),
    ("cli/a.cc", "#include <CLI/CLI.hpp>", False),
    ("cli/a.cc", "#include <yaml-cpp/yaml.h>", True),
    ("tests/sim/a_test.cc", '#include "cli/b.h"', False),
    ("tests/sim/a_test.cc", "#include <yaml-cpp/yaml.h>", True),
    ("tests/graph/a_test.cc", "#include <boost/graph/adjacency_list.hpp>", False),
]


def self_test() -> int:
    failed = 0
    for file, line, caught in SELF_TESTS:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / file
            path.parent.mkdir(parents=True)
            path.write_text(f"#pragma once\n{line}\n", encoding="utf-8")
            found = check(Path(folder))
        right = len(found) == 1 and found[0].startswith(f"{file}:2: ") if caught else not found
        if not right:
            failed += 1
            print(f"self-test: {file}: {line}: caught should be {caught}, found {found}")
    print(f"{len(SELF_TESTS) - failed} passed, {failed} failed")
    return 1 if failed else 0


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = check(root)
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
