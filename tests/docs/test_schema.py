#!/usr/bin/env python3
"""Checks sample graphs, plans and costs against the schemas of docs/schema/ with a real validator.

Needs the Python modules jsonschema and yaml; without them everything is reported as skipped.
tests/docs/schema_test.cc checks the same with no module at all, but knows less of JSON Schema.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SAMPLES = ROOT / "tests" / "models" / "graphs"


# Plans whose structure is right, and that do not suit their graph.
WRONG_MEANING = ("inner_begins_outside", "inner_keep", "inner_leaves_parent", "keep_an_input",
                 "keep_not_made", "keep_twice", "keep_unknown", "keep_useless",
                 "last_before_first", "not_in_order", "order_not_topological", "order_too_short",
                 "order_twice", "order_unknown", "overlap", "unknown_last", "unknown_op",
                 "control_characters", "fingerprint_not_of_its_parts", "model_name_is_a_path",
                 "other_graph_bytes", "other_graph_costs", "other_graph_file",
                 "other_graph_is_longer", "other_graph_ops", "other_graph_saves",
                 "other_graph_without_model", "other_recipe",
                 "model_optimizer", "optimizer", "where_available_twice", "in_backward_and_accumulate",
                 "in_backward_and_keep_gradients", "in_backward_and_foreach",
                 "in_backward_and_main_gradients", "keep_and_main_gradients",
                 "another_graph", "no_backward", "op_missing", "op_twice", "ops_missing",
                 "key_twice", "key_of_region_twice")  # which most readers of YAML let pass

# What is no YAML at all.
NO_YAML = ("not_closed", "tab_for_spaces")


def cases() -> list[tuple[str, Path, bool]]:
    """Schema, sample, and whether its structure is right."""
    wrong = sorted(SAMPLES.glob("bad/structure/*.yaml"))
    right = sorted(SAMPLES.glob("*.yaml")) + sorted(SAMPLES.glob("bad/meaning/*.yaml"))
    plans = [path for path in sorted((ROOT / "tests/models/bad/plans").glob("*.yaml"))
             if path.stem not in NO_YAML]
    recipes = [path for path in sorted((ROOT / "tests/models/bad/recipes").glob("*.yaml"))
               if path.stem not in NO_YAML]
    costs = [path for path in sorted((ROOT / "tests/models/bad/costs").glob("*.yaml"))
             if path.stem not in NO_YAML]
    return ([("plain_graph", path, True) for path in right]
            + [("plain_graph", path, False) for path in wrong]
            + [("plan", path, path.stem in WRONG_MEANING) for path in plans]
            + [("recipe", path, path.stem in WRONG_MEANING) for path in recipes]
            + [("recipe", path, True) for path in sorted((ROOT / "models/recipes").glob("*.yaml"))]
            + [("costs", path, path.stem in WRONG_MEANING) for path in costs]
            + [("costs", path, True) for path in sorted((ROOT / "tests/cli/files").glob("*_costs.yaml"))]
            + [("plan", ROOT / "tests/cli/files/two_blocks_every_layer.yaml", True)]
            + [("measurements", path, True)
               for path in sorted((ROOT / "tests" / "measured").glob("*.yaml"))
               + sorted((ROOT / "tests" / "cli" / "files").glob("measured*.yaml"))])


def main() -> int:
    try:
        import jsonschema
        import referencing
        import yaml
    except ImportError as missing:
        print(f"{missing}")
        print(f"0 passed, 0 failed, {len(cases())} skipped")
        return 0
    validators = {}
    registry = referencing.Registry()  # a schema refers to an earlier one by its file's name
    for name in ("plain_graph", "plan", "measurements", "recipe", "costs"):
        schema = json.loads((ROOT / f"docs/schema/{name}.schema.json").read_text("utf-8"))
        jsonschema.Draft202012Validator.check_schema(schema)
        registry = registry.with_resource(f"{name}.schema.json",
                                          referencing.Resource.from_contents(schema))
        validators[name] = jsonschema.Draft202012Validator(schema, registry=registry)
    failed = 0
    for name, path, expected in cases():
        document = yaml.safe_load(path.read_text("utf-8"))
        complaints = [error.message for error in validators[name].iter_errors(document)]
        if expected == bool(complaints):
            failed += 1
            print(f"FAILED {path.relative_to(ROOT)}: {complaints or 'was accepted'}")
    print(f"{len(cases()) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
