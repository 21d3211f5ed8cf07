#!/usr/bin/env python3
"""fuzz/run as shards that share what they find: run_test.py BUILD"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

RUN = pathlib.Path(__file__).resolve().parent / "run"
BUILD = os.path.abspath(sys.argv.pop(1))
TARGET = "power_plan"


class Shards(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.found = pathlib.Path(holder.name)

    def run_fuzz(self, *words, corpus="none", code=0):
        done = subprocess.run([RUN, "--nice", "0", "--target", TARGET, "--found", self.found, "--corpus", self.found / corpus, *words, BUILD], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def figures(self, said):
        return [int(one) for one in re.search(r"(\d+) edges; (\d+) inputs of its own; (\d+) inputs of (\d+) other shards", said).groups()]

    def names(self, folder):
        return {path.name for path in (self.found / TARGET / folder).iterdir()}

    def test_a_shard_begins_with_what_the_others_found(self):
        edges, own, others, shards = self.figures(self.run_fuzz("--shard", "1/2", "--runs", "5000"))
        self.assertEqual((others, shards), (0, 0))
        self.assertGreater(own, 10)
        # Hardly a run of its own: it reaches what the first reached, and keeps nothing that the first has.
        more, kept, others, shards = self.figures(self.run_fuzz("--shard", "2/2", "--runs", str(own + 1)))
        self.assertEqual((others, shards), (own, 1))
        self.assertGreaterEqual(more, edges)
        self.assertEqual(self.names("1") & self.names("2"), set())
        # Whoever looks again meets what came in the meantime.
        self.assertEqual(self.figures(self.run_fuzz("--shard", "1/2", "--runs", "100", "--rounds", "2"))[2:], [len(self.names("2")), 1])

    def test_merging_keeps_what_reaches_more_and_doubles_change_nothing(self):
        self.run_fuzz("--shard", "1/2", "--runs", "2000")
        self.run_fuzz("--shard", "2/2", "--runs", "2000")
        said = self.run_fuzz("--merge")
        merged = self.names("merged")
        self.assertIn(f"{TARGET}: 2 shards with ", said)
        self.assertGreater(len(merged), 5)
        self.assertTrue(merged <= self.names("1") | self.names("2"))
        shutil.copytree(self.found / TARGET / "1", self.found / TARGET / "3")
        self.run_fuzz("--merge")
        self.assertEqual(self.names("merged"), merged)
        # With a corpus that reaches all of it nothing is left.
        shutil.copytree(self.found / TARGET / "merged", self.found / "corpus" / TARGET)
        self.assertIn(", 0 of them reach what the corpus does not", self.run_fuzz("--merge", corpus="corpus"))
        self.assertEqual(self.names("merged"), set())

    def test_bad_shards_are_refused(self):
        for shard in "0/2", "3/2", "1", "x/2":
            self.run_fuzz("--shard", shard, code=2)
        self.assertEqual(list(self.found.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
