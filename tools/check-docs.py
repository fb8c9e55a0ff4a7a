#!/usr/bin/env python3
"""Checks the Markdown pages of the repository; `make lint` runs it.

Every relative link leads to a file that is there, every #anchor to a heading of its page, every page of docs/ can be
reached from docs/README.md, and no line of prose is longer than 120 characters. Tables, code and lines that consist of
one link or picture may be longer. Where a page shows the manifest of a crate that depends on Weir's, each dependency
is a crate that is there, by the name of its package, and whatever of Weir the page's Rust uses is among them. Prints a
line for each fault, and ends with 1 if there is one.
"""

import os
import re
import sys
import tomllib
import unicodedata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SKIPPED = {".git", "target", "results", "node_modules"}
WIDTH = 120

# [text](target), ![text](target), each with an optional title; and what little HTML a page has.
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?([^\s)>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
HTML = re.compile(r"(?:href|src|srcset)=\"([^\"]+)\"")
CODE = re.compile(r"(`+)(?:.*?[^`])\1(?!`)")
ALONE = re.compile(r"\s*(?:[-*] )?!?\[[^\]]*\]\([^)]*\)[.,;:]?\s*")
# A crate of Weir's that Rust code takes something from.
USED = re.compile(r"^\s*use (weir_\w+)::", re.MULTILINE)
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def pages():
    """All Markdown files but those that a build or a run has made."""
    for folder, inside, files in os.walk(ROOT):
        inside[:] = sorted(name for name in inside if name not in SKIPPED)
        for name in sorted(files):
            if name.endswith(".md"):
                yield Path(folder) / name


def prose(text):
    """Lines with their numbers, those of fenced code left out."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r"\s*(`{3,}|~{3,})", line)
        if fence:
            if mark and mark.group(1).startswith(fence) and not line.strip().strip(fence[0]):
                fence = None
            continue
        if mark:
            fence = mark.group(1)
            continue
        yield number, line


def anchors(text):
    """The anchors that GitHub makes of a page's headings."""
    found = set()
    seen = {}
    for _, line in prose(text):
        heading = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
        if heading is None:
            continue
        words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1)).lower()
        kept = (c for c in words if c in " -_" or unicodedata.category(c)[0] in "LN")
        slug = "".join(kept).replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        found.add(f"{slug}-{count}" if count else slug)
    return found


def blocks(text, language):
    """The fenced code of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def manifest_faults(text):
    """What Cargo would say to the manifests that a page shows, of whoever writes them beside a clone of Weir."""
    named = set()
    for block in blocks(text, "toml"):
        if "dependencies]" not in block:
            continue
        manifest = tomllib.loads(block)
        for name, wanted in (manifest.get("dependencies", {}) | manifest.get("dev-dependencies", {})).items():
            named.add(name.replace("-", "_"))
            path = wanted.get("path", "") if isinstance(wanted, dict) else ""
            folder = re.search(r"(?:^|/)(crates/[^/]+)$", path)
            if folder is None:
                continue
            there = ROOT / folder[1] / "Cargo.toml"
            if not there.exists():
                yield f"{path} is no crate"
                continue
            package = tomllib.loads(there.read_text(encoding="utf-8"))["package"]["name"]
            if wanted.get("package", name) != package:
                yield f'{name} = {{ path = "{path}" }} does not build: the package there is called {package}'
    if named:
        for crate in sorted({crate for block in blocks(text, "rust") for crate in USED.findall(block)} - named):
            yield f"its Rust uses {crate}, which its manifest does not name"


def main():
    faults = []
    texts = {path: path.read_text(encoding="utf-8") for path in pages()}
    known = {path: anchors(text) for path, text in texts.items()}
    links = {path: set() for path in texts}
    for path, text in texts.items():
        name = path.relative_to(ROOT)
        for number, line in prose(text):
            if len(line) > WIDTH and not line.lstrip().startswith("|") and not ALONE.fullmatch(line):
                faults.append(f"{name}:{number}: {len(line)} characters, more than {WIDTH}")
        faults.extend(f"{name}: {fault}" for fault in manifest_faults(text))
        body = "\n".join(CODE.sub("", line) for _, line in prose(text))
        for target in LINK.findall(body) + HTML.findall(body):
            if SCHEME.match(target):
                continue
            file, _, anchor = target.partition("#")
            there = (path.parent / file).resolve() if file else path
            if not there.exists():
                faults.append(f"{name}: {target} leads nowhere")
                continue
            links[path].add(there)
            if anchor and there in known and anchor not in known[there]:
                faults.append(f"{name}: {target} names no heading of that page")
    contents = ROOT / "docs" / "README.md"
    reached, ahead = set(), [contents]
    while ahead:
        page = ahead.pop()
        if page.is_dir():
            page = page / "README.md"
        if page in texts and page not in reached:
            reached.add(page)
            ahead.extend(links[page])
    for path in texts:
        if path.is_relative_to(ROOT / "docs") and path not in reached:
            faults.append(f"{path.relative_to(ROOT)}: no way leads here from docs/README.md")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
