#!/usr/bin/env python3
"""Devices in another process: two processes of the tool, one with the model and one with the driver. Arguments: support.py."""
import os
import pathlib
import signal
import subprocess
import unittest

from support import TOOL, Cli, read_png

PLUGINS = pathlib.Path(TOOL).resolve().parents[2] / "devices/plugin/plugins"
COPIER = str(PLUGINS / "copier_device.so")
SIZE = "400x300"
REMOTE = "vfio-user:s,timeout=60000"  # a busy machine is no silent server


class VfioUser(Cli):
    def setUp(self):
        super().setUp()
        self.servers = []

    def tearDown(self):
        for server in self.servers:
            server.kill()
            server.wait()
            server.stdout.close()
            server.stderr.close()
        super().tearDown()

    def serve(self, model, socket="s"):
        """A server that listens."""
        server = subprocess.Popen([TOOL, "serve-device", model, "--socket", socket], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True)
        self.servers.append(server)
        self.assertEqual(server.stdout.readline(), f"serving {model} at {socket}\n")
        return server

    def end(self, server):
        """Its lines, and stderr, after Ctrl-C."""
        server.send_signal(signal.SIGINT)
        out, errors = server.communicate()
        self.assertEqual((server.returncode, errors), (0, ""))
        return out

    def picture(self, *arguments):
        done = self.run_tool("run", "--size", SIZE, "--output", "out.png", *arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("identical to CPU reference", done.stdout)
        return read_png(self.folder / "out.png")

    def test_softgpu_draws_the_same_picture_in_another_process(self):
        server = self.serve("softgpu,vram=4M")
        for model in ("patch", "gpuva"):
            own = self.picture("--model", model, "--device", "softgpu,vram=4M")
            other = self.picture("--model", model, "--device", REMOTE)
            self.assertEqual(own, other, model)
        lines = self.end(server).splitlines()
        self.assertEqual(lines, ["a client has come", "the client left: the client closed the connection"] * 2)
        self.assertFalse((self.folder / "s").exists())

    def test_verify_finds_nothing_in_the_good_driver(self):
        self.serve("softgpu")
        done = self.run_tool("verify", "softgpu", "--device", REMOTE)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)

    def test_simulations_refuse_it(self):
        line = "--device vfio-user:s: it lives in real time only and cannot be simulated"
        for command in (("run", "--mode", "sim"), ("run", "--seeds", "1..2"), ("verify", "softgpu", "--mode", "sim"), ("sim", "--seeds", "1..2"),
                        ("fuzz", "softgpu")):
            done = self.run_tool(*command, "--device", "vfio-user:s")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", f"dxgkit: {line}\n"), command)

    def test_no_server(self):
        done = self.run_tool("run", "--size", SIZE, "--device", "vfio-user:s")
        self.assertEqual((done.returncode, done.stderr), (1, "dxgkit: vfio-user: no server answers at s: No such file or directory\n"))

    def test_what_cannot_be_served(self):
        rows = ((("toaster",), "'toaster': there is no device of that name"),
                (("softgpu,vram=x",), "vram: 'x' is not a number of bytes"),
                ((str(PLUGINS / "hostile_open_device.so"),), "open: it opens for nobody"),
                (("vfio-user:other",), "vfio-user:other: another process serves it already"))
        for (model,), words in rows:
            done = self.run_tool("serve-device", model, "--socket", "s")
            self.assertEqual((done.returncode, done.stdout), (2, ""), model)
            self.assertIn(words, done.stderr)
            self.assertEqual(self.files(), ["good.png"], model)
        (self.folder / "file").write_text("the user's")
        done = self.run_tool("serve-device", "softgpu", "--socket", "file")
        self.assertEqual((done.returncode, done.stderr), (2, "dxgkit: cannot listen at file: Address already in use\n"))
        self.serve("softgpu")
        done = self.run_tool("serve-device", "softgpu", "--socket", "s")
        self.assertEqual((done.returncode, done.stderr), (2, "dxgkit: another server listens at s already\n"))
        self.assertEqual(self.run_tool("serve-device", "softgpu").returncode, 2)

    def test_a_plugin_is_served(self):
        server = self.serve(COPIER)
        done = self.run_tool("run", "--size", SIZE, "--device", REMOTE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the adapter did not start", done.stderr)  # the copier is no softgpu
        self.assertEqual(self.end(server).splitlines(), ["a client has come", "the client left: the client closed the connection"])

    def lose_server(self, *command):
        """The command's end, whose server is killed as soon as the command is its client."""
        server = self.serve("softgpu,vram=4M")
        client = subprocess.Popen([TOOL, *command, "--device", REMOTE], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(server.stdout.readline(), "a client has come\n")
        server.send_signal(signal.SIGKILL)
        out, errors = client.communicate()
        return client.returncode, out, errors

    def test_a_server_that_dies_is_not_the_drivers_mistake(self):
        code, _, errors = self.lose_server("run", "--size", "2000x2000")
        self.assertEqual(code, 1, errors)
        self.assertRegex(errors, r"the server closed the connection|the server left|the connection to the server broke")
        code, _, errors = self.lose_server("verify", "softgpu")
        self.assertIn(code, (1, 2), errors)
        if code == 2:
            self.assertRegex(errors, r"^dxgkit: vfio-user:s,timeout=60000: the device left the machine: .*; the driver is not to blame, and nothing can be said of it\n$")


if __name__ == "__main__":
    unittest.main()
