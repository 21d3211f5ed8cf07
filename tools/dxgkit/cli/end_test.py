#!/usr/bin/env python3
"""Drivers that wait for ever, or end their process: every command says where, and keeps what it found before. Arguments: support.py."""
import json
import os
import subprocess
import unittest
import xml.etree.ElementTree

from support import MUTANT, MUTANTS, TOOL, Cli

CLIENT = os.path.join(os.path.dirname(TOOL), "clients/softgpu_client.so")
# What waits for ever; the rule; the routine that does not return; what the finding says.
ENDLESS = {
    "lock_twice": ("NT-16", "KeAcquireSpinLockAtDpcLevel", ("holds this spin lock already", "It was acquired at")),
    "locks_crossed": ("NT-20", "KeAcquireSpinLockAtDpcLevel",
                      # Of two clients one may find the first at the crossing already.
                      ("it waits for spin lock", r'held by thread "(driver thread \d+|client \d+)"',
                       r'Thread "driver thread \d+" \(system thread\) waits in KeAcquireSpinLockAtDpcLevel, called at mutant.so\+0x')),
    "waits_for_nobody": ("NT-20", "KeWaitForSingleObject", ("it waits for event",)),
}


class End(Cli):
    def seeds(self, command):
        return {"verify": ("verify", MUTANT, "--mode", "sim", "--client", CLIENT, "--step", "devices"),
                "verify --seeds": ("verify", MUTANT, "--seeds", "1..2", "--client", CLIENT, "--step", "devices", "--jobs", "1"),
                "fuzz": ("fuzz", MUTANT, "--seeds", "1..2", "--steps", "20", "--tries", "0", "--out", "found", "--jobs", "1"),
                "run": ("run", "--driver", MUTANT, "--mode", "sim", "--size", "64x64"),
                "run --seeds": ("run", "--driver", MUTANT, "--seeds", "1..1", "--size", "64x64")}[command]

    def findings(self, report):
        """Of the JSON of verify, run or fuzz."""
        if "steps" in report:
            return [finding for step in report["steps"] for finding in step["findings"]]
        return report.get("findings") or [problem["finding"] for problem in report.get("problems", [])]

    def test_endless_waits_in_simulation(self):
        for fault, (rule, routine, texts) in ENDLESS.items():
            registry = self.choose_fault(fault)
            for command, code in (("verify", 3 if rule == "NT-16" else 4), ("fuzz", 3), ("run", 1)):
                with self.subTest(fault=fault, command=command):
                    done = self.run_tool(*self.seeds(command), *registry, "--json")
                    self.assertEqual(done.returncode, code, done.stdout + done.stderr)
                    self.assertNotIn("CHECK", done.stderr)
                    report = json.loads(done.stdout)
                    for problem in report.get("problems", []):
                        self.assertFalse(problem["key"].startswith(("kernel", "signal", "hang")), problem)
                    found = next(finding for finding in self.findings(report) if finding["rule"] == rule)
                    self.assertEqual(found["ddi"], routine)
                    for text in (*texts, "DxgkDdiCreateDevice"):
                        self.assertRegex(found["actual"], text)
                    self.assertEqual(found["place"]["image"], "mutant.so" if command != "run" else found["place"]["image"])
                    self.assertTrue(found["place"]["rva"])
                    if rule == "NT-20":
                        self.assertTrue(found["place"]["stack"], found)
            with self.subTest(fault=fault, command="sim"):
                done = self.run_tool("sim", self.mutant_of(fault), "--seeds", "1..2", "--jobs", "1", "--quiet")
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                self.assertNotIn("CHECK", done.stderr)
                self.assertIn(f"{rule}: bug-check in {routine}", done.stdout)

    def test_what_was_found_survives_the_process(self):
        """NT-34 first, then the end of the process by an abort, an exit, a wild jump or a loop of a thread of the driver."""
        for fault, ends in (("aborts_process", "NT-01"), ("thread_wild", "NT-01")):
            registry = self.choose_fault(fault)
            for command in ("verify", "verify --seeds", "fuzz", "run", "run --seeds"):
                with self.subTest(fault=fault, command=command):
                    steps = ("--step", "allocations") if command.startswith("verify") else ()
                    arguments = [one for one in self.seeds(command) if one != "devices"]
                    if steps:
                        arguments.remove("--step")
                    done = self.run_tool(*arguments, *steps, *registry, "--json=out.json", *(
                        () if command.startswith("run") else ("--sarif=out.sarif", "--junit=out.xml")))
                    self.assertIn(done.returncode, (1, 3), done.stdout + done.stderr)
                    said = done.stdout + done.stderr
                    for rule in ("NT-34", ends):
                        if command != "fuzz" or rule == "NT-34":  # it names problems in its own way
                            self.assertIn(rule, said)
                        self.assertIn(rule, (self.folder / "out.json").read_text())
                        if not command.startswith("run"):
                            self.assertIn(rule, [one["ruleId"] for one in json.loads((self.folder / "out.sarif").read_text())["runs"][0]["results"]])
                            xml.etree.ElementTree.parse(self.folder / "out.xml")
                            self.assertIn(rule, (self.folder / "out.xml").read_text())
            if fault == "thread_wild":  # the process of a world goes on
                continue
            with self.subTest(fault=fault, command="sim"):
                done = self.run_tool("sim", self.mutant_of(fault), "--seeds", "1..1", "--jobs", "1", "--quiet", "--json=out.json")
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                for rule in ("NT-34", ends):
                    self.assertIn(rule, done.stdout)
                    self.assertIn(rule, (self.folder / "out.json").read_text())

    def test_threads_that_loop(self):
        """With real threads the process makes no progress any more at the latest when the driver is to be unloaded."""
        done = self.run_tool("verify", MUTANT, "--client", CLIENT, "--step", "allocations", "--ddi-timeout", "4", *self.choose_fault("thread_endless"),
                             "--json=out.json", "--junit=out.xml")
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        rules = [finding["rule"] for finding in self.findings(json.loads((self.folder / "out.json").read_text()))]
        self.assertEqual([rules.count(rule) > 0 for rule in ("NT-34", "NT-20")], [True, True], rules)
        done = self.run_tool("fuzz", MUTANT, "--seeds", "1..1", "--steps", "40", "--timeout", "3", "--tries", "0", "--out", "found",
                             *self.choose_fault("thread_endless"), "--json=out.json")
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        rules = [finding["rule"] for finding in self.findings(json.loads((self.folder / "out.json").read_text()))]
        self.assertEqual([rules.count(rule) > 0 for rule in ("NT-34", "NT-20")], [True, True], rules)


class Steps(Cli):
    def test_calls_are_counted_once_in_simulation(self):
        """Its time stands still from one step to the next."""
        done = self.run_tool("verify", os.path.join(MUTANTS, "framebuffer.so"), "--device", "framebuffer", "--mode", "sim", "--step", "queries",
                             "--step", "presents", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        ddis = {step["name"]: step["ddis"] for step in json.loads(done.stdout)["steps"]}
        self.assertEqual(ddis["start"]["DxgkDdiStartDevice"], 1)
        for step in ("queries", "presents", "stop", "unload"):
            self.assertNotIn("DxgkDdiStartDevice", ddis[step], step)
        self.assertNotIn("DxgkDdiStopDevice", ddis["unload"])


class Terminal(Cli):
    def test_the_running_step_is_shown_on_a_terminal_only(self):
        ours, theirs = os.openpty()
        with subprocess.Popen([TOOL, "verify", "softgpu", "--step", "devices"], cwd=self.folder, stdout=subprocess.PIPE, stderr=theirs,
                              text=True) as tool:
            os.close(theirs)
            shown = b""
            try:
                while more := os.read(ours, 4096):
                    shown += more
            except OSError:  # the other end is closed
                pass
            text = tool.stdout.read()
        os.close(ours)
        lines = shown.decode().split("\r")
        running = [line for line in lines if line.startswith("devices ")]
        self.assertEqual(len(running), 1, lines)
        self.assertRegex(running[0], r"^devices +runs +\w")
        self.assertEqual(set(lines[lines.index(running[0]) + 1]), {" "}, "it is wiped")
        self.assertNotIn(" runs ", text)
        self.assertEqual(self.run_tool("verify", "softgpu", "--step", "devices").stderr, "")


if __name__ == "__main__":
    unittest.main()
