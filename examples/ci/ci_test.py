#!/usr/bin/env python3
"""Runs what the templates for continuous integration run: ci_test.py DXGKIT_EXECUTABLE FOLDER_OF_DRIVERS

The driver has a mistake that dxgkit.toml beside it switches on, later another one.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from debian_yaml import yaml  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
TOOL, DRIVERS = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))


class Templates(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        (self.folder / "build").mkdir()
        shutil.copy(os.path.join(DRIVERS, "mutant.so"), self.folder / "build/driver.so")
        self.set_fault("devices_leak")

    def set_fault(self, fault, *more):
        steps = json.dumps(["processes", *more])
        (self.folder / "build/dxgkit.toml").write_text(f'[registry.service]\nMutant = "{fault}"\n[check]\nstep = {steps}\n')

    def run_script(self, script, shell=("bash", "-eo", "pipefail", "-c")):
        environment = dict(os.environ, DRIVER="build/driver.so", BASELINE="dxgkit-baseline.json",
                           PATH=f"{os.path.dirname(TOOL)}:{os.environ['PATH']}")
        return subprocess.run([*shell, script], cwd=self.folder, env=environment, capture_output=True, text=True)

    def walk(self, script, report, shell=("bash", "-eo", "pipefail", "-c")):
        """The first run fails, with its outputs written; what it found is known from then on; a new mistake fails again."""
        first = self.run_script(script, shell)
        self.assertEqual(first.returncode, 1, first.stdout + first.stderr)
        for name in ("dxgkit.html", "dxgkit.json", "dxgkit.sarif"):
            self.assertGreater((self.folder / report / name).stat().st_size, 500, name)
        now = "dxgkit-baseline.json" if report else "dxgkit-now.json"
        shutil.copy(self.folder / report / now, self.folder / "dxgkit-baseline.json")
        second = self.run_script(script, shell)
        self.assertEqual(second.returncode, 0, second.stdout + second.stderr)
        self.assertIn("\nnothing new: ", second.stdout)
        self.set_fault("start_error_ignored", "failing-starts")
        third = self.run_script(script, shell)
        self.assertNotIn(third.returncode, (0, 2, 5), third.stdout + third.stderr)
        self.assertIn("  NEW\n", third.stdout)

    def test_the_script(self):
        self.walk(f"{HERE}/check.sh \"$DRIVER\" --seed 2", "dxgkit-report")
        self.assertEqual(self.run_script(f"{HERE}/check.sh missing.sys").returncode, 2)

    def test_github(self):
        workflow = yaml.safe_load((HERE / "github.yml").read_text())
        job = workflow["jobs"]["check"]
        self.assertEqual(workflow["permissions"]["security-events"], "write")
        steps = {step.get("name", step.get("uses")): step for step in job["steps"]}
        self.assertEqual(steps["Annotate the change"]["with"]["sarif_file"], "dxgkit.sarif")
        for name in ("Annotate the change", "Keep the report"):
            self.assertIn("always()", steps[name]["if"])
        self.assertEqual(subprocess.run(["bash", "-n", "-c", steps["Install dxgkit"]["run"]]).returncode, 0)
        self.walk(steps["Check the driver"]["run"], "")

    def test_gitlab(self):
        job = yaml.safe_load((HERE / "gitlab.yml").read_text())["dxgkit"]
        self.assertEqual(job["artifacts"]["when"], "always")
        self.assertEqual(subprocess.run(["sh", "-n", "-c", "\n".join(job["before_script"])]).returncode, 0)
        # GitLab runs the lines in one shell, which need not be bash.
        self.walk("\n".join(job["script"]), "", ("sh", "-ec"))
        quality = json.loads((self.folder / "dxgkit-quality.json").read_text())
        self.assertTrue(quality)
        for one in quality:
            self.assertIn(one["severity"], ("critical", "minor", "info"))
            self.assertTrue(one["fingerprint"] and one["check_name"] and one["description"])
            self.assertGreaterEqual(one["location"]["lines"]["begin"], 1)
        for name in [*job["artifacts"]["paths"], *job["artifacts"]["reports"].values()]:
            self.assertTrue((self.folder / name).exists(), name)


if __name__ == "__main__":
    unittest.main()
