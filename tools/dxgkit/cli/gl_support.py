"""What the tests of OpenGL programs share. The peer is virgl_test_server of Debian, which draws with the same renderer without a driver."""
import base64
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import unittest
import zlib

from support import TOOL, Cli

FRAME = str(pathlib.Path(__file__).resolve().parent / "gl_frame.py")
SOCKET = "/tmp/.virgl_test"  # the only path that this Mesa knows
WIDTH, HEIGHT, TEXTURES = 320, 240, 64
# The default, with more patience for a renderer that gets no processor.
PATIENT = "virtio-gpu,3d=on,renderers=each,memory=1G,modes=64x64,timeout=60000"
PROGRAMS = ("virgl_test_server", "Xvfb", "es2_info", "es2gears_x11", "glxgears")


def missing():
    return [program for program in PROGRAMS if shutil.which(program) is None]


@unittest.skipIf(missing(), f"not installed: {', '.join(missing())}; scripts/bootstrap installs them")
class GlPrograms(Cli):
    def setUp(self):
        super().setUp()
        self.environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "GALLIUM_DRIVER", "EGL_PLATFORM")}

    def gl(self, *arguments, code=0, **environment):
        """Runs the tool: its end, and its report. `code` None: any exit code."""
        done = subprocess.run([TOOL, "gl", "--json=gl.json", *arguments], cwd=self.folder, capture_output=True, text=True, timeout=300,
                              env={**self.environment, **environment})
        if code is not None:
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        path = self.folder / "gl.json"
        return done, json.loads(path.read_text()) if path.exists() else None

    @contextlib.contextmanager
    def display(self):
        """An X server: its name."""
        server = subprocess.Popen(["Xvfb", "-displayfd", "1", "-screen", "0", "640x480x24"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            yield ":" + server.stdout.readline().strip()
        finally:
            server.kill()
            server.wait()
            server.stdout.close()

    def frame_command(self, path, textures=TEXTURES):
        return [sys.executable, FRAME, str(WIDTH), str(HEIGHT), str(textures), path]

    def director(self, victim, signal):
        """A program: two others draw half of their pictures, then the victims that came with the second one get a signal, or all if none came,
        then they draw the rest. A victim is a process below the tool, by its name or a word of its command line. The exit code: 10 if the second
        one failed, and 1 more if the first one did."""
        return [sys.executable, "-c", f"""
import os, signal, subprocess, sys
def processes(name):
    parents, names = dict(), dict()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            own, rest = open("/proc/" + entry + "/stat").read().split("(", 1)[1].rsplit(")", 1)
            words = open("/proc/" + entry + "/cmdline").read().split("\\0")
        except (OSError, IndexError):
            continue
        parents[int(entry)], names[int(entry)] = int(rest.split()[1]), [own, *words]
    def below(process):
        while process in parents and process != os.getppid():
            process = parents[process]
        return process == os.getppid()
    return {{one for one, words in names.items() if name in words and below(one)}}
def start(path):
    program = subprocess.Popen({self.frame_command("?", 4)!r}[:-1] + [path, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    while program.stdout.readline() != "half\\n":
        pass
    return program
healthy = start("beside.ppm")
before = processes({victim!r})
sick = start("sick.ppm")
hit = processes({victim!r})
for one in hit - before or hit:
    os.kill(one, signal.{signal})
sick.communicate("go\\n")
healthy.communicate("go\\n")
sys.exit(10 * (sick.returncode != 0) + (healthy.returncode != 0))
"""]

    def report_data(self, name, path="report.html"):
        """One of the two pieces of JSON in a report page: report-data or run-data."""
        page = self.drawn(path).decode()
        return json.loads(re.search(f'id="{name}">(.*?)</script>', page, re.DOTALL).group(1))

    def report_table(self, name, path="report.html"):
        """A table of a report page as columns: tools/dxgkit/report/columns.js says how they are packed."""
        page, table = self.drawn(path).decode(), self.report_data("report-data", path)["tables"][name]
        columns = {column["name"]: [] for column in table["columns"]}
        for rows, block, encodings in table["chunks"]:
            packed = re.search(rf'id="a{block}"[^>]*>(.*?)<', page, re.DOTALL).group(1)
            data, at = zlib.decompress(base64.b64decode(packed)), 0
            for column, encoding in zip(table["columns"], encodings):
                if encoding == "-" or encoding[0] == "=":
                    values = [None if encoding == "-" else int(encoding[1:])] * rows
                else:
                    width = int(encoding[1])
                    assert width < 8, "floating point: no table that is read here has any"
                    at = (at + 7) // 8 * 8
                    values = [int.from_bytes(data[at + i * width:at + (i + 1) * width], "little") for i in range(rows)]
                    at += rows * width
                    missing = 256**width - 1
                    if encoding[0] == "u":
                        values = [None if value == missing else value for value in values]
                    else:
                        last, changes, values = int(encoding[3:]), values, []
                        for change in changes:
                            last += 0 if change == missing else -(change + 1) // 2 if change & 1 else change // 2
                            values.append(None if change == missing else last)
                texts = column.get("texts")
                columns[column["name"]] += values if texts is None else [None if value is None else texts[value] for value in values]
        return columns

    def reference(self):
        """The picture without a driver."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(SOCKET)
        server = subprocess.Popen(["virgl_test_server", "--use-egl-surfaceless", "--use-gles"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
        try:
            while True:  # until it listens; it says nothing of that
                with socket.socket(socket.AF_UNIX) as probe:
                    if probe.connect_ex(SOCKET) == 0:
                        break
                self.assertIsNone(server.poll())
            done = subprocess.run(self.frame_command("reference.ppm"), cwd=self.folder, capture_output=True, text=True, timeout=300,
                                  env={**self.environment, "GALLIUM_DRIVER": "virpipe", "LIBGL_ALWAYS_SOFTWARE": "1", "EGL_PLATFORM": "surfaceless"})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("virgl", done.stdout)
        finally:
            server.kill()
            server.wait()
            server.stdout.close()
            os.unlink(SOCKET)
        return (self.folder / "reference.ppm").read_bytes()

    def drawn(self, path):
        return (self.folder / path).read_bytes()
