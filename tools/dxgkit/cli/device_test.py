#!/usr/bin/env python3
"""Devices on the command line: lists, plug-ins, several in one machine. Arguments: support.py."""
import json
import os
import pathlib
import re
import unittest

from support import MUTANTS, TOOL, Cli

PLUGINS = pathlib.Path(TOOL).resolve().parents[2] / "devices/plugin/plugins"


def plugin(name):
    return str(PLUGINS / f"{name}_device.so")


class Devices(Cli):
    def test_the_list(self):
        done = self.run_tool("devices")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for words in ("softgpu       ", "framebuffer   ", "ram           ", "  vram=SIZE", "  standby=SIZE|all", "  file#=PATH",
                      "pci:VENDOR:DEVICE", "none", "vfio:DDDD:BB:DD.F", "vfio-user:SOCKET", "  timeout=MS", "FILE.so"):
            self.assertIn(words, done.stdout)
        done = self.run_tool("devices", "--json")
        listed = json.loads(done.stdout)
        self.assertEqual([device["name"] for device in listed["devices"]], ["softgpu", "framebuffer", "ram", "virtio-gpu", "vfio", "vfio-user"])
        self.assertEqual([spelling["name"] for spelling in listed["spellings"]], ["none", "pci:VENDOR:DEVICE", "vfio:DDDD:BB:DD.F", "vfio-user:SOCKET"])
        options = {option["name"]: option for option in listed["devices"][0]["options"]}
        self.assertEqual(sorted(options), ["hibernate", "refresh", "standby", "vram"])
        self.assertEqual(options["standby"]["value"], "SIZE|all")
        self.assertEqual(self.run_tool("devices", "extra").returncode, 2)

    def refused(self, line, *arguments):
        """That line on stderr, nothing else, exit code 2."""
        before = self.files()
        done = self.run_tool(*arguments)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", f"dxgkit: {line}\n"), arguments)
        self.assertEqual(self.files(), before, arguments)

    COMMANDS = (("run", "--size", "64x64"), ("verify", "softgpu"), ("fuzz", "softgpu", "--seeds", "1..2"), ("sim", "--seeds", "1..2"),
                ("replay", "1"), ("shrink", "1"))

    def test_what_is_no_device(self):
        (self.folder / "text.so").write_text("not a plug-in")
        known = "there are softgpu, framebuffer, ram, virtio-gpu, vfio, vfio-user, none, pci:VENDOR:DEVICE, vfio:DDDD:BB:DD.F, vfio-user:SOCKET, and plug-ins (FILE.so)"
        driver = os.path.join(MUTANTS, "softgpu.so")
        rows = (("toaster", f"'toaster': there is no device of that name; {known}"),
                ("softgpu,sleep=1M", "'softgpu,sleep=1M': softgpu has no option 'sleep'; it has vram, standby, hibernate, refresh"),
                ("softgpu,vram=x", "'softgpu,vram=x': vram: 'x' is not a number of bytes (like 67108864, 64M or 1GiB)"),
                ("ram,bar0=4K,file0=nowhere", "'ram,bar0=4K,file0=nowhere': file0: nowhere cannot be read"),
                ("missing.so", "missing.so: there is no such device plug-in"),
                ("text.so", "text.so: not a device plug-in: ./text.so: file too short"),
                (driver, f"{driver}: not a device plug-in: it exports no dxgkit_device"),
                (plugin("hostile_version"),
                 f"{plugin('hostile_version')}: not a device plug-in: it speaks version 7 of the interface, this tool version 1"),
                (plugin("copier") + ",delay=x",
                 f"'{plugin('copier')},delay=x': delay: a number of nanoseconds up to 1000000000"))
        for command in self.COMMANDS:
            for device, line in rows:
                if device == driver:
                    # What the loader says of it is the system's.
                    done = self.run_tool(*command, "--device", device)
                    self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1))
                    self.assertIn("not a device plug-in", done.stderr)
                    continue
                self.refused(line, *command, "--device", device)

    def test_what_simulations_cannot_have(self):
        real = plugin("hostile_real_time")
        line = f"--device {real}: it lives in real time only and cannot be simulated"
        self.refused(line, "run", "--mode", "sim", "--device", real)
        self.refused(line, "run", "--seeds", "1..2", "--device", real)
        self.refused(line, "verify", "softgpu", "--mode", "sim", "--device", real)
        self.refused(line, "verify", "softgpu", "--mutate", "--device", real)
        self.refused(line, "fuzz", "softgpu", "--device", real)
        # Worlds of sim are made around softgpu.
        for command in self.COMMANDS[3:]:
            for device in ("framebuffer", "none", "softgpu,vram=4M", plugin("copier")):
                self.refused(f"--device {device}: the worlds of sim can have only softgpu so far, with what the seed draws",
                             *command, "--device", device)
        done = self.run_tool("sim", "--seeds", "1..2", "--device", "softgpu", "--quiet")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_one_device_where_one_is_meant(self):
        two = ("--device", "softgpu", "--device", "softgpu")
        self.refused("--scanout: only with one device", "run", *two, "--scanout", "s.png")
        self.refused("--power-plan: only for one softgpu device, whose job can be checked", "run", *two, "--power-plan", "at 5 d3")
        self.refused("--hang: only for one softgpu device, whose job can be checked", "run", *two, "--hang", "3d:3")
        self.refused("--scanout: the device has no screen with refresh=0", "run", "--device", "softgpu,refresh=0", "--scanout", "s.png")
        for command in (("verify", "softgpu"), ("fuzz", "softgpu")):
            done = self.run_tool(*command, *two)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), command)


class Plugins(Cli):
    def test_a_driver_runs_on_one(self):
        """A display-only driver draws on a screen that a plug-in has."""
        driver = os.path.join(MUTANTS, "framebuffer.so")
        for mode in ("os", "sim"):
            done = self.run_tool("run", "--size", "64x64", "--driver", driver, "--device", plugin("display"), "--mode", mode)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("source 0 shows 640x480", done.stdout)
            self.assertIn("the screen is identical", done.stdout)
        done = self.run_tool("verify", driver, "--device", plugin("display"), "--mode", "sim")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = self.run_tool("fuzz", driver, "--device", plugin("display"), "--seeds", "1..4")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_its_own_memory_has_content(self):
        (self.folder / "bar.bin").write_bytes(b"\1\2\3")
        done = self.run_tool("verify", "softgpu", "--device", "ram,vendor=5347,device=1,bar0=64K,file0=bar.bin", "--step", "start")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("did not start", done.stdout)

    def test_one_that_cannot_be_made(self):
        done = self.run_tool("run", "--size", "64x64", "--device", plugin("hostile_open"))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, f"dxgkit: {plugin('hostile_open')}: open: it opens for nobody\n")

    def test_a_crash_is_the_plugins(self):
        """It is named, the driver is not, and there is no verdict on the driver."""
        commands = (("run", "--size", "64x64"), ("run", "--size", "64x64", "--mode", "sim"), ("verify", "softgpu"),
                    ("verify", "softgpu", "--mode", "sim"), ("verify", "softgpu", "--in-process"), ("verify", "softgpu", "--mutate"),
                    ("fuzz", "softgpu", "--seeds", "1..2"))
        for name, where in (("hostile_crash", "read (SIGSEGV)"), ("hostile_crash_far", "read (SIGSEGV)"),
                            ("hostile_abort", "read (SIGABRT)"), ("hostile_crash_open", "open (SIGSEGV)")):
            for command in commands:
                done = self.run_tool(*command, "--device", plugin(name))
                line = (f"dxgkit: {plugin(name)}: the device plug-in crashed in {where}; the driver is not to blame, "
                        "and nothing can be said of it")
                self.assertEqual(done.returncode, 2, (name, command, done.stdout + done.stderr))
                self.assertIn(line, done.stderr.splitlines(), (name, command))
                for word in ("NT-01", "bug-check", "violation"):
                    self.assertNotIn(word, done.stdout + done.stderr, (name, command))

    def test_a_crash_of_the_driver_stays_the_drivers(self):
        """The same plug-in handlers are there, and the mutant's crash is a finding all the same."""
        fault = self.choose_fault("start_error_ignored")
        done = self.run_tool("verify", os.path.join(MUTANTS, "mutant.so"), *fault, "--device", plugin("display"), "--mode", "sim")
        self.assertIn(done.returncode, (1, 3), done.stdout + done.stderr)
        self.assertNotIn("plug-in crashed", done.stdout + done.stderr)


class SeveralDevices(Cli):
    TWO = ("--device", "softgpu", "--device", "softgpu,standby=all")

    def test_two_adapters_run_the_job_at_once(self):
        for model in ("patch", "gpuva"):
            for mode in (("--mode", "os"), ("--mode", "sim", "--seed", "3")):
                done = self.run_tool("run", "--size", "384x256", "--model", model, *mode, *self.TWO, "--output", "out.png", "--json")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                summary = json.loads(done.stdout)
                self.assertEqual(summary["result"], "identical to CPU reference on all 2 adapters")
                self.assertEqual([one["device"] for one in summary["adapters"]], ["softgpu", "softgpu,standby=all"])
                for one in summary["adapters"]:
                    self.assertEqual(one["result"], "identical to CPU reference")
                    self.assertEqual(one["packets_completed"], one["packets"])
                    self.assertGreater(one["evictions"], 0)
                    self.assertGreater(one["interrupts"], 0)
                self.assertEqual(summary["findings"], [])
                self.assertIn("out.png", self.files())

    def test_both_adapters_work_at_once(self):
        """Both results equal the reference, and clients of one submit between submissions of the other, again and again."""
        done = self.run_tool("run", "--size", "384x256", "--mode", "sim", *self.TWO, "--trace", "t.txt")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("result: identical to CPU reference on all 2 adapters", done.stdout.splitlines())
        self.assertRegex(done.stdout, r"(?m)^ +1: softgpu +\d+ packets, \d+ evictions, .*; identical to CPU reference$")
        text = (self.folder / "t.txt").read_text()
        adapter_of = dict(re.findall(r'object_name id=(\d+) name="adapter (\d) client \d+" class=2', text))
        self.assertEqual(sorted(adapter_of.values()), ["1", "1", "2", "2"])
        turns = [adapter_of[process] for process in re.findall(r'thunk_enter name="D3DKMTRender" process=(\d+)', text)]
        changes = sum(one != other for one, other in zip(turns, turns[1:]))
        self.assertGreater(min(turns.count("1"), turns.count("2")), 20)
        self.assertGreater(changes, 20)

    def test_one_seed_is_one_run(self):
        for name in ("a.txt", "b.txt"):
            done = self.run_tool("run", "--size", "256x256", "--mode", "sim", "--seed", "9", *self.TWO, "--trace", name)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual((self.folder / "a.txt").read_bytes(), (self.folder / "b.txt").read_bytes())
        done = self.run_tool("run", "--seeds", "1..6", *self.TWO)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"^seeds 1\.\.6: 6 passed, 0 failed")

    def test_an_adapter_that_does_not_start(self):
        done = self.run_tool("run", "--size", "64x64", "--device", "softgpu", "--device", "none")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"(?m)^dxgkit: adapter 2 \(none\) did not start: STATUS_\w+$")

    def test_two_displays(self):
        """Firmware lights one of them; both have the driver."""
        driver = os.path.join(MUTANTS, "framebuffer.so")
        done = self.run_tool("run", "--size", "64x64", "--driver", driver, "--device", "framebuffer", "--device", plugin("display"))
        self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        self.assertIsNone(re.search("crash|abort", done.stderr), done.stderr)


if __name__ == "__main__":
    unittest.main()
