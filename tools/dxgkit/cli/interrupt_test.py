#!/usr/bin/env python3
"""Ctrl-C at moments that a seed draws: each long command ends soon, says how far it got, and leaves whole reports and no process behind.

More by hand: interrupt_test.py DXGKIT_EXECUTABLE FOLDER_OF_MUTANTS RESULTS --moments 20 [--seed N]
"""
import argparse
import glob
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

from support import MUTANT, TOOL, Cli

ARGUMENTS = argparse.ArgumentParser()
ARGUMENTS.add_argument("--moments", type=int, default=1, help="of each command")
ARGUMENTS.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32), help="of all moments")
OPTIONS, REST = ARGUMENTS.parse_known_args()
INTERRUPTED = 130
LATEST_S = 1.5  # a moment: seconds after the command begins to listen
PATIENCE_S = 60  # for the end of a command on a busy machine
CLIENT = os.path.join(os.path.dirname(TOOL), "clients/softgpu_client.so")
FILES = ("--json=out.json", "--sarif=out.sarif", "--junit=out.xml")

# None of them ends by itself before LATEST_S. Then the reports that it has.
COMMANDS = {
    "verify": (("verify", "softgpu", "--client", CLIENT, *FILES), FILES),
    "verify simulated": (("verify", "softgpu", "--client", CLIENT, "--mode", "sim", *FILES), FILES),
    "verify --seeds": (("verify", "softgpu", "--seeds", "1..5000", *FILES), FILES),
    "verify --mutate": (("verify", "softgpu", "--client", CLIENT, "--mutate", *FILES), FILES),
    "verify --blind-spots": (("verify", "softgpu", "--blind-spots", "--json=out.json", "--junit=out.xml"), (FILES[0], FILES[2])),
    "fuzz": (("fuzz", MUTANT, "--registry", "mutant.json", "--seeds", "1..90000", "--out", "found", *FILES), FILES),
    "sim": (("sim", "--seeds", "1..900000", "--db", "out.db", "--json=out.json"), FILES[:1]),
    "run": (("run", "--size", "8192x8192", "--report", "out.html", "--trace", "out.pftrace", "--json=out.json"), FILES[:1]),
    "run --mode sim": (("run", "--size", "8192x8192", "--mode", "sim", "--json=out.json"), FILES[:1]),
    "run --seeds": (("run", "--seeds", "1..900000", "--json=out.json"), FILES[:1]),
}


def listens(process):
    """It has begun to catch SIGINT."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return int(caught.split()[1], 16) >> (signal.SIGINT - 1) & 1 == 1


def left_of_session(session):
    """Processes of a session, by number, that have not ended."""
    left = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            fields = pathlib.Path(path).read_text().rsplit(")", 1)[1].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            left.append(path)
    return left


class Interrupt(Cli):
    def test_interrupts(self):
        print(f"seed of the moments: {OPTIONS.seed}", flush=True)
        draw = random.Random(OPTIONS.seed)
        for _ in range(OPTIONS.moments):
            for name, (command, reports) in COMMANDS.items():
                moment, whole_group = draw.uniform(0, LATEST_S), draw.random() < 0.5
                number = draw.choice((signal.SIGINT, signal.SIGTERM))
                with (self.subTest(command=name, moment=moment, whole_group=whole_group, signal=number),
                      tempfile.TemporaryDirectory() as folder):
                    self.folder = pathlib.Path(folder)
                    self.choose_fault("render_trusts")
                    self.interrupt(command, reports, moment, whole_group, number)

    def interrupt(self, command, reports, moment, whole_group, number):
        with open(self.folder / "stdout", "wb") as out, open(self.folder / "stderr", "wb") as err:
            process = subprocess.Popen([TOOL, *command], cwd=self.folder, stdout=out, stderr=err, start_new_session=True)
        try:
            while not listens(process):
                self.assertIsNone(process.poll(), "it ended before it began")
            with self.assertRaises(subprocess.TimeoutExpired, msg="it was over before the moment"):
                process.wait(timeout=moment)
            (os.killpg if whole_group else os.kill)(process.pid, number)
            process.wait(timeout=PATIENCE_S)
            self.assertEqual(left_of_session(process.pid), [])
        finally:
            for path in left_of_session(process.pid):
                os.kill(int(path.split("/")[2]), signal.SIGKILL)
            process.wait()
        said = (self.folder / "stdout").read_text() + (self.folder / "stderr").read_text()
        self.assertEqual(process.returncode, INTERRUPTED, said)
        self.assertRegex(said, r"(?m)^(result: )?interrupted (after \d+|before)")
        self.assertEqual([name for name in self.files() if name.endswith(".part")], [])
        for report in reports:
            option, name = report.split("=")
            text = (self.folder / name).read_text()
            if option == "--junit":
                cases = xml.etree.ElementTree.fromstring(text).iter("testcase")
                told = [case.find("failure").get("message") for case in cases if case.get("name") == "interrupted"]
                self.assertRegex(told[0], r"interrupted by the user after \d+")
            elif option == "--sarif":
                invocation = json.loads(text)["runs"][0]["invocations"][0]
                self.assertFalse(invocation["executionSuccessful"])
                self.assertRegex(json.dumps(invocation["toolExecutionNotifications"]), r"Interrupted by the user after \d+")
            else:
                whole = json.loads(text)
                told = whole[-1]["interrupted"] if isinstance(whole, list) else whole["interrupted"]
                self.assertRegex(told, r"^(after \d+|before)")
                for problem in whole.get("problems", []) if isinstance(whole, dict) else []:
                    self.assertTrue((self.folder / problem["reproducer"]).exists(), problem)
        for name in ("out.html", "out.pftrace"):
            if name in command:
                self.assertIn(name, self.files())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + REST)
