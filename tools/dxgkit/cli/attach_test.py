#!/usr/bin/env python3
"""The line that `dxgkit attach` prints, and what gdb does with it. Arguments: support.py."""
import json
import shlex
import shutil
import subprocess
import unittest

from support import MUTANT, TOOL, Cli


class Attach(Cli):
    def setUp(self):
        super().setUp()
        self.run_tool("check", MUTANT, *self.choose_fault("devices_leak"), "--step", "processes", "--json=report.json", "--seed", "3")

    def line(self, *arguments):
        done = self.run_tool("attach", "report.json", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.count("\n"), 1)
        return shlex.split(done.stdout)

    def test_gdb_stops_at_the_finding_and_shows_the_state(self):
        if not shutil.which("gdb"):
            self.skipTest("no gdb")
        line = self.line("--rule", "LIFE-20")
        self.assertEqual(line[0], "gdb")
        at = line.index("--args")
        self.assertEqual(line[at + 1:at + 4], [TOOL, "verify", "--in-process"])
        self.assertEqual(line[line.index("--seed") + 1], "3")
        line[at:at] = ["-ex", "printf \"rule %s\\n\", (char*) $rdi", "-ex", "dxgkit adapters", "-ex", "dxgkit packets", "-ex", "dxgkit allocations",
                       "-ex", "dxgkit waits", "-ex", "dxgkit nonsense", "-ex", "kill"]
        done = subprocess.run([line[0], "-nx", "-batch", *line[1:]], cwd=self.folder, capture_output=True, text=True, timeout=300)
        said = done.stdout + done.stderr
        self.assertIn("dxgkit_finding", said)
        self.assertIn("rule LIFE-20\n", said)
        self.assertIn("dxgkit adapters|packets|allocations|waits", said)
        if "no kernel of dxgkit answers: Couldn't write extended state status" in said:
            self.skipTest("gdb 13 cannot call functions on this processor (its state is larger than gdb knows); api's DebugText proves the text")
        self.assertRegex(said, r"adapter 0:1: \d+ devices?, \d+ contexts?, \d+ allocations?\n  node 0: \d+ on hardware, submitted \d+, completed \d+")
        self.assertRegex(said, r"\n  segment 1: \d+ of \d+ bytes are free, \d+ allocations?\n")

    def test_lldb(self):
        line = self.line("--lldb")
        self.assertEqual(line[0], "lldb")
        self.assertIn("breakpoint set -n dxgkit_finding", " ".join(line))
        self.assertEqual(line[line.index("--") + 1], TOOL)

    def test_a_finding_of_many_seeds_has_its_own(self):
        self.run_tool("verify", MUTANT, *self.choose_fault("devices_leak"), "--step", "processes", "--seeds", "5..6", "--json=report.json")
        line = self.line()
        self.assertNotIn("--seeds", line)
        self.assertEqual(line[line.index("--mode") + 1], "sim")
        self.assertIn(line[line.index("--seed") + 1], ("5", "6"))

    def test_any_text_may_be_in_the_report(self):
        report = json.loads((self.folder / "report.json").read_text())

        def refused(text, said):
            (self.folder / "report.json").write_text(text)
            done = self.run_tool("attach", "report.json")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", f"dxgkit: report.json: {said}\n"))

        none = "it is no report: `dxgkit check --json=FILE` writes one"
        for text in ("", "{", "[]", "7", "{}", '{"command": 7}', '{"command": "rm -rf /"}', '{"command": "dxgkit verify \'"}', "[" * 100000):
            refused(text, none)
        refused(json.dumps(report | {"wrong": []}), "nothing is wrong in it")
        refused(json.dumps(report | {"wrong": [{"rule": "A\") || shell(\"id", "severity": "violation"}]}), "it is no report: a finding has no rule")
        for command, words in (("dxgkit verify a.sys; touch bad", ["a.sys;", "touch", "bad"]),
                               ("dxgkit verify $(touch bad) `touch bad`", ["$(touch", "bad)", "`touch", "bad`"]),
                               ("dxgkit verify 'a b' \"c\" > bad\ntouch", ["a b", '"c"', ">", "bad\ntouch"])):
            (self.folder / "report.json").write_text(json.dumps(report | {"command": command}))
            done = self.run_tool("attach", "report.json")
            # Each word is one for a shell as well.
            typed = subprocess.run(["bash", "-c", "printf '%s\\0' " + done.stdout], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(typed.stdout.split("\0")[:-1][-len(words):], words)
        self.assertEqual(self.run_tool("attach", "missing.json").returncode, 2)
        self.assertNotIn("bad", self.files())


if __name__ == "__main__":
    unittest.main()
