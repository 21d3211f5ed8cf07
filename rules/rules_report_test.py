#!/usr/bin/env python3
"""Proves scripts/rules: what counts as covered, what does not, and that an unknown id is an error."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))

CASE = '<testcase name="{name}" status="{status}" result="{result}" classname="S"><properties><property name="rules" value="{ids}"/></properties>{body}</testcase>'
OLD_CASE = '<testcase name="Old" status="run" result="completed" classname="S" rules="{ids}"/>'


def run(*cases, script=ROOT / "scripts/rules"):
    with tempfile.TemporaryDirectory() as folder:
        xml = '<testsuites><testsuite name="S">' + "".join(cases) + "</testsuite></testsuites>"
        (pathlib.Path(folder) / "a.xml").write_text(xml)
        done = subprocess.run([sys.executable, str(script), folder], capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr


def case(name, ids, status="run", result="completed", body=""):
    return CASE.format(name=name, ids=ids, status=status, result=result, body=body)


class RulesReport(unittest.TestCase):
    def test_passed_tests_cover_their_rules(self):
        code, out, _ = run(case("A", "PATCH-01 PATCH-02"), OLD_CASE.format(ids="SUB-03"))
        self.assertEqual(code, 0)
        self.assertIn("\nPATCH 2/33\n", out)
        self.assertRegex(out, r"\nSUB 1/\d+\n")
        self.assertRegex(out, r"total 3/\d{3,}\b")
        self.assertNotIn("PATCH-01", out)
        self.assertIn("PATCH-03", out)

    def test_failed_skipped_and_disabled_tests_cover_nothing(self):
        code, out, _ = run(
            case("Passes", "PATCH-01"),
            case("Fails", "PATCH-01", body='<failure message="no"/>'),
            case("Skips", "PATCH-02", result="skipped"),
            case("Disabled", "PATCH-03", status="notrun", result="suppressed"))
        self.assertEqual(code, 0)
        self.assertIn("\nPATCH 0/33\n", out)

    def test_a_rule_may_say_why_it_is_not_tested_and_then_must_not_be(self):
        with tempfile.TemporaryDirectory() as folder:
            self.without_a_test(pathlib.Path(folder))

    def without_a_test(self, copy):
        for part in ("rules", "scripts"):
            shutil.copytree(ROOT / part, copy / part)
        area = copy / "rules/DISP.json"
        text = area.read_text()
        area.write_text(text.replace('"id": "DISP-20",', '"id": "DISP-20", "untested": "nobody wrote one",', 1))
        code, out, _ = run(case("A", "PATCH-01"), script=copy / "scripts/rules")
        self.assertEqual(code, 0)
        self.assertIn("    DISP-20 is not tested: nobody wrote one", out)
        code, _, err = run(case("A", "DISP-20"), script=copy / "scripts/rules")
        self.assertEqual(code, 1)
        self.assertIn("S.A tests DISP-20", err)

    def test_unknown_id_is_an_error(self):
        code, _, err = run(case("A", "PATCH-" + "99"))
        self.assertEqual(code, 1)
        self.assertIn("S.A names PATCH-" + "99", err)

    def test_no_results_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, str(ROOT / "scripts/rules"), folder], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("run `make test` first", done.stderr)


unittest.main()
