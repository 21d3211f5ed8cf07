#!/usr/bin/env python3
"""Proves scripts/mutation/planted.py: what it makes of an edit, and that it names the bug and the file of every edit that does not fit."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts" / "mutation"))
import planted  # noqa: E402

FILE = "src/a.cpp"
TEXT = """void f(int* x) {
  if (x == nullptr) return;
  ++*x;
  note("the value", *x,
       "changed");
  ++*x;
}
"""


def edit(old="if (x == nullptr) return;", new="if (x == nullptr || PLANTED) return;", file=FILE):
    return {"file": file, "old": old, "new": new}


def bug(*edits, name="counts_less", **more):
    return {"name": name, "edits": list(edits), **more}


class PlantedBugs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "src").mkdir()
        self.write(TEXT)

    def write(self, text):
        (self.root / FILE).write_text(text)

    def copy(self, *bugs):
        return planted.copies(list(bugs), self.root)[FILE].decode()

    def refuses(self, said, *bugs):
        """There is one fault, which says so, and no copy is written."""
        wrong = planted.faults(list(bugs), self.root)
        self.assertEqual(len(wrong), 1, wrong)
        self.assertIn(said, wrong[0])
        with self.assertRaises(ValueError):
            planted.copies(list(bugs), self.root)
        return wrong[0]

    def test_an_edit_asks_by_the_name_of_its_bug(self):
        self.assertEqual(self.copy(bug(edit())),
                         TEXT.replace("== nullptr)", '== nullptr || ::dxgkit_mutation::planted("counts_less"))'))

    def test_several_bugs_and_several_edits_go_into_one_copy(self):
        first = bug(edit(), edit("++*x; note", "if (!PLANTED) ++*x; note"))
        second = bug(edit("++*x; }", "*x += PLANTED ? 2 : 1; }"), name="counts_more")
        copy = self.copy(first, second)
        self.assertEqual(copy.count('planted("counts_less")'), 2)
        self.assertEqual(copy.count('planted("counts_more")'), 1)

    def test_other_lines_keep_their_numbers(self):
        copy = self.copy(bug(edit('++*x; note("the value", *x, "changed");', 'if (!PLANTED) ++*x;')))
        self.assertEqual(copy.splitlines()[5], TEXT.splitlines()[5])
        self.assertEqual(copy.count("\n"), TEXT.count("\n"))

    def test_formatting_does_not_matter(self):
        self.write(TEXT.replace("if (x == nullptr) return;", "if (x ==\n      nullptr)\n    return;"))
        self.assertIn('nullptr || ::dxgkit_mutation::planted("counts_less")', self.copy(bug(edit())))

    def test_a_word_that_contains_the_question_stays(self):
        self.assertIn("UNPLANTED", self.copy(bug(edit(new="if (UNPLANTED || PLANTED) return;"))))

    def test_old_text_that_is_gone(self):
        self.write(TEXT.replace("nullptr", "0"))
        said = self.refuses("`old` is not there: if (x == nullptr) return;", bug(edit()))
        self.assertTrue(said.startswith(f"counts_less: {FILE}: "), said)

    def test_old_text_that_is_there_twice(self):
        self.assertTrue(self.refuses("is there 2 times, in lines 3, 6", bug(edit("++*x;", "if (!PLANTED) ++*x;"))).startswith(f"counts_less: {FILE}: "))

    def test_a_file_that_is_not_there(self):
        self.assertTrue(self.refuses("there is no such file", bug(edit(file="src/b.cpp"))).startswith("counts_less: src/b.cpp: "))

    def test_a_header(self):
        self.refuses("only a .cpp file", bug(edit(file="src/a.h")))

    def test_an_edit_that_does_not_ask(self):
        self.refuses("does not ask PLANTED", bug(edit(new="return;")))

    def test_old_text_that_is_empty(self):
        self.refuses("`old` is empty", bug(edit(old=" ")))

    def test_a_comment(self):
        self.refuses("a comment would hide", bug(edit(new="if (PLANTED) return;  // now")))

    def test_edits_that_overlap(self):
        said = self.refuses("overlaps an edit of counts_more", bug(edit()), bug(edit("return; ++*x;", "if (PLANTED) return; ++*x;"), name="counts_more"))
        self.assertTrue(said.startswith(f"counts_less: {FILE}: "), said)

    def test_two_bugs_of_one_name(self):
        self.refuses("counts_less: two bugs have this name", bug(edit()), bug(edit("++*x; }", "if (!PLANTED) ++*x; }")))

    def test_entries_that_are_no_bugs(self):
        self.refuses("has no edits", bug())
        self.refuses("a name is made of", bug(edit(), name="Counts less"))
        self.refuses("unknown members: because", bug(edit(), because="it may"))
        self.refuses("an edit has file, old and new", bug({"file": FILE, "old": "++*x; }"}))
        self.refuses("a test has a program and a name", bug(edit(), test={"name": "A.B"}))

    def test_each_broken_edit_is_named(self):
        wrong = planted.faults([bug(edit("gone();", "PLANTED;")), bug(edit(file="src/b.cpp"), name="counts_more")], self.root)
        self.assertEqual([one.split(":")[0] for one in wrong], ["counts_less", "counts_more"])


unittest.main()
