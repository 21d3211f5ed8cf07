#!/usr/bin/env python3
"""gdb stops in a driver of either form, and shows functions, files, lines and variables.

  gdb_test.py DXGKIT_EXECUTABLE FOLDER_OF_DRIVERS
"""
import os
import re
import subprocess
import sys
import unittest

TOOL, DRIVERS = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
FORMS = ("sys", "so")


class Gdb(unittest.TestCase):
    def gdb(self, commands, *program):
        words = ["gdb", "-nx", "-batch", "-ex", "set breakpoint pending on", "-ex", "handle SIGSEGV SIG38 nostop noprint pass",
                 "-ex", "set width 0", "-ex", "set debuginfod enabled off"]
        for command in commands:
            words += ["-ex", command]
        done = subprocess.run([*words, "--args", *program], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return done.stdout + done.stderr

    def frames(self, text):
        """Function and file of each frame of a backtrace, innermost first."""
        return re.findall(r"^(?:\(gdb\) )?#\d+ +(?:0x[0-9a-f]+ in )?([^ ]+) \([^)]*\)(?:\s+at .*?([^/ ]+):\d+)?", text, re.MULTILINE)

    def test_a_c_driver(self):
        for form in FORMS:
            with self.subTest(form):
                said = self.gdb(["break Allocate", "run", "backtrace", "print bytes", "delete", "break FirstCreateDevice", "continue", "backtrace", "kill"],
                                TOOL, "verify", "--in-process", f"{DRIVERS}/debugged_first.{form}", "--device", "none")
                # The unwind data leads from one function of the driver to the other, then over the switch of stacks, which gdb takes for a
                # signal handler's, to our own code and its start.
                first, second = said.split("$1 = ")
                frames = self.frames(first)
                self.assertEqual(frames[:2], [("Allocate", "first.c"), ("FirstAddDevice", "first.c")], said)
                self.assertRegex(first, "(?m)^#2 +<signal handler called>$")
                self.assertEqual(frames[-1], ("main", "main.cpp"), said)
                self.assertGreater(int(second.split()[0]), 0)
                self.assertRegex(second, r"Breakpoint 2, (Allocate|FirstCreateDevice) \(.*\) at .*first\.c:\d+")
                self.assertIn(("FirstCreateDevice", "first.c"), self.frames(second)[:2], said)

    def test_a_line_of_a_cpp_driver(self):
        for form in FORMS:
            with self.subTest(form):
                said = self.gdb(["break softgpu::DdiBuildPagingBuffer", "run", "backtrace 2", "print args->Operation", "kill"],
                                TOOL, "verify", "--in-process", f"{DRIVERS}/softgpu.{form}")
                self.assertEqual(self.frames(said)[0], ("softgpu::DdiBuildPagingBuffer", "submission.cpp"), said)
                self.assertIn("$1 = DXGK_OPERATION_TRANSFER", said)

    def test_an_unloaded_driver_is_withdrawn(self):
        for form in FORMS:
            with self.subTest(form):
                said = self.gdb(["break FirstUnload", "run", "info symbol FirstUnload", "break _exit", "continue", "info symbol FirstUnload", "kill"],
                                TOOL, "verify", "--in-process", f"{DRIVERS}/debugged_first.{form}", "--device", "none", "--step", "start")
                self.assertRegex(said, r"FirstUnload(\(\))? in section \.text")
                self.assertRegex(said.split("_exit")[-1], 'No symbol "FirstUnload" in current context')

    def test_replay(self):
        for form in FORMS:
            with self.subTest(form):
                done = subprocess.run([TOOL, "replay", "7", f"{DRIVERS}/softgpu.{form}", "--gdb", "--break", "DdiSubmitCommand"],
                                      input="backtrace 1\nkill\nquit\n", capture_output=True, text=True)
                said = done.stdout + done.stderr
                self.assertEqual(self.frames(said)[0], ("softgpu::DdiSubmitCommand", "submission.cpp"), said)


if __name__ == "__main__":
    unittest.main()
