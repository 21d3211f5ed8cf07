#!/usr/bin/env python3
"""Uses the built tool as a person would: dxgkit.toml beside a driver, and init. Arguments: support.py."""
import json
import os
import re
import shutil
import tomllib
import unittest

from support import MUTANT, TOOL, Cli


class Settings(Cli):
    CLIENTS = os.path.join(os.path.dirname(TOOL), "clients")

    def setUp(self):
        super().setUp()
        (self.folder / "driver").mkdir()
        shutil.copy(MUTANT, self.folder / "driver/own.so")
        shutil.copy(os.path.join(self.CLIENTS, "softgpu_client.so"), self.folder / "driver/client.so")

    def settings(self, text):
        (self.folder / "driver/dxgkit.toml").write_text(text)

    def verify(self, *arguments):
        return self.run_tool("verify", "driver/own.so", *arguments)

    def test_every_command_that_takes_a_driver_reads_it(self):
        self.settings('mode = "sim"\nclient = "client.so"\nspecial_pool = true\n[registry.service]\nMutant = "devices_leak"\n'
                      '[waive]\nPAGE-05 = "no fills"\n[verify]\nstep = ["processes", "render"]\n[fuzz]\nseeds = "1..2"\nsteps = 20\n')
        done = self.verify()
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(done.stderr.splitlines()[0],
                         "dxgkit: driver/dxgkit.toml: --mode=sim --client=driver/client.so --special-pool '--waive=PAGE-05=no fills' "
                         "--step=processes --step=render --registry (its table)")
        self.assertIn("LIFE-20: violation", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^render +ok ")
        self.assertIn("waiver PAGE-05: unused (no fills)", done.stdout)
        report = json.loads(self.verify("--json").stdout)
        self.assertIn("--mode sim", report["command"])
        self.assertNotIn("/proc/", report["command"])
        done = self.run_tool("doctor", "driver/own.so")
        self.assertEqual((done.returncode, done.stderr), (0, "dxgkit: driver/dxgkit.toml: --registry (its table)\n"), done.stdout)
        done = self.run_tool("fuzz", "driver/own.so", "--tries", "0", "--out", "found")
        self.assertIn("--seeds=1..2", done.stderr)
        self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        done = self.run_tool("check", "driver/own.so", "--step", "processes")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("LIFE-20 in ", done.stdout)
        self.assertNotIn("--step", done.stderr)  # the table of another command

    def test_the_command_line_stands_above_it(self):
        self.settings('mode = "os"\n[registry.service]\nMutant = "devices_leak"\n[waive]\nLIFE-20 = "of the file"\n[verify]\nstep = "render"\n')
        (self.folder / "plain.toml").write_text("")
        done = self.verify("--mode", "sim", "--step", "processes", "--registry", "plain.toml", "--waive", "LIFE-20=of the line")
        self.assertEqual((done.returncode, done.stderr), (0, "dxgkit: driver/dxgkit.toml: nothing for this command\n"), done.stdout)
        self.assertIn("waiver LIFE-20: unused (of the line)", done.stdout)
        self.assertNotRegex(done.stdout, r"(?m)^render ")
        # An option that excludes one of the file's puts that aside, too.
        self.settings('seed = 7\n')
        done = self.run_tool("run", "--driver", "driver/own.so", "--seeds", "1..1")
        self.assertEqual((done.returncode, done.stderr.splitlines()[0]), (0, "dxgkit: driver/dxgkit.toml: nothing for this command"), done.stderr)

    def test_another_file_or_none(self):
        self.settings('[registry.service]\nMutant = "devices_leak"\n')
        (self.folder / "other.toml").write_text('[verify]\nstep = "queries"\n')
        sim = ("--mode", "sim", "--step", "processes")
        self.assertEqual(self.verify(*sim).returncode, 1)
        done = self.verify(*sim, "--config", "none")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        done = self.verify("--mode=sim", "--config=other.toml")
        self.assertEqual((done.returncode, done.stderr), (0, "dxgkit: other.toml: --step=queries\n"), done.stdout)
        done = self.verify("--config", "missing.toml")
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)

    def test_a_mistake_is_one_line_with_its_line(self):
        for text, said in (
                ('\nmdoe = "sim"\n', "line 2: there is no key 'mdoe'; did you mean mode?"),
                ('mode = "fast"\n', "line 1: "),
                ('memory = "much"\n', "line 1: "),
                ('\n\ndevice = "sftgpu"\n', "line 3: "),
                ('device = ["softgpu", "softgpu"]\n', "line 1: verify takes one --device"),
                ('[waive]\nPAGE-99999 = "no"\n', "line 2: "),
                ('client = 7\n', "line 1: client: the path of a file"),
                ('[verify]\nddi_timeout = "soon"\n', "line 2: "),
                ('[verify]\ntrace = "/tmp/x"\n', "line 2: verify.trace: only the command line says that"),
                ('[registry.service]\nA = 1.5\n', "line 2, "),
                ("[" * 100, "line 1: brackets nest deeper than 32."),
                ("\0", "line 1: a control character")):
            self.settings(text)
            done = self.verify("--mode", "sim") if not text.startswith("mode") else self.verify()
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), text + done.stderr)
            self.assertTrue(done.stderr.startswith("dxgkit: driver/dxgkit.toml: " + said), done.stderr)
        os.remove(self.folder / "driver/dxgkit.toml")
        (self.folder / "driver/dxgkit.toml").mkdir()
        self.assertEqual(self.verify("--mode", "sim").returncode, 2)

    def test_init(self):
        done = self.run_tool("init", "driver/own.so")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^driver/own.so: x64, render-only WDDM1_3, .*\ndriver/dxgkit.toml is written\n$")
        written = (self.folder / "driver/dxgkit.toml").read_text()
        self.assertEqual(tomllib.loads(written), {"registry": {"service": {}}, "waive": {}, "check": {}})
        done = self.verify("--mode", "sim", "--step", "devices")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        # With its comments taken away it is a right file, too.
        lines = [line.removeprefix("# ") if re.match(r"# [\w-]+ = ", line) else line for line in written.splitlines()]
        values = tomllib.loads("\n".join(lines))
        self.assertEqual(values["check"], {"baseline": "known.json"})
        self.assertEqual(values["device"], "softgpu")
        self.settings("\n".join(line for line in lines if not line.startswith(("client", "baseline"))) + "\n")
        self.assertEqual(self.verify("--step", "devices").returncode, 0)

        before = (self.folder / "driver/dxgkit.toml").read_text()
        done = self.run_tool("init", "driver/own.so")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", "dxgkit: driver/dxgkit.toml: it exists already\n"))
        self.assertEqual((self.folder / "driver/dxgkit.toml").read_text(), before)
        os.remove(self.folder / "driver/dxgkit.toml")
        os.symlink("/nowhere/at/all", self.folder / "driver/dxgkit.toml")
        self.assertEqual(self.run_tool("init", "driver/own.so").returncode, 2)
        for driver, said in (("softgpu", "softgpu comes with dxgkit"), ("good.png", "not a driver"), ("missing.sys", "there is no such driver file")):
            done = self.run_tool("init", driver)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
            self.assertIn(said, done.stderr)
        self.assertEqual(self.files(), ["driver", "good.png"])

    def test_init_chooses_the_device_of_the_hardware_ids(self):
        (self.folder / "driver/own.inf").write_text("[own]\n%x%=own,PCI\\VEN_1AF4&DEV_1050\nServiceBinary=own.sys\n")
        done = self.run_tool("init", "driver/own.so")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(tomllib.loads((self.folder / "driver/dxgkit.toml").read_text())["device"], "virtio-gpu")


if __name__ == "__main__":
    unittest.main()
