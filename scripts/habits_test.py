#!/usr/bin/env python3
"""scripts/habits: the pages of this tree are right, and each kind of wrong line is told."""
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "habits"
ROOT = SCRIPT.parent.parent


class Habits(unittest.TestCase):
    def check(self, page=None, change=None):
        with tempfile.TemporaryDirectory() as folder:
            if page:
                path = pathlib.Path(folder, page)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(change((ROOT / page).read_text()))
            done = subprocess.run([SCRIPT, folder], capture_output=True, text=True)
            return done.returncode, done.stdout.splitlines()

    def test_this_tree(self):
        self.assertEqual(self.check(), (0, ["6 pages: what they name is there"]))

    def test_what_is_not_there(self):
        for page, line, wanted in (("CONTRIBUTING.md", "See `src/no_such_folder`.", "CONTRIBUTING.md: src/no_such_folder is not there"),
                                   ("README.md", "Run `make nothing`.", "README.md: there is no make nothing"),
                                   ("docs/threat-model.md", "| a | b | fuzz_nothing |", "docs/threat-model.md: there is no test fuzz_nothing")):
            with self.subTest(page=page):
                self.assertEqual(self.check(page, lambda text: text + line + "\n"), (1, [wanted]))

    def test_what_has_no_line(self):
        self.assertEqual(self.check("scripts/README.md", lambda text: text.replace("| `licences` |", "| |")), (1, ["scripts/README.md: licences has no line"]))
        code, said = self.check("docs/abi-history.md", lambda text: text.replace("| `libdxgkit.so.1` |", "| |"))
        self.assertEqual((code, [line for line in said if "has no line" not in line]), (1, []))


if __name__ == "__main__":
    unittest.main()
