#!/usr/bin/env python3
"""OpenGL programs whose commands go through the virtio GPU's driver. Arguments: support.py.

They need packages that scripts/bootstrap installs.
"""
import base64
import os
import pathlib
import socket
import sys
import unittest

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "report"))
from gl_support import SOCKET, TEXTURES, GlPrograms, PATIENT  # noqa: E402
from page_case import HEADINGS, PageCase  # noqa: E402
from support import read_png  # noqa: E402


class Gl(GlPrograms):
    def test_a_picture_is_the_same_to_the_pixel_also_with_little_aperture(self):
        wanted = self.reference()
        self.assertGreater(len(set(wanted)), 100)  # it is no empty picture
        done, report = self.gl("--", *self.frame_command("own.ppm"))
        self.assertIn("virgl", done.stdout)
        self.assertEqual(self.drawn("own.ppm"), wanted)
        statistics = report["statistics"]
        self.assertEqual((statistics["evictions"], statistics["packets_faulted"]), (0, 0))
        self.assertEqual([program["wrong"] for program in report["programs"]], [""])
        # The textures alone have 16 MiB.
        done, report = self.gl("--aperture", "4M", "--", *self.frame_command("little.ppm"))
        self.assertEqual(self.drawn("little.ppm"), wanted)
        self.assertGreater(report["statistics"]["evictions"], TEXTURES / 2)
        # Each texture that comes back is a page-in. An aperture maps it and transfers nothing.
        page_ins = report["statistics"]["page_ins"]
        self.assertGreater(page_ins, TEXTURES / 2)
        self.assertEqual((report["statistics"]["returns"], report["statistics"]["page_outs"]), (page_ins, 0))
        self.assertIn(f"evictions, {page_ins} back, {page_ins} page-ins, 0 page-outs", done.stderr)
        # Each texture comes into the aperture for its first content, and again for its change.
        self.assertGreater(report["statistics"]["aperture_maps"], statistics["aperture_maps"] + TEXTURES / 2)

    def test_a_driver_of_wddm_2_draws_the_same_also_with_little_aperture(self):
        wanted = self.reference()
        _, report = self.gl("--driver", "virtiogpu_wddm2", "--", *self.frame_command("own.ppm"))
        self.assertEqual(self.drawn("own.ppm"), wanted)
        self.assertEqual((report["statistics"]["evictions"], report["statistics"]["packets_faulted"]), (0, 0))
        _, report = self.gl("--driver", "virtiogpu_wddm2", "--aperture", "4M", "--", *self.frame_command("little.ppm"))
        self.assertEqual(self.drawn("little.ppm"), wanted)
        self.assertGreater(report["statistics"]["returns"], TEXTURES / 2)
        self.assertEqual({program["wrong"] for program in report["programs"]}, {""})

    def test_a_hostile_program_loses_its_connection_and_others_go_on(self):
        hostile = f"""
import socket, struct, subprocess, sys
bad = socket.socket(socket.AF_UNIX)
bad.connect({SOCKET!r})
bad.sendall(struct.pack("<II", 4, 8) + b"bad\\0" + struct.pack("<III", 1, 11, 2) + struct.pack("<III", 1, 3, 77))
half = socket.socket(socket.AF_UNIX)
half.connect({SOCKET!r})
half.sendall(struct.pack("<II", 5, 8) + b"half\\0" + struct.pack("<III", 100, 6, 0))
done = subprocess.run({self.frame_command("beside.ppm", 4)!r}).returncode
while bad.recv(4096):
    pass
sys.exit(done + 7)
"""
        done, report = self.gl("--", sys.executable, "-c", hostile, code=7)
        self.assertIn("dxgkit gl: bad lost its connection: it named resource 77, which it does not have", done.stderr)
        self.assertIn("dxgkit gl: half lost its connection: it closed the connection in the middle of a message", done.stderr)
        self.assertEqual(len([one for one in report["programs"] if one["wrong"] == ""]), 1)
        self.gl("--", *self.frame_command("alone.ppm", 4))
        self.assertEqual(self.drawn("beside.ppm"), self.drawn("alone.ppm"))

    def test_a_renderer_that_ends_or_hangs_costs_its_own_program_only(self):
        self.gl("--", *self.frame_command("alone.ppm", 4))
        for signal in ("SIGKILL", "SIGSTOP"):
            done, report = self.gl("--report", "report.html", "--", *self.director("dxgkit-renderer", signal), code=10)
            self.assertEqual(self.drawn("beside.ppm"), self.drawn("alone.ppm"), signal)
            self.assertFalse((self.folder / "sick.ppm").exists())
            self.assertEqual(sorted(bool(one["wrong"]) for one in report["programs"]), [False, True], signal)
            self.assertIn("lost its connection: ", done.stderr)
            # The report says which program lost its renderer, when, and why: one context, and then its program.
            events = self.report_table("markers")["text"]
            lost = [text for text in events if text.startswith("virtio-gpu: ")]
            why = {"SIGKILL": "it has ended", "SIGSTOP": "no answer in 1500 ms"}[signal]
            self.assertEqual(len(lost), 1, events)
            self.assertRegex(lost[0], rf"^virtio-gpu: context \d+ \(.+\): the renderer is lost: {why}$")
            ended = [text for text in events if " lost its connection: " in text]
            self.assertEqual(len(ended), 1, events)
            self.assertLess(events.index(lost[0]), events.index(ended[0]))
            self.assertIn(lost[0].split("(")[1].split(")")[0], ended[0])
            (self.folder / "beside.ppm").unlink()

    def test_a_device_that_stops_dead_is_reset_and_works_again(self):
        # 256 textures are 1,400 requests and more until the picture is read: fewer where the kernel has more of them in one packet of paging. This
        # is well before, among the last objects or the command streams that draw them. What the program hears of it depends on its call.
        # Programs that come before the kernel has found the hang may fail as the first one does; one that comes behind the reset may not.
        script = " ".join(self.frame_command("first.ppm", 256)) + "; until " + " ".join(self.frame_command("second.ppm", 4)) + "; do :; done"
        done, report = self.gl("--hang", "1200", "--report", "report.html", "--", "sh", "-c", script)
        self.assertFalse((self.folder / "first.ppm").exists())
        self.assertEqual(report["statistics"]["adapter_resets"] + report["statistics"]["engine_resets"], 1)
        first, *before, last = report["programs"]
        self.assertNotEqual(first["wrong"], "")
        for program in before:
            self.assertNotEqual(program["wrong"], "")
        self.assertEqual(last["wrong"], "")
        self.assertIn("Recovered.", done.stderr)
        self.assertIn("Recovered.", self.drawn("report.html").decode())
        self.gl("--", *self.frame_command("alone.ppm", 4))
        self.assertEqual(self.drawn("second.ppm"), self.drawn("alone.ppm"))

    def test_programs_of_debian_run_and_show_frames(self):
        with self.display() as name:
            done, report = self.gl("--device", PATIENT, "--", "es2_info", DISPLAY=name)
            self.assertIn("GL_RENDERER: virgl", done.stdout)
            self.assertEqual(report["exit_code"], 0)
            for program in ("es2gears_x11", "glxgears"):
                # They run until somebody ends them: the exit code is that of `timeout`. A busy machine draws few frames in two seconds.
                for seconds in (2, 10, 60):
                    done, report = self.gl("--device", PATIENT, "--frame", "frame.png", "--report", "report.html", "--trace", "trace.txt",
                                           "--", "timeout", str(seconds),
                                           program, code=None, DISPLAY=name)
                    shown = max(report["programs"], key=lambda one: one["frames"])
                    if shown["frames"] > 3:
                        break
                self.assertEqual(done.returncode, 124, done.stderr)
                self.assertEqual(shown["name"], program)
                self.assertGreater(shown["frames"], 3)
                width, height, pixels = read_png(self.folder / "frame.png")
                self.assertEqual((width, height), (300, 300))
                # A red, a green and a blue gear before black.
                for channel in range(3):
                    others = [c for c in range(3) if c != channel]
                    strong = sum(1 for i in range(0, len(pixels), 4) if pixels[i + channel] > 90 + max(pixels[i + c] for c in others))
                    self.assertGreater(strong, 1000, (program, channel))
                # The report shows the last frames, the same picture among them.
                frames = [frame for frame in self.report_data("run-data")["frames"] if frame["program"] == program]
                self.assertEqual([frame["number"] for frame in frames], list(range(shown["frames"] - 3, shown["frames"] + 1)))
                times = [frame["time_ns"] for frame in frames]
                self.assertEqual(times, sorted(times))
                data = self.report_data("report-data")
                self.assertLess(data["start_ns"], times[0])
                self.assertLess(times[-1], data["start_ns"] + data["duration_ns"])
                kind, content = frames[-1]["picture"].split(",")
                self.assertEqual(kind, "data:image/png;base64")
                (self.folder / "last.png").write_bytes(base64.b64decode(content, validate=True))
                self.assertEqual(read_png(self.folder / "last.png"), (width, height, pixels))
                self.assertEqual(self.report_table("markers")["text"].count(f"{program} has a frame"), shown["frames"])
                # So does the page that is made of the trace afterwards.
                self.assertEqual(self.run_tool("view", "trace.txt", "--output", "report.html").returncode, 0)
                self.assertEqual([frame for frame in self.report_data("run-data")["frames"] if frame["program"] == program], frames)
                self.assertEqual(self.report_table("markers")["text"].count(f"{program} has a frame"), shown["frames"])

    def test_ends_as_the_program_does_or_says_why_not(self):
        self.gl("--", "sh", "-c", "exit 42", code=42)
        self.gl("--", "sh", "-c", "kill -9 $$", code=137)
        for arguments, line in (((), "dxgkit: gl: which program? `dxgkit gl [OPTIONS] -- PROGRAM ARGUMENTS...`\n"),
                                (("--", "no-such-program"), "dxgkit: no-such-program cannot be started: No such file or directory\n"),
                                (("--device", "virtio-gpu", "--", "true"), "dxgkit: virtiogpu: the device has no 3D, or the driver does not use it\n"),
                                (("--driver", "softgpu", "--device", "softgpu", "--", "true"),
                                 "dxgkit: softgpu: the driver does not speak the user-mode interface of the virtio GPU's driver\n"),
                                (("--aperture", "1000000", "--", "true"), "dxgkit: --aperture 1000000: 1M to 1G, whole MiB\n")):
            done, _ = self.gl(*arguments, code=2)
            self.assertEqual(done.stderr, line)
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(SOCKET)
            other.listen()
            done, _ = self.gl("--", "true", code=2)
            self.assertEqual(done.stderr, f"dxgkit: another server listens at {SOCKET} already\n")
        os.unlink(SOCKET)


class ReportPage(GlPrograms, PageCase):
    def test_the_frames_of_a_program_are_on_the_page_of_its_run(self):
        with self.display() as name:
            for seconds in 2, 10, 60:  # a busy machine draws few frames in two seconds
                _, report = self.gl("--report", "report.html", "--", "timeout", str(seconds), "es2gears_x11", code=None, DISPLAY=name)
                if max(one["frames"] for one in report["programs"]) > 3:
                    break
        self.open(str(self.folder / "report.html"))
        pictures = self.value("[...document.querySelectorAll('#frames img')].map((image) => [image.naturalWidth, image.naturalHeight])")
        self.assertEqual(set(map(tuple, pictures)), {(300, 300)})
        self.browser.click_on("[...document.querySelectorAll('#frames figure')].pop()")
        self.assertEqual(self.value("dxgkit.cursor"), self.value("dxgkit.model.frames[dxgkit.model.frames.length - 1].time"))
        self.screenshot("gears-report", 1400, 775, labels=HEADINGS)


if __name__ == "__main__":
    unittest.main(verbosity=2)
