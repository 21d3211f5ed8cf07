#!/usr/bin/env python3
"""Proves rules/seed_pages.py: what it joins, each thing it refuses, and which changes make the page stale."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
# Put together here, so that nobody takes this file for one that names rules.
FOO1, FOO2, FOO3 = ("FOO-" + number for number in ("01", "02", "03"))


def rule(name, seed=True):
    return {"id": name, "seed": seed}


def sentence(place="hThing", statement="Names the thing.", **kind):
    return {"place": place, "statement": statement, **kind}


class Tree:
    """A small source tree: two rules of seed pages and one of another, three sentences, two test files."""

    def __init__(self, folder):
        self.root = pathlib.Path(folder)
        self.rules = [rule(FOO1), rule(FOO2), rule(FOO3, seed=False)]
        self.sentences = [sentence(rules=[FOO1]), sentence(statement="Is not 0.", rules=[FOO2, FOO1]), sentence("remarks", "See there.", why="points elsewhere")]
        self.tests = {"tests/a_test.cpp": f'DXGKIT_COVERS("{FOO1}");', "src/deep/b_test.cpp": f'DXGKIT_COVERS("{FOO1}",\n    "{FOO2}");'}
        for name in ("rules", "docs", "tests", "src/deep"):
            (self.root / name).mkdir(parents=True)

    def run(self, *arguments):
        (self.root / "rules/FOO.json").write_text(json.dumps({"area": "FOO", "rules": self.rules}))
        (self.root / "rules/seed_pages.json").write_text(json.dumps({"pages": [{"page": "THING", "sentences": self.sentences}]}))
        for path in self.root.rglob("*_test.cpp"):
            path.unlink()
        for name, text in self.tests.items():
            (self.root / name).write_text(text)
        done = subprocess.run([sys.executable, str(ROOT / "rules/seed_pages.py"), *arguments, str(self.root)], capture_output=True, text=True)
        assert not done.stderr, done.stderr
        return done.returncode, done.stdout

    @property
    def page(self):
        return self.root / "docs/seed-pages.md"


class SeedPages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.tree = Tree(self.folder.name)

    def refuses(self, said):
        """Writing the page, and checking it, both refuse, for one reason."""
        for arguments in ((), ("--check",)):
            code, out = self.tree.run(*arguments)
            self.assertEqual(code, 1)
            self.assertIn(said, out)
        self.assertFalse(self.tree.page.exists())

    def checks(self, said=""):
        code, out = self.tree.run("--check")
        self.assertEqual((code, said in out), (1, True) if said else (0, True), out)
        if not said:
            self.assertEqual(out, "")

    def test_joins_sentences_rules_and_files(self):
        self.assertEqual(self.tree.run(), (0, ""))
        text = self.tree.page.read_text()
        self.assertIn(f"\n| hThing | Names the thing. | {FOO1} | src/deep/b_test.cpp<br>tests/a_test.cpp |\n", text)
        self.assertIn(f"\n| hThing | Is not 0. | {FOO2}, {FOO1} | src/deep/b_test.cpp<br>tests/a_test.cpp |\n", text)
        self.assertIn("\n| remarks | See there. | asks nothing: points elsewhere |  |\n", text)
        self.assertIn("Of 3 sentences 2 have rules and tests, 0 without, 1 that ask nothing.", text)
        self.checks()

    def test_takes_ids_from_rows_only_where_the_macro_has_no_literal(self):
        self.tree.tests = {"tests/a_test.cpp": f'{{"{FOO1}"}}, DXGKIT_COVERS(row.rule);', "src/deep/b_test.cpp": f'DXGKIT_COVERS("{FOO2}")'}
        self.assertEqual(self.tree.run(), (0, ""))
        self.tree.page.unlink()
        self.tree.tests["tests/a_test.cpp"] = f'{{"{FOO1}"}}, DXGKIT_COVERS("{FOO2}");'
        self.refuses(f"is held by {FOO1}, which no test names")

    def test_a_rule_that_does_not_exist(self):
        self.tree.sentences[0]["rules"] = ["FOO-" + "09"]
        self.refuses('THING, hThing: "Names the thing." names FOO-' + "09, which is no rule")

    def test_a_sentence_without_a_rule(self):
        for kind in ({}, {"rules": []}, {"why": ""}, {"exception": ""}):
            self.tree.sentences[2] = sentence("remarks", "See there.", **kind)
            self.refuses('THING, remarks: "See there." has no rule')

    def test_a_sentence_with_a_rule_and_an_excuse(self):
        self.tree.sentences[1]["why"] = "lazy"
        self.refuses("has more than one of rules, why, exception")

    def test_a_sentence_that_says_nothing_or_has_unknown_members(self):
        self.tree.sentences[1] = {"statement": "Is not 0.", "rules": [FOO2]}
        self.refuses("is not a place, a statement")
        self.tree.sentences[1] = sentence(rules=[FOO2], rule=FOO1)
        self.refuses("is not a place, a statement")

    def test_a_rule_without_a_test(self):
        self.tree.tests["src/deep/b_test.cpp"] = f'DXGKIT_COVERS("{FOO1}")'
        self.refuses(f'THING, hThing: "Is not 0." is held by {FOO2}, which no test names')

    def test_a_seed_rule_of_no_sentence(self):
        self.tree.sentences[1]["rules"] = [FOO1]
        self.refuses(f"{FOO2} comes from a seed page and belongs to no sentence")
        self.tree.rules[1]["seed"] = False  # as FOO3: nobody misses it
        self.assertEqual(self.tree.run(), (0, ""))

    def test_a_page_that_says_something_else_is_stale(self):
        self.checks("docs/seed-pages.md:1: the page is stale")  # there is none
        for change in (lambda tree: tree.sentences[0].update(statement="Names it."),
                       lambda tree: tree.sentences[1]["rules"].append(FOO3),
                       lambda tree: tree.sentences[1]["rules"].reverse(),
                       lambda tree: tree.sentences.insert(1, sentence(statement="More.", rules=[FOO1])),
                       lambda tree: tree.sentences[-1].update(why="another"),
                       lambda tree: tree.sentences.pop()):
            self.tree.tests["tests/a_test.cpp"] = f'DXGKIT_COVERS("{FOO1}", "{FOO3}");'
            self.tree.run()
            before = self.tree.page.read_text()
            change(self.tree)
            self.checks("the page is stale; run rules/seed_pages.py")
            self.assertEqual(self.tree.page.read_text(), before)

    def test_another_test_makes_no_page_stale_but_a_lost_one_does(self):
        self.tree.run()
        self.tree.tests["tests/c_test.cpp"] = f'DXGKIT_COVERS("{FOO1}", "{FOO2}");'
        self.checks()
        self.tree.run()
        self.assertIn("tests/c_test.cpp", self.tree.page.read_text())
        del self.tree.tests["tests/c_test.cpp"]
        self.checks(":13: the page is stale: tests/c_test.cpp proves no rule of this line")

    def test_a_line_whose_tests_were_struck_is_stale(self):
        self.tree.run()
        text = self.tree.page.read_text()
        self.tree.page.write_text(text.replace(f"| {FOO1} | src/deep/b_test.cpp<br>tests/a_test.cpp |", f"| {FOO1} |  |"))
        self.checks(": the page is stale: it names no test")


unittest.main()
