#!/usr/bin/env python3
"""Uses the built tool as a person would: fuzz. Arguments: support.py."""
import os
import re
import unittest

from support import MUTANT, MUTANTS, Cli


class Fuzz(Cli):
    def test_a_good_driver_is_clean(self):
        for driver in ("softgpu", "softgpu_wddm2"):
            done = self.run_tool("fuzz", driver, "--seeds", "1..6", "--steps", "60")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(done.stdout.splitlines()[-1], "clean")
            self.assertRegex(done.stdout, r"6 seeds, 0 of them not clean; \d{3,} calls")
            reached, possible = map(int, re.search(r"\nsituations: (\d+) of (\d+) that can come up with this driver\n", done.stdout).groups())
            self.assertTrue(20 < reached < possible, done.stdout)
        self.assertEqual(self.files(), ["good.png"])  # nothing to reproduce, nothing written

    def test_a_display_only_driver_is_clean(self):
        for form in (".so", ".sys"):
            done = self.run_tool("fuzz", os.path.join(MUTANTS, "framebuffer" + form), "--device", "framebuffer", "--seeds", "1..12", "--steps", "150")
            self.assertEqual((done.returncode, done.stdout.splitlines()[-1:]), (0, ["clean"]), done.stdout + done.stderr)
            self.assertRegex(done.stdout, r"12 seeds, 0 of them not clean; \d{3,} calls")

    def test_a_reproducer_has_the_options_of_its_run(self):
        fault = self.choose_fault("render_trusts")
        done = self.run_tool("fuzz", MUTANT, *fault, "--device", "softgpu,vram=8M", "--special-pool", "--seeds", "1..20", "--steps", "120", "--tries",
                             "0", "--out", "found")
        self.assertIn(done.returncode, (1, 3), done.stdout + done.stderr)
        lines = next(iter((self.folder / "found").glob("*.fuzz"))).read_text().splitlines()
        for line in ("dxgkit-fuzz 2", "device softgpu,vram=8M", "special-pool", 'registry {"service": {"Mutant": "render_trusts"}}'):
            self.assertIn(line, lines)
        self.assertTrue(any(line.startswith("memory ") for line in lines), lines)
        # What cannot be there any more is named.
        (self.folder / "odd.fuzz").write_text("dxgkit-fuzz 2\ndevice toaster\nseed 1\n")
        done = self.run_tool("fuzz", MUTANT, "--replay", "odd.fuzz")
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1))
        self.assertIn("odd.fuzz: ", done.stderr)
        # Files of the first version had no options.
        (self.folder / "old.fuzz").write_text("dxgkit-fuzz 1\nseed 1\nsteps 0 1 2\n")
        done = self.run_tool("fuzz", "softgpu", "--replay", "old.fuzz")
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (0, "clean"), done.stdout + done.stderr)

    def test_a_mutant_is_found_made_small_and_replayed(self):
        fault = self.choose_fault("render_trusts")
        done = self.run_tool("fuzz", MUTANT, *fault, "--seeds", "1..20", "--steps", "120", "--out", "found", "--junit=junit.xml",
                             "--sarif=findings.sarif")
        self.assertIn(done.returncode, (1, 3), done.stdout + done.stderr)
        files = sorted((self.folder / "found").glob("*.fuzz"))
        self.assertTrue(files, done.stdout)
        self.assertIn("failures=", (self.folder / "junit.xml").read_text())
        self.assertIn("situation patch.no-elements", (self.folder / "junit.xml").read_text())
        self.assertIn("2.1.0", (self.folder / "findings.sarif").read_text())
        found = next(file for file in files if "DxgkDdiRender" in file.read_text().splitlines()[0])
        text = found.read_text()
        steps = sum(len(line.split()) - 1 for line in text.splitlines() if line.startswith("steps "))
        self.assertLessEqual(steps, 3, text)  # one Render does it
        self.assertIn("D3DKMTRender", text)
        # The file has the registry of the run, which chose the fault.
        self.choose_fault("none")
        again = self.run_tool("fuzz", MUTANT, "--replay", str(found))
        self.assertEqual(again.returncode, done.returncode, again.stdout + again.stderr)
        self.assertIn(text.splitlines()[0].removeprefix("# "), again.stdout)
        # The command line goes above the file. Without the fault there is nothing to see.
        whole = self.run_tool("fuzz", MUTANT, *fault, "--replay", str(found))
        self.assertEqual((whole.returncode, whole.stdout.splitlines()[-1]), (0, "clean"), whole.stdout + whole.stderr)

    def test_the_same_seeds_find_the_same(self):
        fault = self.choose_fault("devices_leak")
        lines = [self.run_tool("fuzz", MUTANT, *fault, "--seeds", "1..6", "--steps", "40", "--tries", "0", "--jobs", jobs, "--out", "found").stdout
                 for jobs in ("1", "3")]
        # Seeds end in another order with several processes; what comes of them all does not.
        self.assertEqual(*([line for line in text.splitlines() if not line.startswith("seed ")] for text in lines))
        self.assertRegex(lines[0], r"problems?$")

    def test_a_driver_that_does_not_come_back(self):
        done = self.run_tool("fuzz", MUTANT, *self.choose_fault("render_spins"), "--seeds", "1..3", "--steps", "60", "--timeout", "2", "--tries",
                             "4", "--out", "found")
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^hang in DxgkDdiRender: \d seeds?")

    def test_bad_input(self):
        (self.folder / "text.sys").write_text("not a driver")
        (self.folder / "cut.so").write_bytes(b"\x7fELF\2\1\1" + b"\0" * 30)
        (self.folder / "bad.fuzz").write_text("dxgkit-fuzz 1\nseed 1\nsteps 9 8\n")
        for arguments, names in ((("fuzz",), "DRIVER"), (("fuzz", "missing.sys"), "missing.sys"), (("fuzz", "text.sys"), "text.sys"),
                                 (("fuzz", "cut.so"), "cut.so"), (("fuzz", "softgpu", "--seeds", "5..1"), "5..1"),
                                 (("fuzz", "softgpu", "--seeds", "1..2", "--seconds", "3"), "--seconds"),
                                 (("fuzz", "softgpu", "--replay", "missing"), "missing"),
                                 (("fuzz", "softgpu", "--replay", "bad.fuzz"), "line 3"),
                                 (("fuzz", "softgpu", "--device", "none"), "softgpu"),
                                 (("fuzz", "softgpu", "--sarif", "--junit"), "stdout")):
            with self.subTest(arguments=arguments):
                before = self.files()
                done = self.run_tool(*arguments)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stdout + done.stderr)
                self.assertTrue(re.search(r"(?m)^dxgkit: ", done.stderr), done.stderr)
                self.assertIn(names, done.stderr)
                self.assertEqual(self.files(), before)


if __name__ == "__main__":
    unittest.main()
