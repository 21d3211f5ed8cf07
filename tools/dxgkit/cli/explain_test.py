#!/usr/bin/env python3
"""Rules and bug checks on the command line. Arguments: support.py."""
import json
import unittest

from support import Cli


class Explain(Cli):
    def refused(self, line, *arguments):
        """That line on stderr, nothing else, exit code 2."""
        done = self.run_tool("explain", *arguments)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", f"dxgkit: {line}\n"), arguments)

    def told(self, *arguments):
        done = self.run_tool("explain", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        return done.stdout

    def test_a_rule(self):
        text = self.told("patch-13")
        self.assertTrue(text.startswith("PATCH-13: the miniport must keep this rule.\n"), text)
        self.assertIn("0x10E VIDEO_MEMORY_MANAGEMENT_INTERNAL", text)
        rule = json.loads(self.told("Patch-13", "--json"))
        self.assertEqual((rule["kind"], rule["id"], rule["duty"]), ("rule", "PATCH-13", "the miniport must"))
        self.assertIn("patch.part-behind-start", [one["id"] for one in rule["situations"]])
        self.assertTrue(all(one["address"].startswith("https://learn.microsoft.com/") for one in rule["pages"]))

    def test_a_bug_check(self):
        known = self.told("0x119", "0x1")
        for spelling in (("119", "1"), ("0X119", "0X1"), ("00000119", "00000000`00000001"), ("video_scheduler_internal_error", "1")):
            self.assertEqual(self.told(*spelling), known)
        self.assertIn("DRIVER_REPORTED_INVALID_FENCE_ID", known)
        self.assertIn("INT-11", known)
        self.assertNotIn("DRIVER_FAILED_SUBMIT_COMMAND", known)
        self.assertIn("DRIVER_FAILED_SUBMIT_COMMAND", self.told("0x119"))
        self.assertIn("does not publish the value 0x99", self.told("0x119", "0x99"))
        check = json.loads(self.told("0x10e", "0xb", "0xfffff880045c7620", "--json"))
        self.assertEqual((check["kind"], check["code"], check["parameter_1"]["value"]), ("bug check", "0x10E", "0xB"))
        self.assertIn("PAGE-07", check["parameter_1"]["rules"])
        self.assertEqual([one["value"] for one in check["parameters"]], ["0xB", "0xFFFFF880045C7620", None, None])
        self.assertEqual(len(json.loads(self.told("10E", "--json"))["values"]), 68)

    def test_what_is_neither(self):
        self.refused("'pathc-08' is neither a rule nor a bug check; did you mean PATCH-08?", "pathc-08")
        self.refused("'nonsense' is neither a rule nor a bug check; `dxgkit rules` lists the areas of rules", "nonsense")
        self.refused("'irql-99' is not a rule; IRQL has 13 rules: `dxgkit rules IRQL`", "irql-99")
        self.refused("no rule of the rulebook has to do with bug check 0x7777", "0x7777")
        self.refused("'4' is too much: PATCH-08 is a rule, and only bug checks have parameters", "PATCH-08", "4")
        self.refused("'xyz' is not a hexadecimal number of at most 64 bits", "0x119", "xyz")
        self.refused("'10000000000000000' is not a hexadecimal number of at most 64 bits", "0x119", "10000000000000000")
        self.refused("a bug check has 4 parameters, not 5", "0x119", "1", "2", "3", "4", "5")


if __name__ == "__main__":
    unittest.main()
