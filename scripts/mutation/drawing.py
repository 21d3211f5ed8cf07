"""Names mutants, draws a sample of them, and knows which of them are equivalent. For `mutate` and `mutate_drivers`."""
import hashlib

import candidates


def original(mutant):
    return (candidates.ROOT / mutant["file"]).read_bytes()[mutant["start"]:mutant["end"]].decode()


def changed(mutant):
    data = (candidates.ROOT / mutant["file"]).read_bytes()
    return mutant["text"].format(*(data[start:end].decode() for start, end in mutant["parts"]))


def numbered(everything):
    """Gives each mutant a name that stays while its function's other lines change."""
    seen = {}
    for mutant in everything:
        name = "\0".join((mutant["file"], mutant["function"], mutant["operator"], " ".join(original(mutant).split()), " ".join(changed(mutant).split())))
        seen[name] = seen.get(name, 0) + 1
        mutant["name"] = f"{name}\0{seen[name]}"


def draw(some, count, seed):
    """The `count` lowest by a hash of seed and name: an edit of the sources changes few of them, where a shuffle would draw all anew."""
    return sorted(some, key=lambda one: hashlib.sha256(f"{seed}\0{one['name']}".encode()).digest())[:count]


def one_line(text):
    text = " ".join(text.split())
    return text if len(text) <= 110 else text[:107] + "..."


def source_line(mutant):
    return (candidates.ROOT / mutant["file"]).read_text().split("\n")[mutant["line"] - 1]


def one_by_one(known):
    """Entries with `changes`, a list of (operator, text), as so many entries with an `operator` and a `text` each."""
    for one in known:
        rest = {name: value for name, value in one.items() if name != "changes"}
        for operator, text in one.get("changes", ()):
            yield {**rest, "operator": operator, "text": text}
        if "changes" not in one:
            yield rest


def equivalent(mutant, known):
    """The sentence that says why nobody could see it, or None. An entry without a text means its whole function; one with `line`
    means a text on lines that contain that only; one with `nth` means one of several changes of its function that look the same."""
    for one in known:
        if one["file"] != mutant["file"] or one.get("function", mutant["function"]) != mutant["function"]:
            continue
        if "line" in one and one["line"] not in source_line(mutant):
            continue
        if "nth" in one and not mutant["name"].endswith(f"\0{one['nth']}"):
            continue
        if "text" not in one or one["operator"] == mutant["operator"] and " ".join(one["text"].split()) == " ".join(original(mutant).split()):
            return one["why"]
    return None
