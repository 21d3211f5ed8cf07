#!/usr/bin/env python3
"""dxgkit record, calls and replay of a recording: examples/client is the program."""
import os
import sys
import unittest

from support import TOOL, Cli

CLIENT = os.path.join(os.path.dirname(TOOL), "clients", "example_client")
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
