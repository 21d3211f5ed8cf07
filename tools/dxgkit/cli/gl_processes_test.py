#!/usr/bin/env python3
"""OpenGL programs with each connection in a process of its own, and the kernel in another one. Arguments: support.py."""
import pathlib
import re
import subprocess
import sys
import unittest

from gl_support import SOCKET, TEXTURES, GlPrograms
from support import TOOL, read_png

# The program of a connection and its library, as the build leaves them.
CLIENTS = pathlib.Path(TOOL).resolve().parents[2] / "src/dxcore"


class GlProcesses(GlPrograms):
    def separately(self, *arguments, **more):
        return self.gl("--clients", "processes", *arguments, **more)

    def test_a_picture_is_the_same_to_the_pixel(self):
        wanted = self.reference()
        for driver in "virtiogpu", "virtiogpu_wddm2":
            for room in (), ("--aperture", "4M"):  # the textures alone have 16 MiB
                with self.subTest(driver=driver, room=room):
                    done, report = self.separately("--driver", driver, *room, "--", *self.frame_command("own.ppm"))
                    self.assertIn("virgl", done.stdout)
                    self.assertEqual(self.drawn("own.ppm"), wanted)
                    self.assertEqual((report["clients"], report["exit_code"], report["result"]), ("processes", 0, "exit code 0"))
                    self.assertEqual([program["wrong"] for program in report["programs"]], [""])
                    self.assertGreater(report["packets_completed"], TEXTURES)
                    # The calls did go between processes, and pixels did not: they have 16 MiB.
                    self.assertGreater(report["requests"], TEXTURES)
                    self.assertLess(report["bytes_in"] + report["bytes_out"], 4 << 20)

    def test_the_program_of_a_connection_holds_no_kernel(self):
        program = CLIENTS / "gl_connection"
        needs = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        self.assertIn(str(CLIENTS / "remote/libdxcore.so"), needs)
        names = subprocess.run(["nm", "-C", program], capture_output=True, text=True, check=True).stdout
        self.assertEqual(set(re.findall(r"(?m)^\S* +\w (?:vtable for )?dxgkit::(dxgk|vidmm|vidsch|gpuva|nt|port|loader|thunks|vidpn|bus)::", names)), set())
        self.assertRegex(names, r" U D3DKMTRender\b")

    def test_a_hostile_program_loses_its_connection_and_others_go_on(self):
        hostile = f"""
import socket, struct, subprocess, sys
bad = socket.socket(socket.AF_UNIX)
bad.connect({SOCKET!r})
bad.sendall(struct.pack("<II", 4, 8) + b"bad\\0" + struct.pack("<III", 1, 11, 2) + struct.pack("<III", 1, 3, 77))
done = subprocess.run({self.frame_command("beside.ppm", 4)!r}).returncode
while bad.recv(4096):
    pass
sys.exit(done + 7)
"""
        done, report = self.separately("--", sys.executable, "-c", hostile, code=7)
        self.assertIn("dxgkit gl: bad lost its connection: it named resource 77, which it does not have\n", done.stderr)
        self.assertEqual(sorted(one["wrong"] for one in report["programs"]), ["", "it named resource 77, which it does not have"])
        self.gl("--", *self.frame_command("alone.ppm", 4))
        self.assertEqual(self.drawn("beside.ppm"), self.drawn("alone.ppm"))

    def test_the_end_of_a_connections_process_costs_its_own_program_only(self):
        self.gl("--", *self.frame_command("alone.ppm", 4))
        for signal, number in ("SIGKILL", 9), ("SIGABRT", 6):
            done, report = self.separately("--", *self.director("gl_connection", signal), code=10)
            self.assertEqual(self.drawn("beside.ppm"), self.drawn("alone.ppm"), signal)
            self.assertFalse((self.folder / "sick.ppm").exists())
            self.assertEqual(sorted(one["wrong"] for one in report["programs"]), ["", f"its process ended by signal {number}"])
            self.assertIn(f"dxgkit gl: a program lost its connection: its process ended by signal {number}\n", done.stderr)
            self.assertEqual(report["result"], "exit code 10")
            (self.folder / "beside.ppm").unlink()

    def test_the_end_of_the_kernels_process_ends_all_connections(self):
        done, report = self.separately("--", *self.director("serve-adapter", "SIGKILL"), code=11)
        self.assertIn("dxgkit: the kernel's process: it ended by signal 9 (Killed)\n", done.stderr)
        self.assertEqual(report["result"], "exit code 11; the kernel's process: it ended by signal 9 (Killed)")
        self.assertEqual(len(report["programs"]), 2)
        for program in report["programs"]:
            self.assertIn("STATUS_DEVICE_REMOVED", program["wrong"])
        # A program that does not notice has an exit code of its own, and the run fails all the same.
        done, _ = self.separately("--", "sh", "-c", "kill -9 $(pgrep -P $PPID -f serve-[a]dapter); exit 0", code=1)
        self.assertIn("the kernel's process: ", done.stderr)

    def test_windows_of_programs_are_shown(self):
        with self.display() as name:
            for seconds in 2, 10, 60:  # a busy machine draws few frames in two seconds
                done, report = self.separately("--frame", "frame.png", "--", "timeout", str(seconds), "es2gears_x11", code=None, DISPLAY=name)
                shown = max(report["programs"], key=lambda one: one["frames"])
                if shown["frames"] > 3:
                    break
        self.assertEqual(done.returncode, 124, done.stderr)
        self.assertEqual(shown["name"], "es2gears_x11")
        width, height, pixels = read_png(self.folder / "frame.png")
        self.assertEqual((width, height), (300, 300))
        for channel in range(3):  # a red, a green and a blue gear before black
            others = [c for c in range(3) if c != channel]
            strong = sum(1 for i in range(0, len(pixels), 4) if pixels[i + channel] > 90 + max(pixels[i + c] for c in others))
            self.assertGreater(strong, 1000, channel)

    def test_what_needs_threads_is_refused(self):
        rows = (("--trace", "t"), ("--report", "r"), ("--registry", "r.toml"), ("--hang", "5"), ("--trace-imports",), ("--in-process",),
                ("--waive", "PAGE-05=no fills"), ("--processors", "2"))
        for row in rows:
            done, _ = self.separately(*row, "--", "true", code=2)
            self.assertEqual(done.stderr, f"dxgkit: {row[0]}: not with --clients processes\n")
        done, _ = self.separately("--device", "virtio-gpu,3d=on,renderers=each", "--", "true", code=2)
        self.assertEqual(done.stderr, "dxgkit: renderers=each: not with --clients processes, where the kernel starts no others\n")
        self.assertEqual(self.files(), ["good.png"])

    def test_says_why_nothing_runs(self):
        self.separately("--", "sh", "-c", "exit 42", code=42)
        for arguments, line in ((("--", "no-such-program"), "dxgkit: virtiogpu: no-such-program cannot be started: No such file or directory\n"),
                                (("--device", "virtio-gpu", "--", "true"), "dxgkit: virtiogpu: the device has no 3D, or the driver does not use it\n"),
                                (("--driver", "softgpu", "--device", "softgpu", "--", "true"),
                                 "dxgkit: softgpu: the driver does not speak the user-mode interface of the virtio GPU's driver\n")):
            done, _ = self.separately(*arguments, code=2)
            self.assertEqual(done.stderr, line)


if __name__ == "__main__":
    unittest.main(verbosity=2)
