#!/usr/bin/env python3
"""Texts that the program prints agree in number: "1 node", never "1 nodes". Reads the string literals of the sources.

A number in a format string with a plural behind it ("{} nodes") is wrong whenever the number is 1: `counted(n, "node")` of base/spelling.h
knows both forms. Prints each offence as `file:line: text`.
"""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tools", "devices", "sim")
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
NUMBER_AND_WORD = re.compile(r"(?<!x)(?<!x )\{[0-9]*(?::[^{}]*)?\} (?!of )([a-z]+s)\b")
WERE = re.compile(r"(?<!if )\b(it|he|she) were\b|\b(they|we) was\b", re.IGNORECASE)

# Behind a number, but no count of things.
UNITS = {"ms", "ns", "us", "s"}  # abbreviations have no plural
BYTES = {"bytes"}  # sizes: of structures, pages, files; 1 is none of them, and limits like "at most {} bytes" are constants
VERBS = {  # the placeholder before them is a name, or a number that is a name ("segment {} lies")
    "accepts", "answers", "as", "begins", "belongs", "carries", "comes", "describes", "does", "ends", "finds", "fits", "frees", "gets", "has",
    "holds", "is", "its", "leads", "leaves", "lies", "lives", "loses", "makes", "means", "names", "needs", "offers", "owns", "passes", "reaches",
    "reports", "runs", "says", "sets", "shows", "stays",
    "succeeds", "supports", "takes", "tells", "this", "uses", "waits", "wants", "was", "works", "writes",
}
# Offences from before this test, by file. No number may grow; who mends a file lowers its number.
REMAINING = {
    "src/base/plain_text.h": 1,
    "src/dxgk/adapter/start_rules.cpp": 4,
    "src/dxgk/display/display.cpp": 1,
    "src/dxgk/display/flips.cpp": 1,
    "src/dxgk/display/primaries.cpp": 1,
    "src/dxgk/exercise.cpp": 2,
    "src/dxgk/memory/allocation_rules.cpp": 1,
    "src/dxgk/memory/paging_executor.cpp": 2,
    "src/dxgk/va/fault_explainer.cpp": 1,
    "src/dxgk/work/adapter_reset.cpp": 1,
    "src/dxgk/work/context.cpp": 1,
    "src/dxgk/work/context_presents.cpp": 1,
    "src/dxgk/work/patch_checks.cpp": 2,
    "src/dxgk/work/render_stream.cpp": 3,
    "src/dxgk/work/timeout.cpp": 6,
    "src/gpuva/geometry.cpp": 2,
    "src/loader/pe_parse.cpp": 5,
    "src/loader/pe_tables.cpp": 1,
    "src/nt/resources.cpp": 2,
    "src/port/callbacks/callbacks.cpp": 1,
    "src/port/core/interrupts.cpp": 2,
    "src/port/ddi/caps.cpp": 6,
    "src/port/ddi/children.cpp": 1,
    "src/port/ddi/gpu_va.cpp": 2,
    "src/port/ddi/power.cpp": 1,
    "src/port/driver.cpp": 1,
    "src/vidpn/judge.cpp": 3,
    "src/vidpn/manager.cpp": 3,
    "src/vidpn/topology_functions.cpp": 1,
    "src/vidpn/vidpn_functions.cpp": 1,
    "tools/dxgkit/options.cpp": 1,
    "tools/dxgkit/summary.cpp": 1,
    "tools/dxgkit/verify/begin_steps.cpp": 2,
    "tools/dxgkit/verify/canvas.cpp": 1,
    "tools/dxgkit/verify/display_steps.cpp": 1,
    "tools/dxgkit/verify/memory_steps.cpp": 2,
    "tools/dxgkit/verify/plugin.cpp": 1,
    "sim/client_work.cpp": 1,
    "sim/seeds.cpp": 4,
    "sim/world_plan.cpp": 1,
}


def literals(text):
    """(line, text) of each string, with neighbours joined as the compiler does."""
    text = re.sub(r"//[^\n]*", "", text)
    found, end = [], None
    for match in LITERAL.finditer(text):
        if end is not None and not text[end:match.start()].strip():
            found[-1][1] += match.group(1)
        else:
            found.append([text.count("\n", 0, match.start()) + 1, match.group(1)])
        end = match.end()
    return found


def offences(text):
    found = []
    for line, literal in literals(text):
        wrong = any(word not in UNITS | BYTES | VERBS and not re.search(r"(ss|us|is)$", word) for word in NUMBER_AND_WORD.findall(literal))
        if wrong or WERE.search(literal):
            found.append((line, literal))
    return found


class Wording(unittest.TestCase):
    def test_texts_agree_in_number(self):
        files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.suffix in (".cpp", ".h")]
        self.assertGreater(len(files), 300, "the sources are not where they should be")
        for path in files:
            name = path.relative_to(ROOT).as_posix()
            if name.endswith("_test.cpp") or "/test" in name:
                continue
            found = offences(path.read_text())
            lines = "\n".join(f"{name}:{line}: {text}" for line, text in found)
            self.assertLessEqual(len(found), REMAINING.get(name, 0), f"use counted() of base/spelling.h:\n{lines}")

    def test_files_that_remain_are_there(self):
        for name, number in REMAINING.items():
            self.assertTrue((ROOT / name).exists() and number > 0, name)

    def test_it_sees_offences_and_no_others(self):
        for text in ('f("{} nodes", n)', 'f("all {} "\n  "nodes")', 'f("{:>5} packets")', 'f("{0} entries")', 'f("it were 3", x)'):
            self.assertEqual(len(offences(text)), 1, text)
        for text in ('f("{}", counted(n, "node"))', '// "{} nodes"', 'f("{} ms")', 'f("segment {} lies")', 'f("{}x{} pixels")', 'f("{} of 9 nodes")',
                     'f("{} is")', 'f("it was")', 'f("as if it were")'):
            self.assertEqual(offences(text), [], text)


if __name__ == "__main__":
    unittest.main()
