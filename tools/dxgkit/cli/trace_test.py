#!/usr/bin/env python3
"""Holds the trace of runs with a seed against the one they gave before, to the last event. Arguments: support.py.

known_traces.txt has a line per run: lines of its text trace, a hash of it, and the command. DXGKIT_KEEP_TRACES=1 writes it anew.
"""
import hashlib
import os
import pathlib
import shlex
import unittest

from support import Cli

KNOWN = pathlib.Path(__file__).resolve().parent / "known_traces.txt"


class Traces(Cli):
    """What is meant to alter nothing but the shape of the code alters none of these."""

    def trace(self, command):
        done = self.run_tool(*shlex.split(command), "--trace", "t.txt")
        self.assertIn(done.returncode, (0, 1), f"{command}: {done.stdout}{done.stderr}")
        text = (self.folder / "t.txt").read_bytes()
        return text.count(b"\n"), hashlib.sha256(text).hexdigest()[:16]

    def test_a_run_with_a_seed_gives_the_trace_it_gave(self):
        lines = [line.split(" ", 2) for line in KNOWN.read_text().splitlines() if not line.startswith("#")]
        self.assertGreater(len(lines), 20)
        if os.environ.get("DXGKIT_KEEP_TRACES"):
            head = [line for line in KNOWN.read_text().splitlines() if line.startswith("#")]
            KNOWN.write_text("\n".join([*head, *(" ".join([*map(str, self.trace(command)), command]) for _, _, command in lines)]) + "\n")
            return
        for count, known, command in lines:
            with self.subTest(command):
                self.assertEqual(self.trace(command), (int(count), known), f"dxgkit {command}: another trace than {KNOWN.name} says. "
                                 "Write it with --trace here and in the commit before, and compare. If the change is meant: make traces")


if __name__ == "__main__":
    unittest.main()
