#!/usr/bin/env python3
"""Uses the built tool as a person would: --waive and --waivers. Arguments: support.py."""
import json
import os
import re
import unittest
import xml.etree.ElementTree

from support import MUTANT, TOOL, Cli


class Waivers(Cli):
    LEAK = "LIFE-20=the cache is kept on purpose"
    CLIENT = os.path.join(os.path.dirname(TOOL), "clients", "softgpu_client.so")

    def verify(self, fault, *arguments):
        return self.run_tool("verify", MUTANT, *self.choose_fault(fault), "--mode", "sim", *arguments)

    def test_a_waived_finding_is_listed_and_does_not_count(self):
        leaks = ("--step", "processes", "--json=out.json", "--sarif=out.sarif", "--junit=out.xml")
        plain = self.verify("devices_leak", *leaks)
        self.assertEqual(plain.returncode, 1, plain.stdout)
        self.assertNotIn("suppressions", (self.folder / "out.sarif").read_text())
        (self.folder / "driver.waivers").write_text("# agreed with the vendor\r\n\n  LIFE-20 = the cache is kept = on purpose \nPAGE-05 = no paging here\n")
        done = self.verify("devices_leak", *leaks, "--waivers", "driver.waivers")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^LIFE-20: violation in \w+, waived\n  waived:   the cache is kept = on purpose$")
        self.assertRegex(done.stdout, r"(?m)^waiver LIFE-20: used \d+ times? \(the cache is kept = on purpose\)\nwaiver PAGE-05: unused \(no paging here\)$")
        self.assertRegex(done.stdout.splitlines()[-1], r"^clean: .* 0 findings, 0 warnings, \d waived$")
        report = json.loads((self.folder / "out.json").read_text())
        found = [finding for step in report["steps"] for finding in step["findings"]]
        self.assertEqual({(finding["rule"], finding["waived"]) for finding in found}, {("LIFE-20", "the cache is kept = on purpose")})
        self.assertEqual([(one["rule"], one["uses"] > 0) for one in report["waivers"]], [("LIFE-20", True), ("PAGE-05", False)])
        sarif = json.loads((self.folder / "out.sarif").read_text())["runs"][0]
        self.assertTrue(sarif["results"])
        for result in sarif["results"]:
            self.assertEqual(result["suppressions"], [{"kind": "external", "status": "accepted", "justification": "the cache is kept = on purpose"}])
        self.assertIn({"level": "note", "message": {"text": "The waiver of PAGE-05 is unused."}}, sarif["invocations"][0]["toolExecutionNotifications"])
        suite = xml.etree.ElementTree.parse(self.folder / "out.xml").getroot()[0]
        self.assertEqual(suite.get("failures"), "0")
        skipped = {case.get("name"): case[0].get("message") for case in suite if case.find("skipped") is not None}
        self.assertRegex(skipped["waiver LIFE-20"], "^used .*on purpose$")
        self.assertEqual(skipped["waiver PAGE-05"], "unused: no paging here")

    def test_other_findings_count_all_the_same(self):
        done = self.verify("devices_leak", "--step", "processes", "--waive", "PAGE-05=no paging here")
        self.assertEqual(done.returncode, 1, done.stdout)

    def test_a_waived_bug_check_excuses_what_ran_only(self):
        work = ("--client", self.CLIENT, "--step", "paging", "--step", "render")
        done = self.verify("patch_fails", *work)
        self.assertEqual(done.returncode, 3, done.stdout)
        done = self.verify("patch_fails", *work, "--waive", "PATCH-31=the emulator cannot patch")
        # The same bug check ends the second machine, too: what is left out is not clean.
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("PATCH-31, which is waived, ended it", done.stdout)
        self.assertIn("the other steps are left out: PATCH-31 would end them, too", done.stdout)
        done = self.verify("patch_fails", *work[:4], "--waive", "PATCH-31=the emulator cannot patch")
        self.assertEqual(done.returncode, 0, done.stdout)  # nothing was left out
        self.assertRegex(done.stdout.splitlines()[-1], r"^clean as far as it ran: .*, 1 waived$")

    def test_seeds_fuzz_run_and_sim(self):
        done = self.run_tool("verify", MUTANT, *self.choose_fault("devices_leak"), "--seeds", "1..2", "--step", "processes", "--waive", self.LEAK)
        self.assertEqual((done.returncode, done.stdout.count("waiver LIFE-20: used")), (0, 1), done.stdout)
        fuzz = ("fuzz", MUTANT, *self.choose_fault("devices_leak"), "--seeds", "1..4", "--steps", "40", "--tries", "0", "--out", "found")
        plain = self.run_tool(*fuzz, "--json=plain.json")
        self.assertEqual(plain.returncode, 1, plain.stdout)
        rules = sorted({problem["finding"]["rule"] for problem in json.loads((self.folder / "plain.json").read_text())["problems"]})
        waivers = [word for rule in rules for word in ("--waive", f"{rule}=known")]
        done = self.run_tool(*fuzz, *waivers, "--json=out.json", "--sarif=out.sarif")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout.splitlines()[-1], r"^clean, \d waived$")
        out = json.loads((self.folder / "out.json").read_text())
        self.assertEqual((out["problems"], out["seeds_not_clean"]), ([], 0))
        self.assertEqual(sorted({problem["finding"]["rule"] for problem in out["waived"]}), rules)
        self.assertIn('"suppressions"', (self.folder / "out.sarif").read_text())
        for command in (("run", "--size", "64x64", "--driver", MUTANT), ("run", "--seeds", "1..2", "--driver", MUTANT)):
            arguments = (*command, *self.choose_fault("devices_leak"))
            self.assertEqual(self.run_tool(*arguments).returncode, 1, command)
            done = self.run_tool(*arguments, "--waive", self.LEAK)
            self.assertEqual((done.returncode, done.stdout.count("waiver LIFE-20: used")), (0, 1), done.stdout + done.stderr)
        done = self.run_tool("sim", "--seeds", "1..2", "--quiet", "--waive", self.LEAK)
        self.assertEqual((done.returncode, done.stdout.count("waiver LIFE-20: unused")), (0, 1), done.stdout + done.stderr)

    def test_bad_waivers_are_refused(self):
        (self.folder / "twice").write_text("LIFE-20 = a\nLIFE-20 = b\n")
        (self.folder / "bytes").write_bytes(bytes(range(256)) * 4)
        (self.folder / "empty-reason").write_text("# c\n\nLIFE-20 =\t\n")
        for arguments, said in ((("--waive", "LIFE-2O=x"), r"there is no rule 'LIFE-2O'; did you mean LIFE-20\?"),
                                (("--waive", "NOTHING=x"), "there is no rule 'NOTHING'; `dxgkit rules` lists them"),
                                (("--waive", "LIFE-20"), "LIFE-20: a waiver takes a reason: LIFE-20=REASON"),
                                (("--waive", "LIFE-20= "), "LIFE-20: a waiver takes a reason"),
                                (("--waive", "LIFE-20=a\nb"), "LIFE-20: its reason has a control character"),
                                (("--waive", "LIFE-20=" + "x" * 501), "LIFE-20: its reason has more than 500 bytes"),
                                (("--waive", "LIFE-20=a", "--waive", "LIFE-20=b"), "LIFE-20 is waived twice"),
                                (("--waivers", "twice", "--waive", "PAGE-05=x"), "twice: line 2: LIFE-20 is waived twice"),
                                (("--waivers", "bytes"), "bytes: line 1: there is no rule"),
                                (("--waivers", "empty-reason"), "empty-reason: line 3: LIFE-20: a waiver takes a reason"),
                                (("--waivers", "missing"), "missing: ")):
            for command in (("verify", "softgpu"), ("fuzz", "softgpu"), ("run",), ("sim",)):
                with self.subTest(command=command[0], arguments=arguments[:2]):
                    done = self.run_tool(*command, *arguments)
                    self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stdout + done.stderr)
                    self.assertTrue(re.search(said, done.stderr), done.stderr)
        done = self.run_tool("verify", "softgpu", "--mutate", "--waive", self.LEAK)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)


if __name__ == "__main__":
    unittest.main()
