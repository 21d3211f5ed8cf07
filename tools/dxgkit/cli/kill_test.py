#!/usr/bin/env python3
"""kill -9 of a client while each D3DKMT function is in progress, beside programs whose picture must come out right. Arguments: support.py.

DXGKIT_KILLS says how often for each function; 1 without it.
"""
import ctypes
import os
import pathlib
import re
import select
import signal
import struct
import subprocess
import unittest

import serve_test
from support import read_png

LIBRARY = os.path.join(serve_test.CLIENTS, "libdxcore.so")
PROGRAM = pathlib.Path(serve_test.CLIENTS).parent / "picture_client"
KILLS = int(os.environ.get("DXGKIT_KILLS", "1"))
PAGE = 4096
RECVMSG = 47  # the number of the system call
# Some of those that travel whatever their arguments are. The library refuses others by itself, as a kernel would in one process.
TRAVEL = {"D3DKMTCreateDevice", "D3DKMTDestroyDevice", "D3DKMTRender", "D3DKMTUnlock2", "D3DKMTWaitForIdle", "D3DKMTSubmitCommandToHwQueue",
          "D3DKMTWaitForSynchronizationObjectFromCpu", "D3DKMTSignalSynchronizationObjectFromGpu"}
TRAVEL_LEAST = 120


def pages(size):
    return (size + PAGE - 1) // PAGE * PAGE


class Picture:
    """Two programs that draw good.png on the server."""

    def __init__(self, folder):
        self.width, self.height, source = read_png(folder / "good.png")
        self.at = pages(len(source))
        self.size = (self.width + 1) // 2 * ((self.height + 1) // 2) * 4
        self.memory = os.memfd_create("picture")
        os.ftruncate(self.memory, self.at + pages(self.size) + PAGE)
        os.pwrite(self.memory, source, 0)
        self.programs, self.notes = [], []
        for number in range(2):
            ours, theirs = os.pipe()
            self.notes.append(ours)
            memory = self.memory

            def give(theirs=theirs):
                os.dup2(memory, 103)
                os.dup2(theirs, 104)
                os.dup2(103, 3)
                os.dup2(104, 4)
            words = [PROGRAM, str(number), str(self.width), str(self.height), str(PAGE)]
            self.programs.append(subprocess.Popen(words, env={**os.environ, "DXGKIT_SOCKET": str(folder / "s")}, close_fds=False, preexec_fn=give))
            os.close(theirs)

    def is_over(self):
        return all(program.poll() is not None for program in self.programs)

    def result(self):
        """Each program's last note, and the pixels."""
        last = []
        for program, notes in zip(self.programs, self.notes):
            program.wait()
            told = b""
            while more := os.read(notes, 1 << 16):
                told += more
            os.close(notes)
            last.append(told.lstrip(b"s0123"))
        pixels = os.pread(self.memory, self.size, self.at)
        os.close(self.memory)
        return last, pixels


def be_client(name, ready):
    """In a forked process: a device, and then the call, whose first member names the device."""
    calls = ctypes.CDLL(LIBRARY)

    def call(function, data):
        buffer = ctypes.create_string_buffer(data, 1 << 14)
        if getattr(calls, function)(buffer) != 0:
            os._exit(3)
        return buffer.raw
    adapters = ctypes.create_string_buffer(20 * 8)
    call("D3DKMTEnumAdapters2", struct.pack("<QQ", 8, ctypes.addressof(adapters)))
    adapter, = struct.unpack_from("<I", call("D3DKMTOpenAdapterFromLuid", adapters.raw[4:12]), 8)
    device, = struct.unpack_from("<I", call("D3DKMTCreateDevice", struct.pack("<QI", adapter, 0)), 12)
    function, arguments = getattr(calls, name), ctypes.create_string_buffer(struct.pack("<I", device), 1 << 14)
    os.write(ready, b"r")
    os.kill(os.getpid(), signal.SIGSTOP)  # until the server stands still
    function(arguments, 0, 0, 0, 0)
    os.write(ready, b"b")
    os._exit(0)


def call_for_ever(ready):
    """In a forked process: calls without a pause, each a message that the other side is awake for. Every hundredth is told."""
    calls = ctypes.CDLL(LIBRARY)
    adapters = ctypes.create_string_buffer(20 * 8)
    everything = ctypes.create_string_buffer(struct.pack("<QQ", 8, ctypes.addressof(adapters)), 16)
    if calls.D3DKMTEnumAdapters2(everything) != 0:
        os._exit(3)
    while True:
        for _ in range(100):
            calls.D3DKMTEnumAdapters2(everything)
        os.write(ready, b"c")


class Kill(serve_test.Server):
    def test_a_client_that_dies_among_calls_leaves_nothing(self):
        expected = self.run_tool("run", "--input", "good.png", "--output", "expected.png")
        self.assertEqual(expected.returncode, 0, expected.stderr)
        expected = read_png(self.folder / "expected.png")[2]
        self.write_stack('driver = "softgpu"')
        server, runs = self.serve("--max-connections", "1000")
        os.environ["DXGKIT_SOCKET"] = str(self.folder / "s")
        self.addCleanup(os.environ.pop, "DXGKIT_SOCKET")
        self.assertEqual(Picture(self.folder).result(), ([b"d", b"d"], expected))
        self.until(lambda one: (one["connections"], one["figures"]["processes"]) == (0, 0))
        before = self.descriptors_of(runs[1][1])
        picture = Picture(self.folder)
        for number in range(10 * KILLS):
            ours, theirs = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    call_for_ever(theirs)
                finally:
                    os._exit(4)
            os.close(theirs)
            for _ in range(1 + number % 5):
                self.assertEqual(os.read(ours, 1), b"c")
            os.kill(child, signal.SIGKILL)
            self.assertEqual(os.waitpid(child, 0)[1], signal.SIGKILL)
            os.close(ours)
        self.assertEqual(picture.result(), ([b"d", b"d"], expected))
        self.until(lambda one: (one["connections"], one["figures"]["processes"], one["figures"]["handles"]) == (0, 0, 0))
        self.until_descriptors_are_back(runs[1][1], before)
        self.assertEqual(self.status()["adapters"][0]["process"], runs[1][1])
        self.end(server)

    def kill_inside(self, name, adapter):
        """Whether the call was in progress in the server when its client died."""
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                be_client(name, theirs)
            finally:
                os._exit(4)
        os.close(theirs)
        try:
            self.assertEqual(os.read(ours, 1), b"r", name)
            os.waitpid(child, os.WUNTRACED)
            os.kill(adapter, signal.SIGSTOP)
            try:
                # Each thread stops when it gets to it.
                while any(") T " not in task.read_text() for task in pathlib.Path(f"/proc/{adapter}/task").glob("*/stat")):
                    pass
                os.kill(child, signal.SIGCONT)
                while True:  # until it has come back, or waits for its answer
                    if select.select([ours], [], [], 0)[0]:
                        return False
                    if pathlib.Path(f"/proc/{child}/syscall").read_text().startswith(f"{RECVMSG} "):
                        return True
            finally:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                os.kill(adapter, signal.SIGCONT)
        finally:
            os.close(ours)

    def names(self):
        """All functions of the library."""
        listed = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
        return sorted(set(re.findall(r" T (D3DKMT\w+)$", listed, re.MULTILINE)))

    def test_a_client_that_dies_inside_any_function_leaves_nothing(self):
        expected = self.run_tool("run", "--input", "good.png", "--output", "expected.png")
        self.assertEqual(expected.returncode, 0, expected.stderr)
        expected = read_png(self.folder / "expected.png")[2]
        self.write_stack('driver = "softgpu"')
        server, runs = self.serve("--max-connections", "1000")
        adapter = runs[1][1]
        alive = os.pidfd_open(adapter)
        self.addCleanup(os.close, alive)
        os.environ["DXGKIT_SOCKET"] = str(self.folder / "s")
        self.addCleanup(os.environ.pop, "DXGKIT_SOCKET")

        def figures():
            one = self.status()["adapters"][0]
            return one["connections"], one["figures"]["processes"], one["figures"]["handles"]
        # One picture first, so that what the server makes once is there.
        self.assertEqual(Picture(self.folder).result(), ([b"d", b"d"], expected))
        while figures() != (0, 0, 0):
            pass
        before = self.descriptors_of(adapter)
        picture, local, inside, pictures = Picture(self.folder), [], set(), 0
        for name in self.names():
            for _ in range(KILLS):
                self.assertFalse(select.select([alive], [], [], 0)[0], f"before {name} the adapter's process ended")
                if not self.kill_inside(name, adapter):
                    local.append(name)
                    break
                inside.add(name)
                if picture.is_over():
                    self.assertEqual(picture.result(), ([b"d", b"d"], expected), name)
                    picture = Picture(self.folder)
                    pictures += 1
        self.assertEqual(picture.result(), ([b"d", b"d"], expected))
        self.assertLessEqual(TRAVEL, inside)
        self.assertGreaterEqual(len(inside), TRAVEL_LEAST, local)
        self.assertGreaterEqual(pictures, 1, "no picture was drawn beside them")
        self.until(lambda one: figures() == (0, 0, 0))
        self.until_descriptors_are_back(adapter, before)
        self.assertEqual(self.status()["adapters"][0]["process"], adapter)
        self.end(server)


if __name__ == "__main__":
    unittest.main()
