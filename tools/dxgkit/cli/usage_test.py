#!/usr/bin/env python3
"""How the tool speaks with somebody at a terminal: help, slips of the fingers, reports, and the same fault in every command."""
import json
import os
import subprocess
import unittest
import xml.etree.ElementTree

from support import MUTANT, MUTANTS, TOOL, Cli

# A command of each kind that takes a driver, before and after it, and whether it has --registry.
WITH_DRIVER = {
    "doctor": (("doctor",), (), True),
    "verify": (("verify",), ("--step", "devices"), True),
    "run": (("run", "--driver"), ("--size", "64x64"), True),
    "fuzz": (("fuzz",), ("--seeds", "1..1", "--steps", "1"), True),
    "sim": (("sim",), ("--seeds", "1..1"), False),
    "replay": (("replay", "1"), (), False),
    "shrink": (("shrink", "1"), (), False),
}


class Usage(Cli):
    def refused(self, *arguments, code=2):
        """The line on stderr, without its beginning."""
        before = self.files()
        done = self.run_tool(*arguments)
        said = (done.returncode, done.stdout, done.stderr.count("\n"), done.stderr[:8])
        self.assertEqual(said, (code, "", 1, "dxgkit: "), f"{arguments}: {done.stdout}{done.stderr}")
        self.assertEqual(self.files(), before, arguments)
        return done.stderr[8:-1]

    def output(self, *arguments, code=0):
        done = self.run_tool(*arguments)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stderr}")
        return done.stdout


class Help(Usage):
    def test_help_is_a_command_too(self):
        listed = self.output("--help")
        for command in ("run", "verify", "doctor", "help"):
            self.assertRegex(listed, rf"(?m)^  {command} ")
        self.assertEqual(self.output("help"), listed)
        self.assertEqual(self.output(code=2), listed)
        for command in ("verify", "run", "sim"):
            self.assertEqual(self.output("help", command), self.output(command, "--help"))
        self.assertIn("there is no command 'verfy'; did you mean verify?", self.refused("help", "verfy"))

    def test_slips_of_the_fingers(self):
        for arguments, meant in ((("verfy", "softgpu"), "verify"), (("dev",), "devices"), (("--hlep",), "--help"),
                                 (("verify", "softgpu", "--devce", "none"), "--device"), (("verify", "--devce=none"), "--device"),
                                 (("doctor", "--jsn"), "--json"), (("sim", "--sedes", "1..2"), "--seeds"),
                                 (("verify", "softgpu", "--device", "framebufer"), "framebuffer"),
                                 (("verify", "softgpu", "--device", "softgpu,vrma=4M"), "vram"),
                                 (("run", "--mode", "smi"), "sim"), (("run", "--model", "gpva"), "gpuva"),
                                 (("run", "--hang", "copi:4"), "copy"), (("run", "--verifier", "NeverPrepach"), "NeverPrepatch"),
                                 (("run", "--power-plan", "at 5 hibrenate"), "hibernate"),
                                 (("verify", "softgpu", "--step", "divices"), "devices"),
                                 (("verify", "softgpu", "--blind-spots", "--situation", "patch.writen"), "patch.written"),
                                 (("sim", "--faults", "late-DCP"), "late DPC"), 
                                 (("rules", "ptach"), "PATCH"), (("evict-bench", "--generate", "frme"), "frame"),
                                 (("support", "DxgkDdiPacth"), "DxgkDdiPatch")):
            with self.subTest(arguments=arguments):
                line = self.refused(*arguments)
                self.assertTrue(line.endswith(f"did you mean {meant}?"), line)
        self.assertNotIn("did you mean", self.refused("aquarium"))
        self.assertIn("dxgkit help verify", self.refused("verify", "--aquarium"))


class Reports(Usage):
    def parsed(self, option, text):
        return xml.etree.ElementTree.fromstring(text) if option == "--junit" else json.loads(text)

    def test_reports_mean_the_same_everywhere(self):
        self.output("run", "--size", "128x128", "--model", "gpuva", "--trace", "t.txt")
        (self.folder / "e.trace").write_text(self.output("evict-bench", "--generate", "frame"))
        quick = {("verify", "softgpu", "--step", "devices"): ("--json", "--sarif", "--junit"),
                 ("verify", "softgpu", "--step", "devices", "--seeds", "1..2"): ("--json", "--sarif", "--junit"),
                 ("fuzz", "softgpu", "--seeds", "1..2", "--steps", "5"): ("--json", "--sarif", "--junit"),
                 ("sim", "--seeds", "1..2", "--operations", "5"): ("--json",), ("run", "--size", "64x64"): ("--json",),
                 ("doctor", "softgpu"): ("--json",), ("support",): ("--json",), ("devices",): ("--json",),
                 ("situations",): ("--json",), ("va", "t.txt"): ("--json",), ("evict-bench", "--trace", "e.trace"): ("--json",)}
        for command, options in quick.items():
            for option in options:
                with self.subTest(command=command, option=option):
                    self.parsed(option, self.output(*command, option))  # nothing else is there
                    text = self.output(*command, f"{option}=out")
                    self.assertNotIn(text[:1], ("{", "<", "["), "the text for people")
                    self.assertEqual(self.parsed(option, (self.folder / "out").read_text()) is None, False)
                    self.refused(*command, f"{option}=no/such/file", code=5)
            if len(options) > 1:
                self.assertIn("only one", self.refused(*command, *options))

    def test_an_option_takes_no_word_behind_it(self):
        self.assertEqual(json.loads(self.output("doctor", "--json", "softgpu"))["kind"], "render-only")
        self.assertIn("out.json", self.refused("doctor", "softgpu", "--json", "out.json"))
        self.assertIn("--json", self.refused("doctor", "softgpu", "--json="))


class Faults(Usage):
    def test_the_same_fault_is_the_same_everywhere(self):
        (self.folder / "text.sys").write_text("not a driver")
        (self.folder / "cut.sys").write_bytes(b"MZ" + b"\0" * 30)
        (self.folder / "cut.so").write_bytes(b"\x7fELF\2\1\1" + b"\0" * 30)
        (self.folder / "bad.toml").write_text("= = =")
        for driver in ("missing.sys", "text.sys", "cut.sys", "cut.so", ".", "/bin/true"):
            lines = set()
            for command, (before, after, _) in WITH_DRIVER.items():
                with self.subTest(driver=driver, command=command):
                    if command == "doctor":  # it says what it knows of the file all the same
                        done = self.run_tool(*before, driver)
                        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stdout + done.stderr)
                        lines.add(done.stderr[8:-1])
                    else:
                        lines.add(self.refused(*before, driver, *after))
            self.assertEqual(len(lines), 1, lines)
        for option, value in (("--device", "toaster"), ("--registry", "missing.toml"), ("--registry", "bad.toml")):
            lines = set()
            for command, (before, after, registry) in WITH_DRIVER.items():
                if (option == "--registry" and not registry) or (option == "--device" and command == "doctor"):
                    continue
                with self.subTest(option=option, value=value, command=command):
                    lines.add(self.refused(*before, "softgpu", *after, option, value))
            self.assertEqual(len(lines), 1, lines)

    def test_worlds_refuse_drivers_of_other_devices(self):
        for command in ("sim", "replay", "shrink"):
            before, after, _ = WITH_DRIVER[command]
            for driver, why in ((os.path.join(MUTANTS, "framebuffer.sys"), "it does not start on softgpu"),
                                (self.mutant_of("start_fails"), "(LIFE-11 in DxgkDdiStartDevice)"),
                                (self.mutant_of("private_refused"), "its user mode is not softgpu's")):
                with self.subTest(command=command, driver=driver):
                    self.assertIn(why, self.refused(*before, driver, *after))

    def test_outputs_that_cannot_be_written(self):
        reports = {"verify": ("softgpu", "--step", "devices"), "doctor": ("softgpu",), "support": (), "fuzz": ("softgpu", "--seeds", "1..1"),
                   "sim": ("--seeds", "1..1", "--operations", "5"), "run": ("--size", "64x64")}
        for command, rest in reports.items():
            with self.subTest(command=command):
                for place in ("/proc/out.json", "no/such/out.json", "."):  # nobody can make a file there: before the work
                    self.assertIn(place, self.refused(command, *rest, f"--json={place}", code=5))
                full = self.run_tool(command, *rest, "--json=/dev/full")
                self.assertEqual((full.returncode, full.stderr.count("/dev/full: No space")), (5, 1), full.stderr)
                self.assertTrue(os.path.exists("/dev/full") and not os.path.isfile("/dev/full"), "it is still the device")
                for to, words in ((">/dev/full", "stdout: "), (">&-", "stdout: it is closed")):
                    line = subprocess.run(["sh", "-c", f'exec "$@" {to}', "sh", TOOL, command, *rest], cwd=self.folder, capture_output=True,
                                          text=True)
                    self.assertEqual((line.returncode, line.stderr.count(words)), (5, 1), line.stderr)
        if os.getuid() != 0:  # root may write there
            (self.folder / "closed").mkdir(mode=0o555)
            self.refused("doctor", "softgpu", "--json=closed/out", code=5)

    def test_output_goes_through_links_and_into_pipes(self):
        (self.folder / "real.json").write_text("old")
        (self.folder / "link.json").symlink_to("real.json")
        self.output("devices", "--json=link.json")
        self.assertTrue((self.folder / "link.json").is_symlink())
        json.loads((self.folder / "real.json").read_text())
        os.mkfifo(self.folder / "pipe")
        with subprocess.Popen([TOOL, "devices", "--json=pipe"], cwd=self.folder, stdout=subprocess.DEVNULL) as tool:
            json.loads((self.folder / "pipe").read_text())
            self.assertEqual(tool.wait(), 0)


class Commands(Usage):
    def test_doctor_ends_with_a_verdict(self):
        text = self.output("doctor", "softgpu")
        self.assertEqual(text.splitlines()[-1], "verdict: it can be started; `dxgkit verify` does so and exercises it")
        self.assertRegex(self.output("doctor", os.path.join(MUTANTS, "framebuffer.sys")), r"(?m)^verdict: ")
        known = {row["name"]: row["note"] for row in json.loads(self.output("support", "--json"))["nt_exports"] if row["support"] == "partial"}
        imports = [row for row in json.loads(self.output("doctor", MUTANT, "--json"))["imports"] if row["support"] == "partial"]
        text = self.output("doctor", MUTANT)
        for row in imports:
            self.assertIn(known[row["name"]], text)

    def test_support_shows_a_part(self):
        def names(*arguments):
            return {table: [row["name"] for row in rows] for table, rows in json.loads(self.output("support", "--json", *arguments)).items()}
        whole = names()
        self.assertEqual(names("--ddi"), {"ddis": whole["ddis"]})
        refused = json.loads(self.output("support", "--json", "--refused"))
        self.assertEqual({row["support"] for rows in refused.values() for row in rows}, {"refused"})
        self.assertEqual(names("--ddi", "dxgkddipatch"), {"ddis": ["DxgkDdiPatch"]})
        for table, rows in names("FENCE").items():
            self.assertEqual(rows, [name for name in whole[table] if "fence" in name.lower()])
        self.assertEqual(self.output("support", "--ddi", "DdiPatch").count("\n"), 3)

    def test_diff_refuses_what_is_no_text(self):
        (self.folder / "a").write_text("one\ntwo\n")
        (self.folder / "b").write_bytes(b"one\n\x00\n")
        self.assertIn("b: not text", self.refused("diff", "a", "b"))
        self.assertIn("good.png: not text", self.refused("diff", "good.png", "a"))
        self.assertEqual(self.output("diff", "a", "a"), "the traces are the same\n")

    def test_run_says_what_it_wrote(self):
        text = self.output("run", "--size", "64x64", "--output", "o.png", "--trace", "t.pftrace", "--report", "r.html")
        for line in ("wrote o.png: the resulting picture", "wrote t.pftrace: open it at https://ui.perfetto.dev",
                     "wrote r.html: open it in a browser"):
            self.assertIn(line, text.splitlines())
        self.assertIn("wrote t.txt: text, for", self.output("run", "--size", "64x64", "--trace", "t.txt"))

    def test_run_without_work_is_no_pass(self):
        line = self.refused("run", "--size", "64x64", "--driver", MUTANT, *self.choose_fault("private_refused"))
        self.assertIn("--client", line)
        self.assertIn("new-client", line)


if __name__ == "__main__":
    unittest.main()
