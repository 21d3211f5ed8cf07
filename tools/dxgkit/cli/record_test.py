#!/usr/bin/env python3
"""dxgkit record, calls, replay of a recording and verify with one: examples/client and a program that does a plug-in's jobs are recorded."""
import json
import os
import sys
import unittest

from support import MUTANT, TOOL, Cli

CLIENTS = os.path.join(os.path.dirname(TOOL), "clients")
CLIENT = os.path.join(CLIENTS, "example_client")
PLUGIN = os.path.join(CLIENTS, "softgpu_client.so")
JOBS = 12  # on each node
WORKS = (os.path.join(CLIENTS, "plugin_program"), PLUGIN, str(JOBS), "2")
SAID = "1 adapter, 4096 bytes written, the fence is at 7\n"
# A parent and its child call the kernel, each its own.
FORKS = """
import ctypes, os, sys
def count():
    adapters = ctypes.create_string_buffer(20 * 40)
    numbers = (ctypes.c_uint64 * 2)(40, ctypes.addressof(adapters))
    return ctypes.CDLL("libdxcore.so").D3DKMTEnumAdapters2(numbers), numbers[0]
print(count(), flush=True)
if (child := os.fork()) == 0:
    print(count(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


class Record(Cli):
    def record(self, *arguments, program=(CLIENT,), file="app.dxgk"):
        return self.run_tool("record", "-o", file, *arguments, "--", *program)

    def recorded(self):
        done = self.record()
        self.assertEqual((done.stdout, done.stderr, done.returncode), (SAID, "", 0))
        return self.folder / "app.dxgk"

    def test_a_recording_is_printed_and_replayed(self):
        self.recorded()
        self.assertEqual(sorted(self.files()), ["app.dxgk", "good.png"])
        done = self.run_tool("calls", "app.dxgk")
        self.assertEqual((done.stderr, done.returncode), ("", 0))
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "8 calls of example_client on 1 thread")
        self.assertEqual(len(lines), 9)
        self.assertIn("  D3DKMTEnumAdapters2(NumAdapters=1, pAdapters=[1]) = 0x0", lines[1])
        self.assertIn(" = 0x0, had written 4096 bytes", lines[5])
        for options in ((), ("--driver", "softgpu_wddm2"), ("--mode", "sim", "--seed", "3"), ("--mode", "sim", "--seed", "4")):
            done = self.run_tool("replay", "app.dxgk", *options)
            self.assertEqual((done.stdout, done.stderr, done.returncode), ("8 calls replayed, 0 differences, 0 findings\n", "", 0), options)

    def recorded_work(self):
        """A recording of a program that does the jobs of softgpu's plug-in."""
        done = self.record(program=WORKS, file="work.dxgk")
        self.assertEqual((done.stdout, done.stderr, done.returncode), (f"{JOBS} jobs on each of 2 nodes\n", "", 0))

    def test_seeds_reorder_what_was_concurrent_and_change_no_byte(self):
        self.recorded_work()
        done = self.run_tool("replay", "work.dxgk")
        self.assertRegex(done.stdout, r"^\d+ calls replayed, 0 differences, 0 findings\n$")
        done = self.run_tool("replay", "work.dxgk", "--seeds", "1..20")
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("seeds 1..20: 20 as recorded, 0 not\n", "", 0))
        # Another driver's engine fills memory with another pattern: each seed shows the byte.
        done = self.run_tool("replay", "work.dxgk", "--seeds", "1..3", "--driver", MUTANT, *self.choose_fault("fills_otherwise"))
        self.assertEqual((done.stderr, done.returncode), ("", 1))
        self.assertTrue(done.stdout.endswith("seeds 1..3: 0 as recorded, 3 not\n"), done.stdout)
        self.assertRegex(done.stdout, r"(?m)^seed 2: \d+ differences?, 0 findings\n  call \d+, D3DKMTLock2: byte \d+ of allocation ")

    def verified(self, client, *options, driver="softgpu"):
        done = self.run_tool("verify", driver, "--mode", "sim", "--client", client, *options, "--json")
        return json.loads(done.stdout), done.returncode

    def test_verify_with_a_recording_confronts_the_driver_with_as_much_as_the_plug_in(self):
        self.recorded_work()
        by_plugin, code = self.verified(PLUGIN)
        self.assertEqual(code, 0)
        by_recording, code = self.verified("work.dxgk")
        self.assertEqual(code, 0)
        reached = [report["situations"]["reached"] for report in (by_plugin, by_recording)]
        self.assertGreaterEqual(reached[1], 0.95 * reached[0])
        self.assertGreater(reached[0], 100)

    def test_verify_with_a_recording_compares_what_comes_out(self):
        self.recorded_work()
        report, code = self.verified("work.dxgk", "--step", "render", *self.choose_fault("fills_otherwise"), driver=MUTANT)
        self.assertEqual(code, 1)
        text = json.dumps([step for step in report["steps"] if step["name"] == "render"])
        self.assertRegex(text, r"byte \d+ of allocation \d of call \d+ is 0x[0-9a-f]{2}, and in the recording 0x[0-9a-f]{2}")
        # What it has no work for is said when it is opened.
        self.recorded()
        done = self.run_tool("verify", "softgpu", "--mode", "sim", "--client", "app.dxgk", "--step", "client")
        self.assertEqual(done.returncode, 1)
        self.assertIn("client recording of example_client: plan: it has no work for node 0 that can be done alone", done.stdout)
        path = self.folder / "work.dxgk"
        path.write_bytes(path.read_bytes()[:5000] + b"x" + path.read_bytes()[5001:])
        done = self.run_tool("verify", "softgpu", "--client", "work.dxgk")
        self.assertEqual((done.stdout, done.returncode), ("", 2))
        self.assertIn("work.dxgk: byte 24: the checksum of the chunk is wrong", done.stderr)

    def test_what_differs_is_told_by_the_number_of_the_call(self):
        self.recorded()
        done = self.run_tool("replay", "app.dxgk", "--driver", "virtiogpu", "--device", "virtio-gpu")
        self.assertEqual((done.stderr, done.returncode), ("", 1))
        self.assertIn("call 3, D3DKMTCreateAllocation2: the status is 0xc01e0009, and was 0x00000000\n", done.stdout)
        self.assertIn("call 4, D3DKMTLock2: the status is 0xc000000d, and was 0x00000000\n", done.stdout)
        done = self.run_tool("replay", "app.dxgk", "--device", "softgpu", "--device", "softgpu")
        self.assertEqual((done.stderr, done.returncode), ("", 1))
        self.assertIn("call 1, D3DKMTEnumAdapters2: NumAdapters is 0x2, and was 0x1\n", done.stdout)

    def test_a_file_that_is_damaged_is_refused_with_the_place(self):
        path = self.recorded()
        whole = path.read_bytes()
        for at, text in ((0, "byte 0: it is no recording"), (8, "byte 8: version"), (20, "byte 16: it was recorded by another version of dxgkit"),
                         (100, "byte 24: the checksum of the chunk is wrong")):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1:])
            for command in ("calls", "replay"):
                done = self.run_tool(command, "app.dxgk")
                self.assertEqual((done.stdout, done.returncode), ("", 2), (at, command))
                self.assertIn(text, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)
        # Without its end mark: all calls are there, and that the end is missing is said.
        path.write_bytes(whole[:-1])
        done = self.run_tool("calls", "app.dxgk")
        self.assertEqual((len(done.stdout.splitlines()), done.returncode), (9, 1))
        self.assertIn(f"the file ends at byte {len(whole) - 1}", done.stderr)
        done = self.run_tool("replay", "app.dxgk")
        self.assertEqual((done.stdout, done.returncode), ("8 calls replayed, 0 differences, 0 findings\n", 0))
        self.assertIn("without the mark of its end", done.stderr)

    def test_files_that_are_no_recordings_stay(self):
        (self.folder / "text.dxgk").write_text("mine")
        done = self.record(file="text.dxgk")
        self.assertEqual((done.stdout, done.returncode), ("", 2))
        self.assertEqual(done.stderr, "dxgkit: text.dxgk: it is no recording, and stays\n")
        self.assertEqual((self.folder / "text.dxgk").read_text(), "mine")
        self.recorded()
        self.recorded()  # an older recording is replaced
        done = self.record(program=("true",), file="none.dxgk")
        self.assertEqual((done.stdout, done.returncode), ("", 1))
        self.assertEqual(done.stderr, "dxgkit: none.dxgk: there is no recording, for true called no kernel\n")
        done = self.run_tool("record", "-o", "a.dxgk")
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("", "dxgkit: record needs a program: -- PROGRAM\n", 2))

    def test_the_first_process_is_recorded_and_others_go_on(self):
        done = self.record(program=(sys.executable, "-c", FORKS))
        self.assertEqual((done.stdout, done.returncode), ("(0, 1)\n(0, 1)\n", 0))
        self.assertIn("dxgkit: this process is not recorded: DXGKIT_RECORD: ", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertEqual(self.run_tool("replay", "app.dxgk").stdout, "1 call replayed, 0 differences, 0 findings\n")


if __name__ == "__main__":
    unittest.main()
