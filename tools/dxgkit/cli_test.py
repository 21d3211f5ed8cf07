#!/usr/bin/env python3
"""Uses the built tool as a person would: cli_test.py DXGKIT_EXECUTABLE FOLDER_OF_MUTANTS [unittest arguments]"""
import json
import os
import pathlib
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

HERE = pathlib.Path(__file__).resolve().parent
TOOL, MUTANTS = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
START_FAILS, PATCH_FAILS, ENTRY_MISSING, ENTRY_FAULTS = (os.path.join(MUTANTS, name + ".so") for name in (
    "start_fails", "patch_fails", "entry_missing", "entry_faults"))


def png(width, height):
    """A picture no filter leaves alone, in the plainest PNG: 8-bit RGB."""
    rows = b"".join(b"\0" + bytes((x * 7 + y * y * 3 + channel * 85) & 255 for x in range(width) for channel in range(3)) for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Cli(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.holder.name)
        (self.folder / "good.png").write_bytes(png(97, 61))

    def tearDown(self):
        self.holder.cleanup()

    def run_tool(self, *arguments):
        return subprocess.run([TOOL, *arguments], cwd=self.folder, capture_output=True, text=True)

    def files(self):
        return sorted(path.name for path in self.folder.iterdir())

    def assert_identical(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1], "result: identical to CPU reference")


class BadInput(Cli):
    """One clear line on stderr, exit code 2, nothing written."""

    def refused(self, *arguments, names=None):
        before = self.files()
        done = self.run_tool(*arguments)
        self.assertEqual(done.returncode, 2, f"{arguments}: {done.stdout}{done.stderr}")
        self.assertEqual(done.stdout, "", arguments)
        self.assertEqual(done.stderr.count("\n"), 1, f"{arguments}: {done.stderr}")
        self.assertTrue(done.stderr.startswith("dxgkit: "), done.stderr)
        if names:
            self.assertIn(names, done.stderr)
        self.assertEqual(self.files(), before, arguments)

    OUTPUTS = ("--output", "out.png", "--trace", "out.pftrace", "--report", "out.html")

    def test_command_line(self):
        self.refused()
        self.refused("frobnicate")
        self.refused("run", "--frobnicate", names="--frobnicate")
        self.refused("run", "extra", names="extra")
        self.refused("run", "--trace")
        self.refused("run", "--mode", "fast", names="fast")
        self.refused("run", "--seed", "-1", names="-1")
        self.refused("run", "--seed", "x", names="x")
        self.refused("run", "--size", "0x5", names="0x5")
        self.refused("run", "--vram", "lots", names="lots")
        self.refused("run", "--input", "good.png", "--size", "5x5")
        self.refused("explain")
        self.refused("explain", "PATCH-" + "99", names="PATCH-" + "99")
        self.refused("rules", "NOWHERE", names="NOWHERE")

    def test_seed_ranges(self):
        for text in ("5..3", "1..", "..", "a..b", "7"):
            self.refused("run", "--seeds", text, names=text)
        self.refused("run", "--seeds", "1..2", "--seed", "3")
        self.refused("run", "--seeds", "1..2", "--trace", "out.pftrace")

    def test_pictures(self):
        whole = (self.folder / "good.png").read_bytes()
        (self.folder / "cut.png").write_bytes(whole[:len(whole) // 2])
        (self.folder / "text.png").write_text("not a picture")
        (self.folder / "empty.png").write_bytes(b"")
        for name in ("cut.png", "text.png", "empty.png", "missing.png", "."):
            self.refused("run", "--input", name, *self.OUTPUTS, names=name)

    def test_drivers(self):
        (self.folder / "text.so").write_text("not a driver")
        (self.folder / "cut.so").write_bytes(b"\x7fELF\2\1\1" + b"\0" * 30)
        (self.folder / "empty.so").write_bytes(b"")
        for name in ("text.so", "cut.so", "empty.so", "missing.so", ".", "/bin/true"):
            self.refused("run", "--size", "64x64", "--driver", name, *self.OUTPUTS, names=name)

    def test_video_memory(self):
        self.refused("run", "--size", "256x256", "--vram", "16K", *self.OUTPUTS, names="16384")
        self.refused("run", "--size", "64x64", "--vram", "0", *self.OUTPUTS)
        self.refused("run", "--size", "64x64", "--vram", "900G", *self.OUTPUTS)

    def test_outputs_that_cannot_be_written(self):
        (self.folder / "folder").mkdir()
        for option in ("--output", "--trace", "--report"):
            self.refused("run", "--size", "64x64", option, "no/such/file", names="no/such/file")
            self.refused("run", "--size", "64x64", option, "folder", names="folder")


class Run(Cli):
    def test_real_threads_with_paging(self):
        done = self.run_tool("run", "--size", "700x500", "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        summary = json.loads(done.stdout)
        self.assertEqual(summary["result"], "identical to CPU reference")
        self.assertGreater(summary["evictions"], 0)
        self.assertGreater(summary["page_ins"], 0)
        self.assertGreater(summary["page_in_bytes"], 0)
        self.assertGreater(summary["page_outs"], 0)
        self.assertGreater(summary["patch_locations"], 0)
        # Per tile an upload and a finished tile are signalled by the GPU, and its way back; per process two stage ends.
        self.assertEqual(summary["fence_signals"], 3 * summary["tiles"] + 2 * 2)
        self.assertEqual(summary["packets_completed"], summary["packets"])
        self.assertEqual(summary["findings"], [])
        self.assertEqual(self.files(), ["good.png"])

    def test_a_picture_of_the_user(self):
        done = self.run_tool("run", "--input", "good.png", "--output", "out.png", "--trace", "out.pftrace", "--report", "out.html")
        self.assert_identical(done)
        self.assertEqual(self.files(), ["good.png", "out.html", "out.pftrace", "out.png"])
        header = (self.folder / "out.png").read_bytes()[:24]
        self.assertEqual(struct.unpack(">II", header[16:24]), (49, 31))

    def test_odd_sizes_and_one_pixel(self):
        for size in ("1x1", "129x1", "1x200", "130x131"):
            self.assert_identical(self.run_tool("run", "--size", size, "--mode", "sim"))

    def test_one_tile_of_video_memory_is_enough(self):
        done = self.run_tool("run", "--size", "256x256", "--vram", "1")
        self.assertEqual(done.returncode, 2)
        least = re.search(r"at least (\d+) bytes", done.stderr).group(1)
        for mode in ("os", "sim"):
            self.assert_identical(self.run_tool("run", "--size", "256x256", "--vram", least, "--mode", mode))

    def test_one_seed_is_one_run(self):
        for name, seed in (("a", "7"), ("b", "7"), ("c", "8")):
            self.assert_identical(self.run_tool("run", "--mode", "sim", "--seed", seed, "--size", "256x256", "--trace", name + ".pftrace", "--report", name + ".html"))
        read = lambda name: (self.folder / name).read_bytes()  # noqa: E731
        self.assertEqual(read("a.pftrace"), read("b.pftrace"))
        self.assertEqual(read("a.html"), read("b.html"))
        self.assertNotEqual(read("a.pftrace"), read("c.pftrace"))

    def test_many_seeds(self):
        done = self.run_tool("run", "--mode", "sim", "--seeds", "1..12")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"^seeds 1\.\.12: 12 passed, 0 failed \(\d+\.\d s\)\n$")
        self.assertEqual(self.files(), ["good.png"])

    def test_progress_is_not_in_the_result(self):
        done = self.run_tool("run", "--size", "256x256")
        self.assertNotIn("tile steps", done.stdout)

    def test_report_page_in_a_browser(self):
        self.assert_identical(self.run_tool("run", "--size", "512x512", "--report", "out.html"))
        done = subprocess.run([sys.executable, str(HERE / "report/report_test.py"), str(self.folder / "out.html"), "Report.test_given_pages"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class FaultyDrivers(Cli):
    def test_a_start_that_fails_is_explained(self):
        for mode in ("os", "sim"):
            done = self.run_tool("run", "--size", "64x64", "--driver", START_FAILS, "--mode", mode, "--output", "out.png")
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn("DxgkDdiStartDevice", done.stderr)
            self.assertRegex(done.stderr, r"STATUS_NO_SUCH_DEVICE|0xC000000E")
            self.assertRegex(done.stderr, r"LIFE-\d\d")
            self.assertNotIn("result:", done.stdout)
            self.assertEqual(self.files(), ["good.png"])

    def test_a_driver_that_breaks_a_rule_stops_its_adapter_only(self):
        for mode in ("os", "sim"):
            done = self.run_tool("run", "--size", "64x64", "--driver", PATCH_FAILS, "--mode", mode, "--report", "out.html", "--output", "out.png")
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn("DxgkDdiPatch", done.stderr)
            self.assertRegex(done.stderr, r"PATCH-\d\d")
            self.assertIn("STATUS_DEVICE_REMOVED", done.stderr)
            self.assertEqual(self.files(), ["good.png", "out.html"], "a picture that was never finished was written")

    def test_a_failing_seed_can_be_replayed(self):
        done = self.run_tool("run", "--seeds", "3..4", "--driver", PATCH_FAILS)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"^seeds 3\.\.4: 0 passed, 2 failed ")
        replay = re.search(r"replay: dxgkit (run --mode sim --seed 3 .*)", done.stderr).group(1)
        self.assertIn("--size 256x256", replay)
        again = subprocess.run([TOOL, *shlex.split(replay)], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(again.returncode, 1)
        self.assertIn("DxgkDdiPatch", again.stderr)


class Doctor(Cli):
    def test_a_good_driver(self):
        done = self.run_tool("doctor", "softgpu")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("kind: render-only, interface version 0x4002 (WDDM1_3)", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^  filled  DxgkDdiPatch +mandatory$")
        self.assertRegex(done.stdout, r"(?m)^  empty   DxgkDdiPresent$")
        self.assertRegex(done.stdout, r"imports: \d+ supported, \d+ partial, 0 refused, 0 missing")
        self.assertIn("It can be started", done.stdout)

    def test_json(self):
        done = self.run_tool("doctor", "softgpu", "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        told = json.loads(done.stdout)
        self.assertTrue(told["can_start"])
        self.assertEqual((told["kind"], told["interface_version"]), ("render-only", 0x4002))
        ddis = {ddi["name"]: ddi for ddi in told["ddis"]}
        self.assertEqual(ddis["DxgkDdiRender"]["state"], "filled")
        self.assertTrue(ddis["DxgkDdiRender"]["mandatory"])
        self.assertEqual(ddis["DxgkDdiCommitVidPn"]["state"], "not applicable")
        self.assertEqual(told["findings"], [])

    def test_a_refused_table_is_shown(self):
        done = self.run_tool("doctor", ENTRY_MISSING)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^  MISSING DxgkDdiBuildPagingBuffer +mandatory$")
        self.assertIn("LIFE-03", done.stdout)
        self.assertIn("It cannot be started", done.stdout)

    def test_drivers_that_never_return_or_crash_the_kernel(self):
        done = self.run_tool("doctor", ENTRY_FAULTS)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("DriverEntry", done.stdout)
        self.assertIn("It cannot be started", done.stdout)

    def test_what_is_no_driver(self):
        (self.folder / "text.sys").write_text("not a driver")
        (self.folder / "cut.sys").write_bytes(b"MZ" + b"\0" * 30)
        for name in ("text.sys", "cut.sys", "missing.sys", ".", "/bin/true"):
            done = self.run_tool("doctor", name)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1), name)
            self.assertIn(name, done.stderr)


class Tables(Cli):
    def test_support_names_every_table(self):
        done = self.run_tool("support")
        self.assertEqual(done.returncode, 0)
        for text in ("DxgkDdiPatch", "DxgkCbNotifyInterrupt", "KeGetCurrentIrql", "D3DKMTRender"):
            self.assertRegex(done.stdout, rf"(?m)^  {text} +(supported|partial)", text)
        tables = json.loads(self.run_tool("support", "--json").stdout)
        self.assertEqual(sorted(tables), ["callbacks", "d3dkmt", "ddis", "nt_exports"])
        for name, rows in tables.items():
            self.assertEqual(len({row["name"] for row in rows}), len(rows), name)
            for row in rows:
                self.assertIn(row["support"], ("supported", "partial", "refused"))
                if row["support"] == "partial":
                    self.assertNotEqual(row["note"], "", row["name"])

    def test_rules(self):
        done = self.run_tool("rules")
        self.assertRegex(done.stdout, r"total +\d{3,}")
        self.assertEqual(len(re.findall(r"(?m)^PATCH-\d\d ", self.run_tool("rules", "patch").stdout)), 33)
        self.assertIn("start of the whole DMA buffer", self.run_tool("explain", "patch-08").stdout)


if __name__ == "__main__":
    unittest.main()
