"""Planted bugs: edits of sources, kept in sim/planted_bugs.json.

A bug is {"name": ..., "edits": [{"file": ..., "old": ..., "new": ...}]}. `old` is in the file exactly once. Space and line ends count as one
space in it, so a file that is formatted anew needs no new edit. `new` takes its place, and PLANTED in `new` is true in a run with the bug.
Two more members are for people and for a bug that no simulated seed finds: "why", a sentence, and "test", the {"program": ..., "name": ...}
that finds it.
"""
import dataclasses
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "sim" / "planted_bugs.json"
QUESTION = re.compile(r"\bPLANTED\b")


@dataclasses.dataclass
class Place:
    """Where an edit goes: characters of the file."""
    start: int
    end: int
    new: str
    bug: str


def load(path=DATA):
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))


def looks_wrong(bug):
    """What is wrong with an entry by itself."""
    name = bug.get("name", "(without a name)")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        yield f"{name}: a name is made of small letters, digits and _"
    if extra := set(bug) - {"name", "edits", "why", "test"}:
        yield f"{name}: unknown members: {', '.join(sorted(extra))}"
    if "test" in bug and set(bug["test"]) != {"program", "name"}:
        yield f"{name}: a test has a program and a name"
    if not bug.get("edits"):
        yield f"{name}: has no edits"
    for edit in bug.get("edits", []):
        if set(edit) != {"file", "old", "new"}:
            yield f"{name}: an edit has file, old and new, not {', '.join(sorted(edit))}"
            continue
        if not edit["file"].endswith(".cpp"):
            yield f"{name}: {edit['file']}: only a .cpp file can have a bug; a header is compiled into programs without it, too"
        if not QUESTION.search(edit["new"]):
            yield f"{name}: {edit['file']}: `new` does not ask PLANTED: {edit['new']}"
        if not edit["old"].split() or QUESTION.search(edit["old"]):
            yield f"{name}: {edit['file']}: `old` is empty, or asks PLANTED"
        if "//" in edit["old"] + edit["new"]:
            yield f"{name}: {edit['file']}: a comment would hide the rest of its line"


def find(bugs, root=ROOT):
    """The places of all edits by file, and what is wrong: each a sentence that names the bug and the file."""
    wrong, places, texts = [], {}, {}
    names = [bug.get("name") for bug in bugs]
    wrong += [f"{name}: two bugs have this name" for name in sorted({name for name in names if name and names.count(name) > 1})]
    for bug in bugs:
        if bad := list(looks_wrong(bug)):
            wrong += bad
            continue
        for edit in bug["edits"]:
            file, old = edit["file"], edit["old"]
            if file not in texts:
                path = pathlib.Path(root) / file
                texts[file] = path.read_text(encoding="utf-8") if path.is_file() else None
            if texts[file] is None:
                wrong.append(f"{bug['name']}: {file}: there is no such file")
                continue
            found = list(re.finditer(r"\s+".join(map(re.escape, old.split())), texts[file]))
            if len(found) != 1:
                how = "is not there" if not found else f"is there {len(found)} times, in lines " + \
                    ", ".join(str(texts[file].count("\n", 0, one.start()) + 1) for one in found)
                wrong.append(f"{bug['name']}: {file}: `old` {how}: {old}")
                continue
            places.setdefault(file, []).append(Place(found[0].start(), found[0].end(), edit["new"], bug["name"]))
    for file, some in places.items():
        some.sort(key=lambda place: place.start)
        for one, other in zip(some, some[1:]):
            if other.start < one.end:
                wrong.append(f"{one.bug}: {file}: its edit overlaps an edit of {other.bug}")
    return places, texts, wrong


def faults(bugs, root=ROOT):
    return find(bugs, root)[2]


def copies(bugs, root=ROOT):
    """Every file that has bugs, with all of them in it: name -> bytes. Other lines keep their numbers."""
    places, texts, wrong = find(bugs, root)
    if wrong:
        raise ValueError("\n".join(wrong))
    written = {}
    for file, some in places.items():
        out, at = "", 0
        for place in some:
            lines = texts[file].count("\n", place.start, place.end) - place.new.count("\n")
            out += texts[file][at:place.start] + QUESTION.sub(f'::dxgkit_mutation::planted("{place.bug}")', place.new) + "\n" * lines
            at = place.end
        written[file] = (out + texts[file][at:]).encode()
    return written
