#!/usr/bin/env python3
"""scripts/abi_check on small libraries, and on the public one: abi_check_test.py CXX [LIBRARY]"""
import lzma
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "abi_check"
CXX = sys.argv.pop(1)
LIBRARY = sys.argv.pop(1) if len(sys.argv) > 1 else None
F = 'extern "C" int f(S* s) { return s->a; }'
G = 'extern "C" int g() { return 1; }'


@unittest.skipUnless(shutil.which("abidiff"), "no abidiff: scripts/bootstrap")
class AbiCheck(unittest.TestCase):
    def compare(self, source, number="libs.so.1"):
        with tempfile.TemporaryDirectory() as folder:
            for name, text, soname in (("old", f"struct S {{ int a; }};{F}{G}", "libs.so.1"), ("new", source, number)):
                (pathlib.Path(folder) / f"{name}.cpp").write_text(text)
                subprocess.run([CXX, "-g", "-shared", "-fPIC", f"-Wl,-soname,{soname}", "-o", f"{name}.so", f"{name}.cpp"], cwd=folder, check=True)
            return subprocess.run([SCRIPT, "old.so", "new.so"], cwd=folder, capture_output=True, text=True).returncode

    def test_the_same_and_more(self):
        self.assertEqual(self.compare(f"struct S {{ int a; }};{F}{G}"), 0)
        self.assertEqual(self.compare(f'struct S {{ int a; }};{F}{G}extern "C" int h() {{ return 2; }}'), 0)

    def test_less_and_other(self):
        self.assertEqual(self.compare(f"struct S {{ int a; }};{F}"), 1)
        self.assertEqual(self.compare(f"struct S {{ long x; int a; }};{F}{G}"), 1)

    def test_less_under_another_number(self):
        self.assertEqual(self.compare(f"struct S {{ int a; }};{F}", "libs.so.2"), 0)

    def test_no_library(self):
        self.assertEqual(subprocess.run([SCRIPT, "missing.so", "missing.so"], capture_output=True).returncode, 2)


@unittest.skipUnless(LIBRARY and shutil.which("abidiff"), "no library with types, or no abidiff: scripts/bootstrap")
class Interface(unittest.TestCase):
    """The library as it is against what the last release had, and against what would have been taken away or changed since."""
    def check(self, change):
        text = lzma.open(SCRIPT.parent.parent / "src/api/interface.xml.xz", "rt").read()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "interface.xml")
            path.write_text(change(text))
            done = subprocess.run([SCRIPT, path, LIBRARY], capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr

    def replaced(self, old, new):
        def change(text):
            self.assertIn(old, text)
            return text.replace(old, new, 1)
        code, said = self.check(change)
        self.assertEqual(code, 1, said)
        return said

    def test_nothing_is_missing(self):
        self.assertEqual(self.check(lambda text: text), (0, "abi_check: compatible\n"))

    def test_a_function_that_is_gone(self):
        symbol = "<elf-symbol name='D3DKMTEscape'"
        self.assertIn("D3DKMTGone@@", self.replaced(symbol, symbol.replace("Escape", "Gone")))

    def test_a_structure_of_another_size(self):
        self.assertIn("StackOptions", self.replaced("<class-decl name='StackOptions' size-in-bits='1", "<class-decl name='StackOptions' size-in-bits='2"))


if __name__ == "__main__":
    unittest.main()
