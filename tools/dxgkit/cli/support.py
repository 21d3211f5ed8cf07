"""What the tests of the command line share: the tool, its mutant, pictures, a folder per test."""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

HERE = pathlib.Path(__file__).resolve().parent.parent
# Every test is called as NAME_test.py DXGKIT_EXECUTABLE FOLDER_OF_MUTANTS RESULTS [unittest arguments].
TOOL, MUTANTS, RESULTS = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))  # RESULTS: a file for `make rules`
MUTANT = os.path.join(MUTANTS, "mutant.so")


def png(width, height):
    """A picture no filter leaves alone, in the plainest PNG: 8-bit RGB."""
    rows = b"".join(b"\0" + bytes((x * 7 + y * y * 3 + channel * 85) & 255 for x in range(width) for channel in range(3)) for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def read_png(path):
    """Width, height and the RGBA bytes of an 8-bit picture."""
    data, at, packed = path.read_bytes(), 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
        elif kind == b"IDAT":
            packed += body
        at += length + 12
    size = {2: 3, 6: 4}[colour]
    assert depth == 8
    raw, row, out, above = zlib.decompress(packed), width * size, bytearray(), bytes(width * size)
    for y in range(height):
        kind, line = raw[y * (row + 1)], bytearray(raw[y * (row + 1) + 1:(y + 1) * (row + 1)])
        for x in range(row):
            a, b, c = line[x - size] if x >= size else 0, above[x], above[x - size] if x >= size else 0
            p = a + b - c
            nearest = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            line[x] = (line[x] + (0, a, b, (a + b) // 2, nearest)[kind]) & 255
        above = bytes(line)
        out += above if size == 4 else b"".join(above[x:x + 3] + b"\xff" for x in range(0, row, 3))
    return width, height, bytes(out)


def colours(pixels):
    """Without alpha, which no screen shows."""
    return b"".join(pixels[at:at + 3] for at in range(0, len(pixels), 4))


class Cli(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.holder.name)
        (self.folder / "good.png").write_bytes(png(97, 61))

    def tearDown(self):
        self.holder.cleanup()

    def run_tool(self, *arguments):
        return subprocess.run([TOOL, *arguments], cwd=self.folder, capture_output=True, text=True)

    def choose_fault(self, name):
        """The registry that makes the mutant break in one way; arguments for it."""
        (self.folder / "mutant.json").write_text(json.dumps({"service": {"Mutant": name}}))
        return "--registry", "mutant.json"

    def mutant_of(self, fault):
        """A copy of the mutant that has the fault without a registry; its path."""
        mark, image = b"own fault:", pathlib.Path(MUTANT).read_bytes()
        at = image.index(mark) + len(mark)
        (self.folder / f"{fault}.so").write_bytes(image[:at] + fault.encode() + image[at + len(fault):])
        return f"{fault}.so"

    def proved(self, rules):
        """Says so as GoogleTest does."""
        value = " ".join(sorted(rules))
        pathlib.Path(RESULTS).write_text(
            f'<testsuites><testsuite name="tool_cli"><testcase name="{self._testMethodName}" status="run" result="completed" '
            f'classname="{type(self).__name__}"><properties><property name="rules" value="{value}"/></properties></testcase>'
            "</testsuite></testsuites>\n")

    def files(self):
        return sorted(path.name for path in self.folder.iterdir())

    def assert_identical(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("result: identical to CPU reference", done.stdout.splitlines())


class Verifying(Cli):
    """What the tests of `dxgkit verify` share."""

    CLIENTS = os.path.join(os.path.dirname(TOOL), "clients")
    SOFTGPU_CLIENT = os.path.join(CLIENTS, "softgpu_client.so")

    def verify(self, *arguments, driver="softgpu", client=True):
        clients = ("--client", self.SOFTGPU_CLIENT) if client else ()
        return self.run_tool("verify", driver, *clients, *arguments)

    def report(self, *arguments, code, **named):
        done = self.verify("--json", *arguments, **named)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["exit_code"], code)
        return report, {step["name"]: step for step in report["steps"]}

    def mutant(self, name, *arguments, code, mode="sim"):
        """The steps of a run of the driver with one fault, and its rules by step."""
        report, steps = self.report(*self.choose_fault(name), "--mode", mode, *arguments, code=code,
                                    driver=MUTANT)
        return steps, {step: [finding["rule"] for finding in told["findings"]] for step, told in steps.items() if told["findings"]}
