#!/usr/bin/env python3
"""Checks the sample graphs against docs/schema/plain_graph.schema.json with a real validator.

Needs the Python modules jsonschema and yaml; without them everything is reported as skipped.
tests/docs/schema_test.cc checks the same with no module at all, but knows less of JSON Schema.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SAMPLES = ROOT / "tests" / "models" / "graphs"


def cases() -> list[tuple[Path, bool]]:
    """Every sample, and whether its structure is right."""
    wrong = sorted(SAMPLES.glob("bad/structure/*.yaml"))
    right = sorted(SAMPLES.glob("*.yaml")) + sorted(SAMPLES.glob("bad/meaning/*.yaml"))
    return [(path, True) for path in right] + [(path, False) for path in wrong]


def main() -> int:
    try:
        import jsonschema
        import yaml
    except ImportError as missing:
        print(f"{missing}")
        print(f"0 passed, 0 failed, {len(cases())} skipped")
        return 0
    schema = json.loads((ROOT / "docs/schema/plain_graph.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    failed = 0
    for path, expected in cases():
        document = yaml.safe_load(path.read_text("utf-8"))
        complaints = [error.message for error in validator.iter_errors(document)]
        if expected == bool(complaints):
            failed += 1
            print(f"FAILED {path.relative_to(ROOT)}: {complaints or 'was accepted'}")
    print(f"{len(cases()) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
