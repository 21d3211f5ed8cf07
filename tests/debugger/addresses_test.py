#!/usr/bin/env python3
"""A driver that prints addresses prints the same ones in every simulation of a seed.

  addresses_test.py DXGKIT_EXECUTABLE FOLDER_OF_DRIVERS
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TOOL, DRIVERS = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
KINDS = {"code", "data", "stack", "import", "callback", "small pool", "a page of pool", "paged pool", "executable pool", "device memory", "adapter",
         "device handle", "physical device", "driver object", "process", "list of pages", "request", "work item", "thread", "pages to transfer",
         "paging buffer"}


class Addresses(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.addCleanup(self.holder.cleanup)
        self.folder = pathlib.Path(self.holder.name)

    def traces(self, *command):
        """What two processes trace. Their environments differ, which moves their stacks, too."""
        out = []
        for i in range(2):
            trace = self.folder / f"{i}.txt"
            done = subprocess.run([TOOL, *command, "--trace", str(trace)], cwd=self.folder, capture_output=True, text=True,
                                  env=dict(os.environ, SOME_VARIABLE="x" * 5000 * i))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            out.append(trace.read_text())
        return out

    def check(self, *command):
        first, second = self.traces(*command)
        said = {kind: int(address, 16) for kind, address in re.findall(r"talking: ([a-z ]+) at (?:0x)?([0-9A-Fa-f]+)", first)}
        self.assertEqual(set(said), KINDS)
        self.assertNotIn(0, said.values())
        self.assertEqual(first, second)

    def test_the_system_gives_processes_different_addresses(self):
        """Else the tests below would prove nothing."""
        maps = {subprocess.run(["cat", "/proc/self/maps"], capture_output=True, text=True).stdout for _ in range(2)}
        self.assertEqual(len(maps), 2)

    def test_replay(self):
        for form in ("sys", "so"):
            with self.subTest(form):
                self.check("replay", "7", f"{DRIVERS}/talking.{form}")

    def test_run(self):
        for form in ("sys", "so"):
            with self.subTest(form):
                self.check("run", "--driver", f"{DRIVERS}/talking.{form}", "--mode", "sim", "--seed", "7", "--size", "128x128")


if __name__ == "__main__":
    unittest.main()
