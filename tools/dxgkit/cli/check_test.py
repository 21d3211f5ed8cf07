#!/usr/bin/env python3
"""Uses the built tool as a person would: check, with its baseline and its outputs. Arguments: support.py."""
import json
import os
import unittest
import xml.etree.ElementTree

from support import MUTANT, TOOL, Cli


class Check(Cli):
    CLIENT = os.path.join(os.path.dirname(TOOL), "clients", "softgpu_client.so")

    def check(self, fault, *arguments):
        return self.run_tool("check", MUTANT, *self.choose_fault(fault), "--step", "processes", *arguments)

    def test_a_right_driver(self):
        done = self.run_tool("check", "softgpu", "--step", "devices", "--json=out.json", "--html", "out.html")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^softgpu: x64, render-only WDDM1_3, \d+ entries filled, 0 missing; 0 imports not supported here$")
        self.assertRegex(done.stdout, r"(?m)^works: \d+ steps$")
        self.assertRegex(done.stdout, r"(?m)^  devices +")
        self.assertIn("\nwrong: 0 findings\n", done.stdout)
        self.assertRegex(done.stdout.splitlines()[-1], r"^clean: \d+ steps done$")
        report = json.loads((self.folder / "out.json").read_text())
        self.assertEqual((report["exit_code"], report["wrong"], report["failed_steps"]), (0, [], []))
        self.assertIn("--mode sim", report["command"])
        self.assertEqual(report["diagnosis"]["driver_entry"], "accepted")
        self.assertEqual(report["verify"]["exit_code"], 0)
        page = (self.folder / "out.html").read_text()
        self.assertIn("Nothing was found.", page)
        self.assertNotIn("http", page)

    def test_what_a_plug_in_would_reach(self):
        plain = self.run_tool("check", "softgpu", "--json")
        ways = {one["way"]: one for one in json.loads(plain.stdout)["not_reached"]}
        self.assertIn("render", ways["plug-in"]["steps"])
        self.assertGreater(len(ways["plug-in"]["situations"]), 20)
        self.assertIn("planes", ways["driver"]["steps"] | ways["device"]["steps"])
        with_client = self.run_tool("check", "softgpu", "--step", "render", "--client", self.CLIENT, "--json")
        self.assertEqual(with_client.returncode, 0, with_client.stderr)
        report = json.loads(with_client.stdout)
        self.assertIn("render", [one["step"] for one in report["works"]])
        self.assertNotIn("plug-in", [one["way"] for one in report["not_reached"] if one["steps"]])

    def test_a_baseline_run_fails_on_a_new_finding_only(self):
        done = self.check("devices_leak", "--write-baseline", "known.json")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^    LIFE-20 in \w+")
        self.assertRegex(done.stdout.splitlines()[-1], r"^not clean: \d+ steps done; \d violations?(, \d failed steps?)?")
        known = json.loads((self.folder / "known.json").read_text())
        self.assertIn("LIFE-20", [one.get("rule") for one in known["findings"]])
        outputs = ("--sarif=out.sarif", "--junit=out.xml", "--json=out.json")
        same = self.check("devices_leak", "--baseline", "known.json", *outputs)
        self.assertEqual(same.returncode, 0, same.stdout)
        self.assertRegex(same.stdout.splitlines()[-1], r"^nothing new: ")
        self.assertRegex(same.stdout, r"(?m)^    LIFE-20 in .*  known$")
        results = json.loads((self.folder / "out.sarif").read_text())["runs"][0]["results"]
        leaks = [one for one in results if one["ruleId"] == "LIFE-20"]
        self.assertEqual({one["baselineState"] for one in leaks}, {"unchanged"})
        self.assertTrue(all("dxgkitFinding/v1" in one["partialFingerprints"] for one in results))
        self.assertEqual(xml.etree.ElementTree.parse(self.folder / "out.xml").getroot()[0].get("failures"), "0")
        # In another interleaving it is the same mistake.
        again = self.check("devices_leak", "--baseline", "known.json", "--seed", "99")
        self.assertEqual(again.returncode, 0, again.stdout)

        # A mistake that the file does not know counts, with the code that it has by itself.
        (self.folder / "none.json").write_text('{"format": "dxgkit baseline", "version": 1, "findings": []}')
        new = self.check("devices_leak", "--baseline", "none.json", *outputs)
        self.assertEqual(new.returncode, 1, new.stdout)
        self.assertRegex(new.stdout, r"(?m)^    LIFE-20 in .*  NEW$")
        results = json.loads((self.folder / "out.sarif").read_text())["runs"][0]["results"]
        self.assertIn("new", [one.get("baselineState") for one in results])

        # What was mended is told, and fails nothing.
        mended = self.run_tool("check", MUTANT, "--step", "processes", "--baseline", "known.json")
        self.assertEqual(mended.returncode, 0, mended.stdout)
        self.assertRegex(mended.stdout, r"(?m)^\d findings? of known.json did not come up; write it anew if they are mended$")

    def test_a_stop_stays_a_stop_until_it_is_known(self):
        work = ("--client", self.CLIENT, "--step", "render")
        stop = self.run_tool("check", MUTANT, *self.choose_fault("patch_fails"), *work, "--write-baseline", "known.json", "--sarif")
        self.assertEqual(stop.returncode, 3, stop.stderr)
        self.assertEqual(json.loads(stop.stdout)["runs"][0]["results"][0]["ruleId"], "PATCH-31")
        self.assertIn("Windows would have stopped: ", stop.stderr)
        known = self.run_tool("check", MUTANT, *self.choose_fault("patch_fails"), *work, "--baseline", "known.json")
        self.assertEqual(known.returncode, 0, known.stdout)

    def test_a_crash_is_summed_up(self):
        done = self.run_tool("check", MUTANT, *self.choose_fault("aborts_process"), "--client", self.CLIENT, "--html", "out.html", "--json=out.json")
        report = json.loads((self.folder / "out.json").read_text()) if (self.folder / "out.json").exists() else {}
        self.assertNotIn(done.returncode, (0, 2), done.stdout + done.stderr)
        self.assertTrue(report["wrong"], report)
        self.assertIn("mending", [one["way"] for one in report["not_reached"]])
        self.assertIn("<h2 id=\"wrong\">", (self.folder / "out.html").read_text())

    def test_bad_input_is_one_line(self):
        (self.folder / "no.json").write_text("{}")
        (self.folder / "text.sys").write_text("no driver")
        for arguments, said in (
                (("softgpu", "--baseline", "no.json"), "no.json: it is no baseline: `dxgkit check --write-baseline` writes one"),
                (("softgpu", "--baseline", "missing.json"), "missing.json"),
                (("softgpu", "--step", "rendr"), "'rendr' is not a step; did you mean render?"),
                (("missing.sys",), "missing.sys: there is no such driver file"),
                (("text.sys",), "text.sys: not a driver"),
                ((), "DRIVER is required")):
            done = self.run_tool("check", *arguments)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
            self.assertIn(said, done.stderr)
        for output in ("--html", "--write-baseline"):
            done = self.run_tool("check", "softgpu", output, "missing/out")
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (5, "", 1), done.stderr)
        self.assertEqual(self.files(), ["good.png", "no.json", "text.sys"])


if __name__ == "__main__":
    unittest.main()
