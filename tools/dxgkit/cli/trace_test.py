#!/usr/bin/env python3
"""Compares the trace of runs with a seed with the kept one, to the last event. Arguments: support.py.

known_traces.txt has a line per run: its exit code, the number of lines of its text trace, a hash of the trace, and the command. MINIPORTS in the
command is the folder of drivers. DXGKIT_KEEP_TRACES=1 writes the file anew.
"""
import hashlib
import os
import pathlib
import shlex
import unittest

from support import MUTANTS, Cli

CAUSES = {b"why_evicted", b"why_busy", b"why_preempted", b"why_timeout", b"why_device_lost", b"why_refused", b"context_owner",
          b"handle_opened", b"handle_closed", b"hung_buffer", b"hung_patch", b"hung_bytes"}
KNOWN = pathlib.Path(__file__).resolve().parent / "known_traces.txt"


class Traces(Cli):
    """What is meant to alter nothing but the shape of the code alters none of these."""

    def trace(self, command):
        done = self.run_tool(*shlex.split(command.replace("MINIPORTS", MUTANTS)), "--trace", "t.txt")
        # Causes say why, and are no part of the run.
        lines = (self.folder / "t.txt").read_bytes().splitlines(keepends=True)
        text = b"".join(line for line in lines if not line.startswith(b"#") and line.split(None, 3)[2] not in CAUSES)
        return done.returncode, text.count(b"\n"), hashlib.sha256(text).hexdigest()[:16]

    def test_a_run_with_a_seed_gives_the_trace_it_gave(self):
        lines = [line.split(" ", 3) for line in KNOWN.read_text().splitlines() if not line.startswith("#")]
        self.assertGreater(len(lines), 20)
        if os.environ.get("DXGKIT_KEEP_TRACES"):
            head = [line for line in KNOWN.read_text().splitlines() if line.startswith("#")]
            KNOWN.write_text("\n".join([*head, *(" ".join([*map(str, self.trace(command)), command]) for _, _, _, command in lines)]) + "\n")
            return
        for code, count, known, command in lines:
            with self.subTest(command):
                self.assertEqual(self.trace(command), (int(code), int(count), known), f"dxgkit {command}: another trace than {KNOWN.name} says. "
                                 "Write it with --trace here and in the commit before, and compare. If the change is meant: make traces")


if __name__ == "__main__":
    unittest.main()
