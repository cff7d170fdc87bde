"""Pages and tables of docs/ that the program makes: compared with what it says now, or written."""

import argparse
import difflib
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_LINES = 60  # of a difference


def between_marks(text, script, made):
    """The page `text` with `made` between the marks that name the script."""
    begin, end = f"<!-- made by tests/docs/{script}: begin -->\n", "<!-- end -->\n"
    before, rest = text.split(begin)
    return before + begin + made + end + rest.split(end)[1]


def compare_or_update(documentation, page, make):
    """The exit code: 1 where docs/`page` is not make(cairn, its text), of the program --cairn."""
    parser = argparse.ArgumentParser(description=documentation.split("\n", maxsplit=1)[0])
    parser.add_argument("--cairn", required=True)
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    path = ROOT / "docs" / page
    found = path.read_text(encoding="utf-8") if path.exists() else ""
    made = make(str(pathlib.Path(arguments.cairn).resolve()), found)
    if made == found:
        print(f"docs/{page} is what cairn says\n1 passed, 0 failed")
        return 0
    if arguments.update:
        path.write_text(made, encoding="utf-8")
        print(f"docs/{page}: written")
        return 0
    difference = difflib.unified_diff(found.splitlines(), made.splitlines(), f"docs/{page}",
                                      "made now", lineterm="")
    print(f"docs/{page} is not what cairn says; run with --update:")
    print("\n".join(list(difference)[:MOST_LINES]))
    print("0 passed, 1 failed")
    return 1
