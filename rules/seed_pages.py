#!/usr/bin/env python3
"""docs/seed-pages.md: what each sentence of the five seed pages asks -> the rules that hold it -> the test files that prove those.

rules/seed_pages.py [--check] [ROOT]

Joins rules/seed_pages.json with the rulebook and with the tests that name rules (DXGKIT_COVERS). Without --check writes the page. Either way
prints what is wrong, a line each, and exits 1: a sentence without a rule, a rule that does not exist, one that no test names, a rule of a
seed page that belongs to no sentence; with --check also a page that says something else than the data. Of the test files --check asks only
that each one on the page still proves a rule of its line: work elsewhere that adds a test makes no page stale.
"""
import json
import pathlib
import re
import sys

FOLDERS = ("src", "tests", "devices", "miniports", "sim", "fuzz", "tools", "rules")
COVERS = re.compile(r"DXGKIT_COVERS\(([^)]*(?:\([^)]*\)[^)]*)*)\)")
ID = re.compile(r'"([A-Z]{2,8}-[0-9]{2,3})"')
KINDS = ("rules", "why", "exception")
HEAD = ("Made by `rules/seed_pages.py` from `rules/seed_pages.json`; do not edit. The rulebook began with five pages of the WDDM documentation. Here is every\n"
        "sentence of theirs that states a behaviour, in our own words, with the rules that hold it ([rulebook](../rules/README.md), `dxgkit explain RULE`) and\n"
        "the files whose tests prove them.")


def read_rules(root):
    rules = {}
    for path in sorted((root / "rules").glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        if "area" in document:
            rules.update((rule["id"], rule) for rule in document["rules"])
    return rules


def read_tests(root):
    """Rule id -> the files that name it. A table-driven test takes its rules from rows: where the macro is given no literal, every id in
    quotes in that file counts."""
    tests = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*_test.*")):
            if path.suffix not in (".cpp", ".h"):
                continue
            text = path.read_text(encoding="utf-8")
            calls = COVERS.findall(text)
            named = set(ID.findall(" ".join(calls)))
            if any('"' not in call for call in calls):
                named.update(ID.findall(text))
            for name in named:
                tests.setdefault(name, []).append(path.relative_to(root).as_posix())
    return tests


def offences(pages, rules, tests):
    held = set()
    for page in pages:
        for sentence in page["sentences"]:
            where = f'{page["page"]}, {sentence.get("place")}: "{sentence.get("statement")}"'
            if set(sentence) - {"place", "statement", *KINDS} or not sentence.get("place") or not sentence.get("statement"):
                yield f"{where} is not a place, a statement and one of {', '.join(KINDS)}"
            if sum(kind in sentence for kind in KINDS) > 1:
                yield f"{where} has more than one of {', '.join(KINDS)}"
            if not any(sentence.get(kind) for kind in KINDS):
                yield f"{where} has no rule"
            for name in sentence.get("rules", []):
                held.add(name)
                if name not in rules:
                    yield f"{where} names {name}, which is no rule"
                elif name not in tests:
                    yield f"{where} is held by {name}, which no test names"
    for name in sorted(name for name, rule in rules.items() if rule["seed"] and name not in held):
        yield f"{name} comes from a seed page and belongs to no sentence"


def files_of(sentence, tests):
    return sorted({path for name in sentence.get("rules", []) for path in tests.get(name, [])})


def row_of(sentence, tests):
    if "rules" in sentence:
        held, proved = ", ".join(sentence["rules"]), "<br>".join(files_of(sentence, tests))
    else:
        held, proved = ("asks nothing: " + sentence["why"] if "why" in sentence else "not held: " + sentence["exception"]), ""
    return f'| {sentence["place"]} | {sentence["statement"]} | {held} | {proved} |'


def render(pages, tests):
    sentences = [sentence for page in pages for sentence in page["sentences"]]
    count = {kind: sum(kind in sentence for sentence in sentences) for kind in KINDS}
    lines = ["# The seed pages, sentence by sentence", "", HEAD, "",
             f'Of {len(sentences)} sentences {count["rules"]} have rules and tests, {count["exception"]} without, {count["why"]} that ask nothing.']
    for page in pages:
        lines += ["", f'## {page["page"]}', "", "| Where | What it says | Rules | Tests |", "|---|---|---|---|"]
        lines += [row_of(sentence, tests) for sentence in page["sentences"]]
    return "\n".join(lines) + "\n"


def split(page):
    """The page without its last column, and that column: (text, [(line number, files)])."""
    text, cells = [], []
    for number, line in enumerate(page.splitlines(), start=1):
        if line.startswith("| ") and line.endswith(" |"):
            line, _, cell = line[:-2].rpartition(" | ")
            cells.append((number, [name for name in cell.strip().split("<br>") if name]))
        text.append(line)
    return text, cells


def stale(written, expected):
    written_text, written_cells = split(written)
    expected_text, expected_cells = split(expected)
    if written_text != expected_text:
        line = next((n for n, (a, b) in enumerate(zip(written_text, expected_text), start=1) if a != b), min(len(written_text), len(expected_text)) + 1)
        yield f"docs/seed-pages.md:{line}: the page is stale; run rules/seed_pages.py"
        return
    for (number, written_files), (_, expected_files) in zip(written_cells, expected_cells):
        for name in written_files:
            if name not in expected_files:
                yield f"docs/seed-pages.md:{number}: the page is stale: {name} proves no rule of this line; run rules/seed_pages.py"
        if expected_files and not written_files:
            yield f"docs/seed-pages.md:{number}: the page is stale: it names no test; run rules/seed_pages.py"


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    root = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).resolve().parent.parent
    pages = json.loads((root / "rules/seed_pages.json").read_text(encoding="utf-8"))["pages"]
    tests = read_tests(root)
    found = list(offences(pages, read_rules(root), tests))
    output = root / "docs/seed-pages.md"
    if not found and "--check" in sys.argv[1:]:
        found += stale(output.read_text(encoding="utf-8") if output.exists() else "", render(pages, tests))
    elif not found:
        output.write_text(render(pages, tests), encoding="utf-8")
    for offence in found:
        print(offence)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
