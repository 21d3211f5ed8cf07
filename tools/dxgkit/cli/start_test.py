#!/usr/bin/env python3
"""Uses the built tool as a person would: drivers that do not start, and machines that fit. Arguments: support.py."""
import json
import os
import shutil
import unittest

from support import MUTANTS, Cli

DRIVER = os.path.join(MUTANTS, "never_starts.so")
# The entry that refuses, by the value of the registry (mutants/never_starts.cpp).
ENTRIES = {"DriverEntry": 1, "DxgkDdiAddDevice": 2, "DxgkDdiStartDevice": 3, "DxgkDdiQueryAdapterInfo": 4, "DxgkDdiCreateContext": 5}
NOT_MINE, COUNTS_ALL, WANTS_MUCH, WANTS_FOUR, FOREIGN = 6, 7, 8, 9, 10
MEMORY = "MmAllocateContiguousMemory(1048576 MiB, up to 0xffffffffffffffff) answered NULL: the machine has only"
PRINTED = "it printed: refused: memory 0000000000000000, status"


class Start(Cli):
    def refusing(self, number):
        (self.folder / "refusing.json").write_text(json.dumps({"service": {"Refuses": number}}))
        return "--registry", "refusing.json"

    def assert_story(self, text, entry):
        """The call that got nothing, why, and what the driver printed; in that order."""
        text = text.replace("\n                             ", "\n")
        self.assertRegex(text, rf"{entry} made \d+ calls?")
        self.assertIn(MEMORY, text)
        self.assertIn(PRINTED, text)
        self.assertLess(text.index(f"{entry} made"), text.index(MEMORY))
        self.assertLess(text.index(MEMORY), text.index(PRINTED))
        if entry != "DriverEntry":
            self.assertIn("the device is PCI 5347:0001, class 030200; BAR 0 has", text)
            self.assertIn("; one interrupt line; firmware shows nothing on it", text)

    def test_every_command_tells_the_last_calls(self):
        for entry, number in ENTRIES.items():
            registry = self.refusing(number)
            with self.subTest(entry=entry):
                done = self.run_tool("run", "--size", "64x64", "--driver", DRIVER, *registry)
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                self.assert_story(done.stderr, entry)
                self.assertEqual(done.stderr.count(PRINTED), 1, done.stderr)
                done = self.run_tool("verify", DRIVER, *registry, "--step", "start")
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                self.assert_story(done.stdout, entry)
                done = self.run_tool("fuzz", DRIVER, *registry, "--seeds", "1..1")
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assert_story(done.stderr, entry)

    def test_reports_have_them(self):
        for entry, number in ENTRIES.items():
            registry = self.refusing(number)
            with self.subTest(entry=entry):
                done = self.run_tool("run", "--size", "64x64", "--driver", DRIVER, *registry, "--json")
                self.assertEqual(done.returncode, 1, done.stderr)
                summary = json.loads(done.stdout)
                lines = summary.get("before", []) + [line for finding in summary["findings"] for line in finding.get("before", [])]
                self.assert_story("\n".join(lines), entry)
                self.run_tool("verify", DRIVER, *registry, "--step", "start", "--json=v.json", "--sarif=v.sarif")
                steps = json.loads((self.folder / "v.json").read_text())["steps"]
                lines = [line for step in steps for one in [step, *step["findings"]] for line in one.get("before", [])]
                self.assert_story("\n".join(lines), entry)
                run = json.loads((self.folder / "v.sarif").read_text())["runs"][0]
                notes = run["invocations"][0]["toolExecutionNotifications"]
                self.assert_story("\n".join(one["message"]["text"] for one in run["results"] + notes), entry)

    def test_doctor_tells_what_the_entry_did(self):
        done = self.run_tool("doctor", DRIVER, *self.refusing(1))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assert_story(done.stdout, "DriverEntry")
        self.assertIn('ZwQueryValueKey("Refuses") answered STATUS_SUCCESS', done.stdout)
        done = self.run_tool("doctor", DRIVER, *self.refusing(1), "--json")
        self.assert_story("\n".join(json.loads(done.stdout)["before"]), "DriverEntry")
        # A driver that starts has nothing to explain.
        done = self.run_tool("doctor", DRIVER, "--json")
        self.assertEqual((done.returncode, json.loads(done.stdout)["before"]), (0, []))

    def test_worlds_tell_them(self):
        done = self.run_tool("run", "--driver", DRIVER, "--seeds", "1..1", *self.refusing(3))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout + done.stderr, r"Dxgk\w+ made \d+ calls?")
        self.assertIn("the device is PCI 5347:0001", done.stdout + done.stderr)

    def test_a_device_that_is_not_the_drivers(self):
        """No finding comes of it, and the story is told all the same."""
        registry = self.refusing(NOT_MINE)
        done = self.run_tool("run", "--size", "64x64", "--driver", DRIVER, *registry)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertTrue(done.stderr.startswith("dxgkit: the adapter did not start: STATUS_NOT_SUPPORTED\n"), done.stderr)
        self.assert_story(done.stderr, "DxgkDdiAddDevice")
        done = self.run_tool("verify", DRIVER, *registry)
        self.assert_story(done.stdout, "DxgkDdiAddDevice")

    def test_the_last_twelve_are_kept(self):
        done = self.run_tool("run", "--size", "64x64", "--driver", DRIVER, *self.refusing(COUNTS_ALL))
        self.assertIn("DxgkDdiStartDevice made 61 calls, the last 12 were", done.stderr)
        self.assertNotIn("ExAllocatePoolWithTag(24 bytes", done.stderr)
        self.assertIn("ExAllocatePoolWithTag(26 bytes, tag 'Epty') answered an address", done.stderr)
        self.assert_story(done.stderr, "DxgkDdiStartDevice")

    def named_copy(self, text, name="named.so"):
        """A copy of the driver that names hardware ids."""
        shutil.copy(DRIVER, self.folder / name)
        with (self.folder / name).open("ab") as file:
            file.write(text)
        return name

    def test_the_device_that_would_fit(self):
        framebuffer = "PCI\\VEN_1D4B&DEV_0FB0"
        for text in (framebuffer.encode(), framebuffer.lower().encode("utf-16-le")):
            driver = self.named_copy(b"\0" + text + b"\0\0")
            for command in (("run", "--size", "64x64", "--driver", driver), ("verify", driver), ("fuzz", driver, "--seeds", "1..1")):
                done = self.run_tool(*command, *self.refusing(3), "--device", "softgpu")
                self.assertIn(f"the driver is for {framebuffer}, which 1 other device has: --device framebuffer would fit",
                              done.stdout + done.stderr, command)
                self.assertNotIn("was chosen", done.stderr)
                # Without --device it is chosen, and there is no advice.
                done = self.run_tool(*command, *self.refusing(3))
                self.assertIn("dxgkit: --device framebuffer was chosen by the hardware ids that the driver names\n", done.stderr)
                self.assertIn("the device is PCI 1d4b:0fb0", done.stdout + done.stderr)
                self.assertNotIn("would fit", done.stdout + done.stderr)

    def test_ids_of_an_inf(self):
        self.named_copy(b"")
        (self.folder / "any.inf").write_bytes('\ufeff%Name% = I, PCI\\VEN_1D4B&DEV_0FB0 ; NAMED.SYS'.encode("utf-16-le"))
        (self.folder / "other.inf").write_text("PCI\\VEN_1B36&DEV_D0DD for other.sys")
        done = self.run_tool("verify", "named.so", *self.refusing(3), "--step", "start")
        self.assertIn("--device framebuffer was chosen", done.stderr)

    def test_ids_that_choose_nothing(self):
        """Those of no device, of several, of the default one, and what only looks like one."""
        rows = (b"PCI\\VEN_1AF4&DEV_1052", b"PCI\\VEN_5347&DEV_0001", b"PCI\\VEN_1D4B&DEV_0FB", b"PCI\\VEN_1D4B&DEV_0FBX",
                b"PCI\\VEN_1D4B&DEV_0FB0 PCI\\VEN_1B36&DEV_D0DD", b"P" * 100000, b"PCI\\VEN_\xff\xff\xff\xff&DEV_0FB0")
        for text in rows:
            driver = self.named_copy(text)
            done = self.run_tool("verify", driver, *self.refusing(3), "--step", "start")
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertNotIn("was chosen", done.stderr, text)
            self.assertIn("the device is PCI 5347:0001", done.stdout)
        driver = self.named_copy(b"PCI\\VEN_1AF4&DEV_1052")
        done = self.run_tool("verify", driver, *self.refusing(3), "--step", "start")
        self.assertIn("--device pci:1af4:1052 has that id", done.stdout)
        done = self.run_tool("verify", driver, *self.refusing(3), "--step", "start", "--device", "pci:1AF4:1052")
        self.assertNotIn("the driver is for", done.stdout)

    def test_memory_of_the_machine(self):
        much = self.refusing(WANTS_MUCH)
        done = self.run_tool("fuzz", DRIVER, *much, "--seeds", "1..1", "--steps", "3")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for command in (("verify", DRIVER, "--step", "start"), ("fuzz", DRIVER, "--seeds", "1..1", "--steps", "3")):
            done = self.run_tool(*command, *much, "--memory", "64M")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("MmAllocateContiguousMemory(128 MiB, up to 0xffffffffffffffff) answered NULL: the machine has only 65536 KiB of memory",
                          done.stdout + done.stderr)
            done = self.run_tool(*command, *much, "--memory", "60G")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = self.run_tool("run", "--size", "64x64", "--memory", "60G")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_processors_of_the_machine(self):
        four = self.refusing(WANTS_FOUR)
        for command in (("run", "--size", "64x64", "--driver", DRIVER), ("verify", DRIVER, "--step", "start"),
                        ("fuzz", DRIVER, "--seeds", "1..1", "--steps", "3")):
            done = self.run_tool(*command, *four, "--processors", "4")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            done = self.run_tool(*command, *four)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("KeQueryActiveProcessorCount() answered 0x1", done.stdout + done.stderr)
            self.assertIn("it printed: 1 processors", done.stdout + done.stderr)

    def test_machines_that_are_none(self):
        rows = (("--memory", "1M", "'1M' is no memory that a machine here can have: 16M to 60G"),
                ("--memory", "1T", "'1T' is not a number of bytes (like 67108864, 64M or 1GiB)"),
                ("--memory", "61G", "'61G' is no memory that a machine here can have: 16M to 60G"),
                ("--memory", "-1", "'-1' is not a number of bytes (like 67108864, 64M or 1GiB)"),
                ("--processors", "0", "'0' is no number of processors: 1 to 64"),
                ("--processors", "65", "'65' is no number of processors: 1 to 64"),
                ("--processors", "many", "'many' is no number of processors: 1 to 64"))
        for command in (("run",), ("verify", "softgpu"), ("fuzz", "softgpu"), ("sim",), ("replay", "1"), ("shrink", "1")):
            for option, value, line in rows:
                done = self.run_tool(*command, option, value)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", f"dxgkit: {line}\n"))
        # The options are part of the command that replays a world of sim.
        done = self.run_tool("sim", "--seeds", "1..2", "--memory", "1G", "--processors", "4", "--quiet", "--json")
        self.assertEqual((done.returncode, json.loads(done.stdout)["worlds"]), (0, " --processors 4 --memory 1073741824"))
        done = self.run_tool("run", "--memory", "64M")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"^dxgkit: --memory 67108864: too little; this job needs at least \d+ bytes\n$")

    def test_a_driver_without_work_does_not_pass(self):
        """It starts, no client here knows its commands, and nothing is compared. One that shows a picture passes."""
        one, foreign = ("--device", "softgpu"), self.refusing(FOREIGN)
        for command in ((), ("--seeds", "1..3"), (*one, *one), (*one, *one, "--seeds", "1..3")):
            done = self.run_tool("run", "--size", "64x64", "--driver", DRIVER, *foreign, *command)
            self.assertEqual((done.returncode, done.stdout), (2, ""), (command, done.stdout + done.stderr))
            self.assertIn(f"dxgkit: {DRIVER}: only its user mode knows its commands, so it got no work here; `dxgkit verify", done.stderr)
        driver = os.path.join(MUTANTS, "framebuffer.so")
        for command in ((), ("--seeds", "1..2")):
            done = self.run_tool("run", "--size", "64x64", "--driver", driver, "--device", "framebuffer", *command)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
