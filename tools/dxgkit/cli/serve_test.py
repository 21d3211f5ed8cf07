#!/usr/bin/env python3
"""dxgkit serve and dxgkit status: a broker, an adapter process for each device, and what becomes of them. Arguments: support.py."""
import contextlib
import json
import os
import pathlib
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

from support import MUTANT, TOOL, Cli

MAGIC = 0x3174696B67786400
ADAPTERS, OPEN, STATUS = 1, 2, 3
DEVICE_REMOVED, INVALID_PARAMETER, NO_MEMORY, OBJECT_TYPE_MISMATCH, SUCCESS = 0xC00002B6, 0xC000000D, 0xC0000017, 0xC0000024, 0
PATIENCE = 120  # seconds; a busy machine is no dead server
# libdxcore.so without a kernel, as the build leaves it.
CLIENTS = str(pathlib.Path(TOOL).resolve().parents[2] / "src/dxcore/remote")
BUILT = pathlib.Path(TOOL).resolve().parent / "clients"  # programs
# A client process: it says what each step came to. The last one blocks inside the kernel until the server is gone, or for ever.
CLIENT = """
import ctypes, os, struct, sys, time
calls = ctypes.CDLL("libdxcore.so")
def call(name, data):
    buffer = ctypes.create_string_buffer(data, len(data))
    status = getattr(calls, name)(buffer) & 0xFFFFFFFF
    print(name, f"{status:#x}", flush=True)
    return buffer.raw
def luid_of_first():
    adapters = ctypes.create_string_buffer(20 * 8)
    count, = struct.unpack_from("<I", call("D3DKMTEnumAdapters2", struct.pack("<QQ", 8, ctypes.addressof(adapters))))
    luid = adapters.raw[4:12]
    print(count, struct.unpack("<Ii", luid)[0], flush=True)
    return luid
adapter, = struct.unpack_from("<I", call("D3DKMTOpenAdapterFromLuid", luid_of_first() + bytes(4)), 8)
device, = struct.unpack_from("<I", call("D3DKMTCreateDevice", struct.pack("<QII48x", adapter, 0, 0)), 12)
made = call("D3DKMTCreateSynchronizationObject2", struct.pack("<I4xIIQ64xI4x", device, 5, 3, 7, 0))
fence, = struct.unpack_from("<I", made, 88)
view, = struct.unpack_from("<Q", made, 24)
print("value", ctypes.cast(view, ctypes.POINTER(ctypes.c_uint64))[0] if view else None, flush=True)
handles, shared = (ctypes.c_uint32 * 1)(fence), ctypes.c_uint64(0)
attributes = ctypes.create_string_buffer(struct.pack("<I4xQQI4xQQ", 48, 0, 0, 0, 0, 0), 48)
status = calls.D3DKMTShareObjects(1, handles, attributes, 0x10000000, ctypes.byref(shared)) & 0xFFFFFFFF
print("D3DKMTShareObjects", f"{status:#x}", os.path.exists(f"/proc/self/fd/{shared.value}"), flush=True)
wanted = (ctypes.c_uint64 * 1)(8)
wait = struct.pack("<IIQQQI4x", device, 1, ctypes.addressof(handles), ctypes.addressof(wanted), 0, 0)
if len(sys.argv) > 1:
    print("waiting", flush=True)
    call("D3DKMTWaitForSynchronizationObjectFromCpu", wait)
    call("D3DKMTCreateDevice", struct.pack("<QII48x", adapter, 0, 0))
    call("D3DKMTWaitForSynchronizationObjectFromCpu", wait)
    sys.stdin.readline()
    luid_of_first()
"""
GOOD = """D3DKMTEnumAdapters2 0x0
1 {luid}
D3DKMTOpenAdapterFromLuid 0x0
D3DKMTCreateDevice 0x0
D3DKMTCreateSynchronizationObject2 0x0
value 7
D3DKMTShareObjects 0x0 True
"""


# A client that queues waits for a fence, and makes fences, until it may not have more. Then it signals.
GREEDY = """
import ctypes, struct, sys
calls = ctypes.CDLL("libdxcore.so")
def call(name, data):
    buffer = ctypes.create_string_buffer(data, len(data))
    return getattr(calls, name)(buffer) & 0xFFFFFFFF, buffer.raw
adapters = ctypes.create_string_buffer(20 * 8)
call("D3DKMTEnumAdapters2", struct.pack("<QQ", 8, ctypes.addressof(adapters)))
adapter, = struct.unpack_from("<I", call("D3DKMTOpenAdapterFromLuid", adapters.raw[4:12] + bytes(4))[1], 8)
device, = struct.unpack_from("<I", call("D3DKMTCreateDevice", struct.pack("<QII48x", adapter, 0, 0))[1], 12)
status, made = call("D3DKMTCreateContext", struct.pack("<I92x", device))
context, = struct.unpack_from("<I", made, 32)
fences = []
def fence():
    status, made = call("D3DKMTCreateSynchronizationObject2", struct.pack("<I4xIIQ64xI4x", device, 5, 3, 0, 0))
    if status == 0:
        fences.append(struct.unpack_from("<I", made, 88)[0])
    return status
print(hex(status), hex(fence()), flush=True)
handles, values = (ctypes.c_uint32 * 1)(fences[0]), (ctypes.c_uint64 * 1)(1)
lists = ctypes.addressof(handles), ctypes.addressof(values)
def wait():
    return call("D3DKMTWaitForSynchronizationObjectFromGpu", struct.pack("<IIQQ56x", context, 1, *lists))[0]
waits = 0
while (status := wait()) == 0:
    waits += 1
print(waits, hex(status), flush=True)
sys.stdin.readline()
print(hex(call("D3DKMTSignalSynchronizationObjectFromCpu", struct.pack("<IIQQI4x", device, 1, *lists, 0))[0]), flush=True)
while wait() != 0:  # the waits end one after the other
    pass
while (status := fence()) == 0:
    pass
print(len(fences), hex(status), flush=True)
sys.stdin.readline()
"""


# A client of two adapters at once: a device and a fence on each.
TWO = """
import ctypes, struct, sys
calls = ctypes.CDLL("libdxcore.so")
def call(name, data):
    buffer = ctypes.create_string_buffer(data, len(data))
    return getattr(calls, name)(buffer) & 0xFFFFFFFF, buffer.raw
def adapters():
    room = ctypes.create_string_buffer(20 * 8)
    status, all = call("D3DKMTEnumAdapters2", struct.pack("<QQ", 8, ctypes.addressof(room)))
    found = [struct.unpack_from("<II", room, 20 * i) for i in range(struct.unpack_from("<I", all)[0])]
    print(hex(status), [luid for _, luid in found], flush=True)
    return found
def device(adapter):
    status, made = call("D3DKMTCreateDevice", struct.pack("<QII48x", adapter, 0, 0))
    print("device", hex(status), flush=True)
    return struct.unpack_from("<I", made, 12)[0]
def fence(device):
    status, made = call("D3DKMTCreateSynchronizationObject2", struct.pack("<I4xIIQ64xI4x", device, 5, 3, 0, 0))
    print("fence", hex(status), flush=True)
    return struct.unpack_from("<I", made, 88)[0], struct.unpack_from("<Q", made, 24)[0]
def reach(device, fence, value):
    handles, values = (ctypes.c_uint32 * 1)(fence), (ctypes.c_uint64 * 1)(value)
    lists = ctypes.addressof(handles), ctypes.addressof(values)
    signalled = call("D3DKMTSignalSynchronizationObjectFromCpu", struct.pack("<IIQQI4x", device, 1, *lists, 0))[0]
    return hex(signalled), hex(call("D3DKMTWaitForSynchronizationObjectFromCpu", struct.pack("<IIQQQI4x", device, 1, *lists, 0, 0))[0])
found = adapters()
devices = [device(adapter) for adapter, _ in found]
fences = [fence(one) for one in devices]
print(len({*devices, *(handle for handle, _ in fences)}), flush=True)
for i in range(2):
    print(reach(devices[i], fences[i][0], 5 + i), ctypes.c_uint64.from_address(fences[i][1]).value, flush=True)
print("astray", *reach(devices[0], fences[1][0], 9), *reach(devices[1], fences[0][0], 9), flush=True)
handles, shared = (ctypes.c_uint32 * 1)(fences[0][0]), ctypes.c_uint64(0)
attributes = ctypes.create_string_buffer(struct.pack("<I4xQQI4xQQ", 48, 0, 0, 0, 0, 0), 48)
print("shared", hex(calls.D3DKMTShareObjects(1, handles, attributes, 0x10000000, ctypes.byref(shared)) & 0xFFFFFFFF), flush=True)
for one in devices:
    print("open", hex(call("D3DKMTOpenSyncObjectFromNtHandle2", struct.pack("<QIII4x64x", shared.value, one, 0, 0))[0]), flush=True)
sys.stdin.readline()
print(reach(devices[0], fences[0][0], 20), reach(devices[1], fences[1][0], 20), flush=True)
print(ctypes.c_uint64.from_address(fences[1][1]).value, flush=True)
again = adapters()
print(reach(device(again[0][0]), fence(devices[1])[0], 1), reach(devices[1], fences[1][0], 30), flush=True)
"""


# A client that writes into its mailbox what is no message, while it makes calls, until its adapter is gone for it.
MAILBOX_CLIENT = """
import ctypes, struct, sys, threading
calls = ctypes.CDLL("libdxcore.so")
adapters = ctypes.create_string_buffer(20 * 8)
everything = ctypes.create_string_buffer(struct.pack("<QQ", 8, ctypes.addressof(adapters)), 16)
assert calls.D3DKMTEnumAdapters2(everything) == 0
boxes = [int(line.split("-")[0], 16) for line in open("/proc/self/maps") if "/memfd:dxgkit" in line and line.split()[1] == "rw-s"]
over = threading.Event()
def scribble():
    while not over.is_set():
        for box in boxes:
            ctypes.c_uint32.from_address(box).value = int(sys.argv[1], 0)
threading.Thread(target=scribble, daemon=True).start()
print(len(boxes) > 0, flush=True)
while (status := calls.D3DKMTCloseAdapter(ctypes.byref(ctypes.c_uint32(12345))) & 0xFFFFFFFF) == 0xC000000D:
    pass
over.set()
print(hex(status), flush=True)
"""


def hello(ask, luid=0):
    return struct.pack("<QIIIi", MAGIC, 1, ask, luid, 0)


class Server(Cli):
    """A server for each test, and what clients of it say."""
    def setUp(self):
        super().setUp()
        self.servers = []

    def tearDown(self):
        for server in self.servers:
            if server.poll() is None:
                server.kill()
            server.wait()
            server.stdout.close()
            server.stderr.close()
        super().tearDown()

    def write_stack(self, *lines):
        (self.folder / "stack.toml").write_text("\n".join(lines) + "\n")

    def start(self, *arguments, **options):
        server = subprocess.Popen([TOOL, "serve", "--stack", "stack.toml", *arguments], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, **options)
        self.servers.append(server)
        return server

    def wait_for(self, server, pattern):
        """The first line that has the pattern."""
        while True:
            line = server.stdout.readline()
            self.assertNotEqual(line, "", f"{pattern}: {server.stderr.read() if server.poll() is not None else ''}")
            found = re.search(pattern, line)
            if found:
                return found

    def serve(self, *arguments, devices=1):
        """A server at the socket s; LUID and process of each adapter."""
        server = self.start("--socket", "s", *arguments)
        self.wait_for(server, f"^serving {devices} adapters? at s$")
        runs = {}
        for _ in range(devices):
            line = self.wait_for(server, r"^adapter (\d+) .*: it runs, LUID (\d+), process (\d+)$")
            runs[int(line[1])] = int(line[2]), int(line[3])
        return server, runs

    def end(self, server, code=0):
        """Its lines after Ctrl-C."""
        server.send_signal(signal.SIGINT)
        out, errors = server.communicate(timeout=PATIENCE)
        self.assertEqual((server.returncode, errors), (code, ""), out)
        return out

    def connect(self, *messages):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(PATIENCE)
        client.connect(str(self.folder / "s"))
        for message in messages:
            client.sendall(message)
        self.addCleanup(client.close)
        return client

    def answer(self, client):
        """The status and what follows."""
        magic, status, size = struct.unpack("<QII", self.receive(client, 16))
        self.assertEqual(magic, MAGIC)
        return status, self.receive(client, size)

    def receive(self, client, size):
        data = b""
        while len(data) < size:
            more = client.recv(size - len(data))
            self.assertNotEqual(more, b"", "the connection ended")
            data += more
        return data

    def is_over(self, client, seconds=PATIENCE):
        """Whether the other side closes the connection in time."""
        if not select.select([client], [], [], seconds)[0]:
            return False
        try:
            return client.recv(1) == b""
        except ConnectionResetError:
            return True

    def status(self):
        done = self.run_tool("status", "--socket", "s", "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def client(self, *arguments, program=CLIENT):
        """A client process, which knows nothing of dxgkit but the library's name."""
        environment = {**os.environ, "DXGKIT_SOCKET": str(self.folder / "s"), "LD_LIBRARY_PATH": CLIENTS}
        environment.pop("DXGKIT_STACK", None)
        client = subprocess.Popen([sys.executable, "-c", program, *arguments], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end_client, client)
        return client

    @staticmethod
    def end_client(client):
        client.kill()
        client.communicate()

    def lines_until(self, client, last):
        lines = ""
        while not lines.endswith(last):
            line = client.stdout.readline()
            self.assertNotEqual(line, "", lines + (client.stderr.read() if client.poll() is not None else ""))
            lines += line
        return lines

    def until(self, holds):
        """Asks for the status until something holds of the only adapter."""
        deadline = time.monotonic() + PATIENCE
        while not holds(one := self.status()["adapters"][0]):
            self.assertLess(time.monotonic(), deadline, one)

    def until_descriptors_are_back(self, process, before):
        """A session closes its last descriptor behind its last answer, and behind what the status says of it."""
        if before is not None:
            self.until(lambda one: self.descriptors_of(process) <= before)

    def descriptors_of(self, process):
        """What an adapter process has open; nobody but root may look."""
        return len(os.listdir(f"/proc/{process}/fd")) if os.getuid() == 0 else None


class Serve(Server):
    def test_programs_are_clients(self):
        self.write_stack('driver = "softgpu_wddm2"')
        server, runs = self.serve()
        clients = [self.client() for _ in range(3)]
        for client in clients:
            out, errors = client.communicate(timeout=PATIENCE)
            self.assertEqual((out, errors, client.returncode), (GOOD.format(luid=runs[1][0]), "", 0))
        self.until(lambda one: one["figures"]["processes"] == 0)
        one = self.status()["adapters"][0]
        self.assertEqual((one["connections"], one["figures"]["handles"], one["findings"]), (0, 0, []))
        self.assertGreaterEqual(one["figures"]["requests"], 3 * 5)
        self.end(server)

    def test_a_client_that_dies_inside_a_call_leaves_nothing(self):
        self.write_stack('driver = "softgpu_wddm2"')
        server, runs = self.serve()
        other = self.client("wait")
        self.lines_until(other, "waiting\n")
        before = self.descriptors_of(runs[1][1])
        for _ in range(3):
            client = self.client("wait")
            self.assertEqual(self.lines_until(client, "waiting\n"), GOOD.format(luid=runs[1][0]) + "waiting\n")
            self.until(lambda one: one["figures"]["processes"] == 2)
            client.kill()
            self.until(lambda one: one["figures"]["processes"] == 1 and one["connections"] == 2)
        self.until_descriptors_are_back(runs[1][1], before)
        self.assertIsNone(other.poll())
        out = self.end(server)
        self.assertNotIn("NT-", out)

    def test_every_call_says_that_the_adapter_is_gone(self):
        self.write_stack('driver = "softgpu_wddm2"')
        server, runs = self.serve()
        client = self.client("wait")
        self.lines_until(client, "waiting\n")
        os.kill(runs[1][1], signal.SIGSEGV)
        self.assertTrue(select.select([client.stdout], [], [], 1)[0], "the call does not come back within a second")
        gone = f"{DEVICE_REMOVED:#x}\n"
        self.assertEqual([client.stdout.readline() for _ in range(3)],
                         [f"D3DKMT{name} {gone}" for name in ("WaitForSynchronizationObjectFromCpu", "CreateDevice", "WaitForSynchronizationObjectFromCpu")])
        luid = int(self.wait_for(server, r"it runs, LUID (\d+)")[1])
        out, errors = client.communicate("on\n", timeout=PATIENCE)
        self.assertEqual((out, errors), (f"D3DKMTEnumAdapters2 0x0\n1 {luid}\n", ""))
        report = self.status()["adapters"][0]["reports"][0]
        self.assertEqual(report["end"], "it ended by signal 11 (Segmentation fault)")
        self.assertIn("signal 11 in no DDI", report["errors"])
        self.end(server)

    def test_a_user_has_so_much_memory_and_so_many_submissions(self):
        self.write_stack('driver = "softgpu_wddm2"')
        server, runs = self.serve("--max-submissions", "5", "--max-memory", "1M")
        client = self.client(program=GREEDY)
        self.assertEqual(self.lines_until(client, f"{NO_MEMORY:#x}\n"), f"0x0 0x0\n5 {NO_MEMORY:#x}\n")
        user, = self.status()["users"]
        self.assertEqual((user["submissions"], user["refused_calls"]), (5, 1))
        left = (1 << 20) - user["memory_bytes"]
        self.assertGreater(left, 4096, "a page of the first fence, and the buffers of a context")
        client.stdin.write("on\n")
        client.stdin.flush()
        self.assertEqual(self.lines_until(client, f"{NO_MEMORY:#x}\n"), f"0x0\n{1 + left // 4096} {NO_MEMORY:#x}\n")
        user, = self.status()["users"]
        self.assertEqual((1 << 20) - user["memory_bytes"], left % 4096)
        self.assertIn(", MiB 1 of 1, ", self.run_tool("status", "--socket", "s", "--interval", "0").stdout)
        client.communicate("on\n", timeout=PATIENCE)
        self.until(lambda one: one["figures"]["processes"] == 0)
        out = self.client().communicate(timeout=PATIENCE)[0]
        self.assertEqual(out, GOOD.format(luid=runs[1][0]), "what it had is for others")
        self.end(server)

    def test_a_program_has_two_adapters_and_one_of_them_crashes(self):
        self.write_stack('driver = "softgpu_wddm2"', 'devices = ["softgpu", "softgpu,vram=32M"]')
        server, runs = self.serve(devices=2)
        client = self.client(program=TWO)
        wrong, strange, both = f"{INVALID_PARAMETER:#x}", f"{OBJECT_TYPE_MISMATCH:#x}", "('0x0', '0x0')"
        self.assertEqual(self.lines_until(client, f"open {strange}\n"),
                         f"0x0 [{runs[1][0]}, {runs[2][0]}]\n" + "device 0x0\n" * 2 + "fence 0x0\n" * 2 + f"4\n{both} 5\n{both} 6\n"
                         f"astray {wrong} {wrong} {wrong} {wrong}\nshared 0x0\nopen 0x0\nopen {strange}\n")
        self.assertEqual([one["figures"]["processes"] for one in self.status()["adapters"]], [1, 1])
        os.kill(runs[1][1], signal.SIGSEGV)
        luid = int(self.wait_for(server, r"adapter 1 .*: it runs, LUID (\d+)")[1])
        out, errors = client.communicate("on\n", timeout=PATIENCE)
        gone = f"{DEVICE_REMOVED:#x}"
        self.assertEqual((out, errors), (f"('{gone}', '{gone}') {both}\n20\n0x0 [{luid}, {runs[2][0]}]\ndevice 0x0\nfence 0x0\n"
                                         f"('{wrong}', '{wrong}') {both}\n", ""))
        shown = self.status()["adapters"]
        self.assertEqual([(one["restarts"], len(one["reports"])) for one in shown], [(1, 1), (0, 0)])
        self.end(server)

    def test_a_bug_check_ends_the_adapter_and_is_told(self):
        self.write_stack(f"driver = {json.dumps(MUTANT)}", 'registry = "mutant.json"', 'devices = ["softgpu", "softgpu"]')
        self.choose_fault("lock_twice")
        server, runs = self.serve(devices=2)
        other = self.connect(hello(OPEN, runs[2][0]))
        self.assertEqual(self.answer(other), (SUCCESS, b""))
        out = self.lines_until(self.client(), "D3DKMTCreateDevice 0xc00002b6\n")
        self.assertTrue(out.startswith("D3DKMTEnumAdapters2 0x0\n"), out)
        self.wait_for(server, r"adapter 1 .*: its process has ended: it ended with exit code 3$")
        self.wait_for(server, r"adapter 1 .*: it runs, LUID 3,")
        shown = self.status()["adapters"]
        report = shown[0]["reports"][0]
        self.assertRegex(report["findings"][-1], r"^NT-16: bug-check in .*\n.*DxgkDdiCreateDevice")
        self.assertEqual((shown[1]["process"], shown[1]["restarts"]), (runs[2][1], 0))
        self.assertFalse(self.is_over(other, 0))
        self.end(server)

    def test_adapters_are_listed_opened_and_shown(self):
        self.write_stack('driver = "softgpu"', 'devices = ["softgpu", "softgpu,vram=32M"]')
        server, runs = self.serve(devices=2)
        self.assertNotEqual(runs[1], runs[2])
        client = self.connect(hello(ADAPTERS))
        status, lines = self.answer(client)
        self.assertEqual(status, SUCCESS)
        self.assertEqual([luid for luid, _ in struct.iter_unpack("<Ii", lines)], [runs[1][0], runs[2][0]])
        client.sendall(hello(OPEN, runs[2][0]))
        self.assertEqual(self.answer(client), (SUCCESS, b""))
        self.assertEqual(self.answer(self.connect(hello(OPEN, 77))), (DEVICE_REMOVED, b""))

        shown = self.status()
        self.assertEqual([(one["state"], one["luid"], one["process"], one["connections"], one["restarts"]) for one in shown["adapters"]],
                         [("running", *runs[1], 0, 0), ("running", *runs[2], 1, 0)])
        for one in shown["adapters"]:
            self.assertGreater(one["memory_bytes"], 1 << 20)
            self.assertEqual(one["per_second"]["requests"], 0)
        self.assertEqual(shown["users"], [{"user": os.getuid(), "connections": 1, "processes": 1, "refused": 0, "handles": 0, "memory_bytes": 0,
                                           "submissions": 0, "refused_calls": 0}])
        self.assertEqual(shown["limits"], {"connections": 256, "processes": 32, "handles": 1 << 20, "memory_bytes": 1 << 30, "submissions": 4096})
        text = self.run_tool("status", "--socket", "s", "--interval", "0").stdout
        self.assertRegex(text, r"^adapter 1 \(softgpu\): running, LUID 1, \d+ MiB\n  0 connections, 0 client processes, 0 handles\nadapter 2")
        self.assertIn(f"user {os.getuid()}: 1 connection of 1 process\n"
                      "  in one adapter at most: handles 0 of 1048576, MiB 0 of 1024, submissions 0 of 4096; 0 calls refused\n", text)
        out = self.end(server)
        self.assertEqual(out.count("its process has ended: it ended with exit code 0"), 2, out)
        self.assertEqual([name for name in self.files() if name != "s.lock"], ["good.png", "stack.toml"])

    def test_a_killed_adapter_is_told_kept_and_started_again(self):
        self.write_stack('driver = "softgpu"', 'devices = ["softgpu", "softgpu,vram=32M"]')
        server, runs = self.serve(devices=2)
        victims = [self.connect(hello(OPEN, runs[1][0])) for _ in range(3)]
        other = self.connect(hello(OPEN, runs[2][0]))
        for client in (*victims, other):
            self.assertEqual(self.answer(client), (SUCCESS, b""))
        os.kill(runs[1][1], signal.SIGKILL)
        for client in victims:
            self.assertTrue(self.is_over(client, 1), "a client is not told within a second")
        self.wait_for(server, r"^adapter 1 .*: its process has ended: it ended by signal 9 \(Killed\)$")
        again = self.wait_for(server, r"^adapter 1 .*: it runs, LUID (\d+), process (\d+)$")
        self.assertEqual(again[1], "3")
        shown = self.status()["adapters"]
        self.assertEqual((shown[0]["restarts"], shown[0]["luid"], shown[0]["connections"]), (1, 3, 0))
        self.assertEqual([(one["luid"], one["end"]) for one in shown[0]["reports"]], [(1, "it ended by signal 9 (Killed)")])
        self.assertEqual((shown[1]["restarts"], shown[1]["process"], shown[1]["connections"], shown[1]["reports"]), (0, runs[2][1], 1, []))
        self.assertFalse(self.is_over(other, 0))
        self.end(server)

    def test_an_adapter_that_ends_again_and_again_is_left(self):
        self.write_stack('driver = "softgpu"')
        server, runs = self.serve("--restarts", "2")
        process = runs[1][1]
        for _ in range(2):
            os.kill(process, signal.SIGKILL)
            process = int(self.wait_for(server, r"it runs, LUID \d+, process (\d+)$")[1])
        os.kill(process, signal.SIGKILL)
        out, errors = server.communicate(timeout=PATIENCE)
        self.assertEqual((server.returncode, errors), (1, "dxgkit: no adapter is left\n"))
        self.assertIn("it is not started again: it ended 3 times in 60 s", out)

    def test_the_brokers_death_is_its_processes_death(self):
        self.write_stack('driver = "softgpu"')
        server, runs = self.serve()
        adapter = os.pidfd_open(runs[1][1])
        client = self.connect(hello(OPEN, runs[1][0]))
        self.assertEqual(self.answer(client), (SUCCESS, b""))
        server.kill()
        self.assertTrue(select.select([adapter], [], [], PATIENCE)[0])
        os.close(adapter)
        self.assertTrue(self.is_over(client))
        self.servers.clear()
        server.communicate()
        # Its socket is stale, and taken over.
        self.assertIn("s", self.files())
        server, _ = self.serve()
        self.end(server)

    def test_a_driver_that_does_not_start(self):
        self.write_stack(f'driver = {json.dumps(MUTANT)}', 'registry = "mutant.json"')
        self.choose_fault("start_fails")
        server = self.start("--socket", "s", "--restarts", "1")
        out, errors = server.communicate(timeout=PATIENCE)
        self.assertEqual((server.returncode, errors), (1, "dxgkit: no adapter is left\n"), out)
        self.assertEqual(out.count("its process has ended: the adapter did not start: "), 2, out)

    def test_hostile_clients_end_their_own_connection(self):
        self.write_stack('driver = "softgpu"')
        server, runs = self.serve()
        good = self.connect(hello(OPEN, runs[1][0]))
        self.assertEqual(self.answer(good), (SUCCESS, b""))
        while self.status()["adapters"][0]["connections"] != 1:
            pass
        before = self.descriptors_of(runs[1][1])
        rows = (b"\x00" * 64, b"\xff" * 64, b"x", b"", struct.pack("<II", 8, 0) + b"nonsense", struct.pack("<II", 16 << 20, 64), hello(99),
                hello(OPEN, runs[1][0]) + b"\xff" * 64, hello(STATUS) + b"more")
        for row in rows:
            client = self.connect(row)
            client.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                while client.recv(1 << 20):
                    pass
            client.close()
        # Descriptors of any kind come along, and are closed.
        for message in (hello(OPEN, runs[1][0]), struct.pack("<II", 8, 2) + b"nonsense"):
            client = self.connect()
            with open("/dev/null") as file:
                socket.send_fds(client, [message], [file.fileno(), client.fileno(), server.stdout.fileno()])
            client.close()
        while self.status()["adapters"][0]["connections"] != 1:  # ends when the adapter has said so
            pass
        self.assertEqual(self.descriptors_of(runs[1][1]), before)
        self.assertFalse(self.is_over(good, 0))
        self.assertEqual(self.status()["adapters"][0]["process"], runs[1][1])
        self.end(server)

    def test_a_hostile_mailbox_ends_its_connection(self):
        self.write_stack('driver = "softgpu"')
        server, runs = self.serve()
        other = self.client("wait")
        self.lines_until(other, "waiting\n")
        self.until(lambda one: one["connections"] == 2)  # one of its thread, one that keeps the process
        before = self.descriptors_of(runs[1][1])
        environment = {**os.environ, "DXGKIT_SOCKET": str(self.folder / "s"), "LD_LIBRARY_PATH": CLIENTS}
        for word in ("0xffffffff", "0x7fff"):  # one more than the most is the second
            done = subprocess.run([sys.executable, "-c", MAILBOX_CLIENT, word], env=environment, capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual((done.stdout, done.stderr, done.returncode), (f"True\n{DEVICE_REMOVED:#x}\n", "", 0), word)
            self.until(lambda one: one["figures"]["processes"] == 1 and one["connections"] == 2)
        self.until_descriptors_are_back(runs[1][1], before)
        self.assertIsNone(other.poll())
        self.assertEqual(self.status()["adapters"][0]["process"], runs[1][1])
        self.end(server)

    def run_program(self, *words):
        """A program of the build that is a client; what it says."""
        environment = {**os.environ, "DXGKIT_SOCKET": str(self.folder / "s"), "LD_LIBRARY_PATH": CLIENTS}
        environment.pop("DXGKIT_STACK", None)
        done = subprocess.run([str(BUILT / words[0]), *words[1:]], env=environment, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((done.stderr, done.returncode), ("", 0))
        return done.stdout

    def recordings(self, count):
        """Those that are whole by now."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = sorted((self.folder / "kept").glob("*.dxgk"))
            self.assertLess(time.monotonic(), deadline, found)
            if len(found) == count and all(self.run_tool("calls", str(one)).returncode == 0 for one in found):
                return found

    def test_clients_of_a_server_are_recorded(self):
        self.write_stack('driver = "softgpu"')
        server, runs = self.serve("--record", "kept")
        self.assertEqual(self.run_program("example_client"), "1 adapter, 4096 bytes written, the fence is at 7\n")
        first, = self.recordings(1)
        self.assertRegex(first.name, rf"^\d+-{runs[1][0]}\.dxgk$")
        self.assertEqual(first.stat().st_mode & 0o777, 0o600)
        lines = self.run_tool("calls", str(first)).stdout.splitlines()
        self.assertEqual(lines[0], "8 calls of example_client on 1 thread")
        self.assertIn(" = 0x0, had written 4096 bytes", lines[5])
        self.assertEqual(self.run_program("plugin_program", str(BUILT / "softgpu_client.so"), "12", "2"), "12 jobs on each of 2 nodes\n")
        second, = set(self.recordings(2)) - {first}
        for recording, options in ((first, ()), (second, ()), (second, ("--mode", "sim", "--seed", "3")), (second, ("--mode", "sim", "--seed", "4"))):
            done = self.run_tool("replay", str(recording), *options)
            self.assertEqual((done.stderr, done.returncode), ("", 0), (recording.name, options, done.stdout))
            self.assertRegex(done.stdout, r"^\d+ calls replayed, 0 differences, 0 findings\n$")
        # What a client that is killed has done is whole. Its last call had no answer yet.
        client = self.client("wait")
        self.lines_until(client, "waiting\n")
        self.until(lambda one: one["figures"]["processes"] == 1)
        client.kill()
        third, = set(self.recordings(3)) - {first, second}
        self.assertIn("D3DKMTShareObjects", self.run_tool("calls", str(third)).stdout)
        # What an adapter that crashes has seen is there, but for its end.
        client = self.client("wait")
        self.lines_until(client, "waiting\n")
        os.kill(runs[1][1], signal.SIGKILL)
        self.wait_for(server, r"adapter 1 .*: it runs, LUID (\d+)")
        cut, = set((self.folder / "kept").glob("*.dxgk")) - {first, second, third}
        done = self.run_tool("calls", str(cut))
        self.assertEqual(done.returncode, 1)
        self.assertIn("without the mark of its end", done.stderr)
        self.end(server)

    def test_what_adapters_did_is_traced_for_the_viewer(self):
        """A whole trace when the server ends; one with the finding when an adapter is stopped, and one of each start."""
        self.write_stack('driver = "softgpu"')
        server, runs = self.serve("--trace", "kept")
        trace = self.folder / "kept" / f"adapter-1-luid-{runs[1][0]}.txt"
        self.assertEqual((trace.read_text(), trace.stat().st_mode & 0o777), ("", 0o600))
        self.assertEqual(self.run_program("plugin_program", str(BUILT / "softgpu_client.so"), "4", "2"), "4 jobs on each of 2 nodes\n")
        self.end(server)
        lines = trace.read_text().splitlines()
        calls = {re.search(r'name="(\w+)"', line)[1] for line in lines if " thunk_enter " in line}
        self.assertLessEqual({"D3DKMTCreateDevice", "D3DKMTCreateContext", "D3DKMTRender"}, calls)
        packets = {kind: sum(f" {kind} " in line for line in lines) for kind in ("packet_queued", "packet_completed")}
        # The server may end while work that belongs to no job, as evictions, is on its way.
        self.assertGreaterEqual(packets["packet_queued"], packets["packet_completed"])
        self.assertGreaterEqual(packets["packet_completed"], 4 * 2)
        self.assertGreater(sum(" handle_opened " in line for line in lines), 3)
        self.assertRegex(lines[-1], r'^# run {"driver":".*softgpu.*"}$')
        self.assertEqual(self.run_tool("view", str(trace)).returncode, 0)
        page = trace.with_suffix(".html").read_text()
        self.assertIn("D3DKMTCreateContext", page)
        page_run = json.loads(re.search(r'id="run-data">(.*?)</script>', page)[1])
        self.assertEqual(page_run["name"], trace.name)

        self.write_stack(f"driver = {json.dumps(MUTANT)}", 'registry = "mutant.json"')
        self.choose_fault("lock_twice")
        server, runs = self.serve("--trace", "stopped")
        self.lines_until(self.client(), "D3DKMTCreateDevice 0xc00002b6\n")
        second = int(self.wait_for(server, r"adapter 1 .*: it runs, LUID (\d+),")[1])
        trace = self.folder / "stopped" / f"adapter-1-luid-{runs[1][0]}.txt"
        lines = trace.read_text().splitlines()
        self.assertEqual(sum(' finding rule="NT-16"' in line for line in lines), 1)
        self.assertEqual([one["rule"] for one in json.loads(lines[-1].removeprefix("# run "))["findings"]], ["NT-16"])
        self.assertEqual(self.run_tool("view", str(trace)).returncode, 0)
        explained = json.loads(re.search(r'id="run-data">(.*?)</script>', trace.with_suffix(".html").read_text())[1])
        self.assertIn("DxgkDdiCreateDevice", explained["findings"][0]["ddi"] + explained["findings"][0]["actual"])
        self.assertIn("NT-16", explained["rules"]["explained"])
        self.end(server)
        self.assertGreater(len((self.folder / "stopped" / f"adapter-1-luid-{second}.txt").read_text()), 1000)
        self.assertEqual(self.run_tool("serve", "--stack", "stack.toml", "--trace", "/proc/none").returncode, 2)

        # A crash in the driver's own thread, and what led to it.
        self.choose_fault("thread_wild")
        server, runs = self.serve("--trace", "crashed")
        environment = {**os.environ, "DXGKIT_SOCKET": str(self.folder / "s"), "LD_LIBRARY_PATH": CLIENTS}
        # It may be done before the driver's thread crashes.
        subprocess.run([str(BUILT / "example_client")], env=environment, capture_output=True, check=False, timeout=PATIENCE)
        self.wait_for(server, r"adapter 1 .*: it runs, LUID \d+,")
        lines = (self.folder / "crashed" / f"adapter-1-luid-{runs[1][0]}.txt").read_text().splitlines()
        self.assertIn('ddi_enter name="DxgkDdiCreateAllocation"', "\n".join(lines))
        self.assertTrue(lines[-1].startswith("# run "))
        self.end(server)

    def test_the_jail(self):
        for options in ((), ("--recording-bytes", "1048576")):
            self.try_the_jail(*options)

    def try_the_jail(self, *options):
        self.write_stack('driver = "softgpu"')
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            done = subprocess.run([TOOL, "serve-adapter", "--stack", "stack.toml", "--memory", str(4 << 30), "--try-jail", *options], cwd=self.folder,
                                  stderr=subprocess.PIPE, text=True, preexec_fn=lambda: os.dup2(theirs.fileno(), 3), pass_fds=(3,))
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stderr.splitlines()
        names = [line.split(":")[0] for line in lines]
        self.assertEqual(names[:len(names) // 2], names[len(names) // 2:], "an old and a young thread")
        for name in ("openat", "socket", "fork", "ptrace", "memfd_create", "pipe2", "execve"):
            self.assertIn(name, names)
        for line in lines:
            self.assertRegex(line, r": Operation not permitted$|^clone3: Function not implemented$")

    def test_the_list_of_system_calls(self):
        done = self.run_tool("serve", "--list-system-calls")
        lines = done.stdout.splitlines()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertLessEqual(len(lines), 40)
        for line in lines:
            self.assertRegex(line, r"^[a-z0-9_]+ +\S.+$")
        self.assertFalse({"openat", "socket", "execve", "ptrace", "memfd_create", "connect"} & {line.split()[0] for line in lines})

    def test_systemd_passes_the_socket(self):
        self.write_stack('driver = "softgpu"')
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(str(self.folder / "s"))
        listener.listen()
        early = self.connect(hello(ADAPTERS))  # before there is a server

        def become():
            os.dup2(listener.fileno(), 3)
            os.environ["LISTEN_PID"], os.environ["LISTEN_FDS"] = str(os.getpid()), "1"
        server = self.start(preexec_fn=become, pass_fds=(3,))
        self.wait_for(server, "^serving 1 adapter at ")
        status, lines = self.answer(early)
        self.assertEqual((status, len(lines)), (SUCCESS, 8))
        self.end(server)
        self.assertIn("s", self.files(), "it is systemd's")

    def test_what_cannot_be_served(self):
        self.write_stack('driver = "softgpu"')
        (self.folder / "vfio.toml").write_text('driver = "softgpu"\ndevices = ["vfio:0000:00:01.0"]\n')
        (self.folder / "file").write_text("the user's")
        rows = ((("serve",), "serve needs --stack FILE"),
                (("serve", "--stack", "none.toml", "--socket", "s"), "none.toml cannot be read"),
                (("serve", "--stack", "vfio.toml", "--socket", "s"), "vfio:0000:00:01.0"),
                (("serve", "--stack", "stack.toml", "--socket", "file"), "cannot listen at file: there is a file of another kind"),
                (("serve", "--stack", "stack.toml", "--socket", "no/s"), "cannot listen at no/s: No such file or directory"),
                (("serve", "--stack", "stack.toml", "--socket", "s", "--record", "file"), "--record file: no files can be made there"),
                (("serve", "--stack", "stack.toml", "--socket", "s", "--allow-user", "nobody-of-that-name"), "--allow-user nobody-of-that-name: unknown"),
                (("serve", "--stack", "stack.toml", "--socket", "s", "--allow-group", "none-of-that-name"), "--allow-group none-of-that-name: unknown"),
                (("status", "--socket", "s"), "no server answers at s"))
        for arguments, words in rows:
            done = self.run_tool(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
        self.assertEqual((self.folder / "file").read_text(), "the user's")
        server, _ = self.serve()
        done = self.run_tool("serve", "--stack", "stack.toml", "--socket", "s")
        self.assertEqual((done.returncode, done.stderr), (2, "dxgkit: cannot listen at s: another server listens there\n"))
        self.end(server)


if __name__ == "__main__":
    unittest.main()
