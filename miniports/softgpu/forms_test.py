#!/usr/bin/env python3
"""The picture job on both forms of the driver, built from one source: forms_test.py TOOL ELF SYS [unittest arguments]

Both must draw the same picture with the same work. Numbers that depend on the interleaving of threads are not compared: evictions, times, and with
real threads the number of paging packets. The interleavings differ because the PE form finds the graphics kernel by a handshake that the ELF twin does
not need.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL, ELF, SYS = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
SAME = ("result", "tiles", "working_set_bytes", "vram_bytes", "packets_cancelled", "packets_faulted", "patch_locations", "fence_signals",
        "interface_version", "findings")


class Forms(unittest.TestCase):
    def job(self, driver, mode, seed):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([TOOL, "run", "--driver", driver, "--size", "700x500", "--mode", mode, "--seed", str(seed), "--output", "out.png",
                                   "--json"], cwd=folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, f"{driver} {mode} {seed}: {done.stdout}{done.stderr}")
            summary = json.loads(done.stdout)
            self.assertEqual(summary["packets_completed"], summary["packets"])
            same = {key: summary[key] for key in SAME}
            # Who is evicted when depends on the interleaving, and the forms make other ones of a seed.
            same["packets of clients"] = summary["packets"] - summary["paging_packets"]
            return same, summary, (pathlib.Path(folder) / "out.png").read_bytes()

    def both(self, mode, seed):
        elf, elf_summary, elf_picture = self.job(ELF, mode, seed)
        pe, summary, pe_picture = self.job(SYS, mode, seed)
        if mode == "os" and elf_summary["packets_resubmitted"] + summary["packets_resubmitted"] > 0:
            # What gave way is patched once more, and on a busy machine quanta end in the middle.
            del elf["patch_locations"], pe["patch_locations"]
        self.assertTrue(summary["driver"].endswith(".sys"), summary["driver"])
        self.assertEqual(elf, pe)
        self.assertEqual(pe["result"], "identical to CPU reference")
        self.assertGreater(summary["packets"], 100)
        self.assertEqual(pe["findings"], [])
        self.assertEqual(elf_picture, pe_picture)

    def test_real_threads(self):
        self.both("os", 1)

    def test_simulation(self):
        for seed in (1, 2, 3):
            self.both("sim", seed)

    def test_a_seed_repeats_itself(self):
        """The stack cookie and everything else of a PE driver come from the seed: the whole summary is the same."""
        first = self.job(SYS, "sim", 9)
        second = self.job(SYS, "sim", 9)
        self.assertEqual(first, second)


if __name__ == "__main__":
    unittest.main()
