#!/usr/bin/env python3
"""The picture job with client programs of their own and the kernel in a third process. Arguments: support.py."""
import json
import pathlib
import re
import subprocess
import unittest

from support import TOOL, Cli, read_png

# The client program and its library, as the build leaves them.
CLIENTS = pathlib.Path(TOOL).resolve().parents[2] / "src/dxcore"


class Processes(Cli):
    def job(self, *arguments):
        done = self.run_tool("run", "--clients", "processes", "--json", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return json.loads(done.stdout)

    def test_two_programs_and_a_kernel_draw_the_picture(self):
        # Video memory is a quarter of the working set unless --vram says otherwise.
        for model in (), ("--model", "patch"), ("--model", "gpuva:1"), ("--model", "gpuva:2"), ("--model", "gpuva:3"):
            with self.subTest(model):
                told = self.job("--size", "700x500", *model, "--output", "out.png")
                self.assertEqual((told["result"], told["clients"], told["findings"]), ("identical to CPU reference", "processes", []))
                self.assertLess(told["vram_bytes"], told["working_set_bytes"])
                # The calls did go between processes: each tile needs some, and its pixels do not travel in them.
                self.assertGreater(told["requests"], 10 * told["tiles"])
                self.assertGreater(told["packets_completed"], 4 * told["tiles"])
                same = self.run_tool("run", "--size", "700x500", *model, "--output", "threads.png")
                self.assertEqual(same.returncode, 0, same.stderr)
                self.assertEqual(read_png(self.folder / "out.png"), read_png(self.folder / "threads.png"))

    def test_a_picture_of_the_user(self):
        told = self.job("--input", "good.png")
        self.assertEqual((told["result"], told["width"], told["height"]), ("identical to CPU reference", 97, 61))

    def test_the_programs_hold_no_kernel(self):
        program = CLIENTS / "picture_client"
        needs = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        self.assertIn(str(CLIENTS / "remote/libdxcore.so"), needs)
        self.assertNotIn("libdxgkit", needs)
        # What is of the kernel begins so. (A structure of its headers may be an argument of something else.)
        of_kernel = r"(?m)^\S* +\w (?:vtable for )?dxgkit::(dxgk|vidmm|vidsch|gpuva|nt|port|loader|thunks|vidpn|bus)::"
        for file in program, CLIENTS / "remote/libdxcore.so":
            names = subprocess.run(["nm", "-C", file], capture_output=True, text=True, check=True).stdout
            self.assertEqual(set(re.findall(of_kernel, names)), set(), file)
        names = subprocess.run(["nm", "-C", program], capture_output=True, text=True, check=True).stdout
        self.assertRegex(names, r" U D3DKMTRender\b")
        self.assertNotRegex(names, r" [tT] D3DKMT")
        # The same look at the tool, which has the kernel, finds it.
        kernel = subprocess.run(["nm", "-C", TOOL], capture_output=True, text=True, check=True).stdout
        self.assertLess({"dxgk", "vidmm", "vidsch", "thunks"}, set(re.findall(of_kernel, kernel)))

    def test_what_needs_threads_is_refused(self):
        rows = (("--mode", "sim"), ("--seeds", "1..2"), ("--trace", "t"), ("--report", "r"), ("--power-plan", "at 1 standby"), ("--hang", "3d:1"),
                ("--client-api", "umd"), ("--in-process",), ("--scanout", "s.png"))
        for row in rows:
            done = self.run_tool("run", "--clients", "processes", *row)
            self.assertEqual((done.returncode, done.stdout), (2, ""), row)
            self.assertEqual(done.stderr, f"dxgkit: {' '.join(row) if row[0] in ('--mode', '--client-api') else row[0]}: not with --clients processes\n")
        self.assertEqual(self.files(), ["good.png"])
        done = self.run_tool("run", "--clients", "processes", "--device", "ram")
        self.assertEqual(done.returncode, 2)

    def test_a_server_that_does_not_start_is_the_result(self):
        done = self.run_tool("run", "--clients", "processes", "--size", "97x61", "--driver", "virtiogpu", "--device", "softgpu")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("the kernel's process: ", done.stderr)


if __name__ == "__main__":
    unittest.main()
