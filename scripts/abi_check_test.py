#!/usr/bin/env python3
"""scripts/abi_check on small libraries: abi_check_test.py CXX"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "abi_check"
CXX = sys.argv.pop(1)
F = 'extern "C" int f(S* s) { return s->a; }'
G = 'extern "C" int g() { return 1; }'


class AbiCheck(unittest.TestCase):
    def setUp(self):
        if not shutil.which("abidiff"):
            self.skipTest("no abidiff: scripts/bootstrap abigail-tools")

    def compare(self, source):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("old", f"struct S {{ int a; }};{F}{G}"), ("new", source)):
                (pathlib.Path(folder) / f"{name}.cpp").write_text(text)
                subprocess.run([CXX, "-g", "-shared", "-fPIC", "-o", f"{name}.so", f"{name}.cpp"], cwd=folder, check=True)
            return subprocess.run([SCRIPT, "old.so", "new.so"], cwd=folder, capture_output=True, text=True).returncode

    def test_the_same_and_more(self):
        self.assertEqual(self.compare(f"struct S {{ int a; }};{F}{G}"), 0)
        self.assertEqual(self.compare(f'struct S {{ int a; }};{F}{G}extern "C" int h() {{ return 2; }}'), 0)

    def test_less_and_other(self):
        self.assertEqual(self.compare(f"struct S {{ int a; }};{F}"), 1)
        self.assertEqual(self.compare(f"struct S {{ long x; int a; }};{F}{G}"), 1)

    def test_no_library(self):
        self.assertEqual(subprocess.run([SCRIPT, "missing.so", "missing.so"], capture_output=True).returncode, 2)


if __name__ == "__main__":
    unittest.main()
