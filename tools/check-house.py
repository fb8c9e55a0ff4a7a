#!/usr/bin/env python3
"""The rules of the house that no compiler checks: docs/house.md.

- No two folders of a crate import each other.
- No crate has more than 10,000 lines, its tests apart.

Prints each breach; ends with 1 if there is any.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

MOST_LINES = 10_000
ROOT = Path(__file__).resolve().parent.parent
TEST_FILE = re.compile(r"(^|_)tests?\.rs$")
TEST_MODULE = re.compile(r"^#\[cfg\(test\)\]\s*\n(?:#\[[^\n]*\n)*(?:pub(?:\([a-z]+\))? )?mod \w+ \{", re.M)


def is_test(path: Path) -> bool:
    return bool(TEST_FILE.search(path.name)) or path.name == "testing.rs"


def code(path: Path) -> str:
    """A file without comments and without its tests at the end."""
    return re.sub(r"//[^\n]*", "", TEST_MODULE.split(path.read_text())[0])


def folder(path: Path, source: Path) -> str:
    """The first folder below the crate's root, or none for the files beside it."""
    parts = path.relative_to(source).parts
    return parts[0] if len(parts) > 1 else ""


def imports(path: Path) -> set[str]:
    """The top-level modules of its crate that a file names."""
    text = code(path)
    found = set(re.findall(r"\bcrate::(\w+)", text))
    for group in re.findall(r"\bcrate::\{([^;]*)\};", text):
        found |= set(re.findall(r"(?:^|[,{\s])(\w+)(?=::|[,}\s]|$)", group))
    return found


def main() -> int:
    breaches = []
    for source in sorted(ROOT.glob("crates/*/src")):
        name = source.parent.name
        files = [path for path in source.rglob("*.rs") if not is_test(path)]
        lines = sum(len(path.read_text().splitlines()) for path in files)
        if lines > MOST_LINES:
            breaches.append(f"{name} has {lines} lines; cut it along a seam")
        folders = {folder(path, source) for path in files} - {""}
        uses = defaultdict(dict)
        for path in files:
            # The file beside a folder is the folder's face.
            here = folder(path, source) or (path.stem if path.stem in folders else "")
            for other in imports(path) & folders:
                if here and other != here:
                    uses[here].setdefault(other, path.relative_to(ROOT))
        for one in sorted(uses):
            for other in sorted(uses[one]):
                if one < other and one in uses.get(other, {}):
                    breaches.append(f"{name}: {uses[one][other]} imports {other}, {uses[other][one]} imports {one}")
    print("\n".join(breaches), end="\n" if breaches else "")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
