#!/usr/bin/env python3
"""Uses the built tool as a person would: verify. Arguments: support.py."""
import json
import os
import re
import subprocess
import sys
import unittest

from support import HERE, MUTANT, MUTANTS, Verifying


class Verify(Verifying):
    HANGS = {"hangs", "adapter-hangs", "storms"}
    PLUG_IN_STEPS = {"device-stops", "refused-requests"}  # softgpu has no time of its own that could stop, and asks nothing for an object
    DISPLAY_STEPS = {"modes", "presents", "visibility", "vsyncs", "pointer", "blank", "flips", "updates", "planes", "vidpns", "plain-stop", "bug-check-screen", "text-mode", "other-screens"}
    ADDRESS_STEPS = {"addresses", "own-content", "mappings", "same-addresses", "page-faults", "hostile-submit", "page-tables", "protections"}
    BUFFER_STEPS = {"hostile-render", "prepatched", "cut-commands", "passes", "plain-copies", "unmapped-pages"}  # not with GPU virtual addresses

    def choose_model(self, number):
        (self.folder / "model.json").write_text(json.dumps({"service": {"MemoryModel": number}}))
        return "--registry", "model.json"

    def test_drivers_with_gpu_virtual_addresses_are_clean(self):
        for model, mode in ((1, "sim"), (2, "sim"), (3, "sim"), (2, "os")):
            with self.subTest(model=model, mode=mode):
                report, steps = self.report("--mode", mode, *self.choose_model(model), driver="softgpu_wddm2", code=0)
                for step in report["steps"]:
                    skipped = self.PLUG_IN_STEPS | self.DISPLAY_STEPS | self.BUFFER_STEPS | (self.HANGS if mode == "os" else set())
                    expected = "skipped" if step["name"] in skipped else "ok"
                    self.assertEqual((step["outcome"], step["findings"]), (expected, []), (step["name"], step["text"]))
                self.assertGreater(steps["pressure"]["ddis"]["DxgkDdiBuildPagingBuffer"], 100)
                self.assertGreaterEqual(steps["preempt-busy"]["ddis"]["DxgkDdiPreemptCommand"], 1)
                self.assertEqual(steps["power"]["ddis"]["DxgkDdiSetPowerState"], 4)
                for step in ("power", "reset"):  # tables are made again, and roots are set
                    self.assertGreater(steps[step]["ddis"]["DxgkDdiSetRootPageTable"], 1, step)

    def test_a_new_client_is_written_once(self):
        done = self.run_tool("new-client", "one/my_gpu/")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        written = {path.name: path.read_bytes() for path in (self.folder / "one/my_gpu").iterdir()}
        self.assertEqual(sorted(written), ["CMakeLists.txt", "my_gpu.c"])
        self.assertNotIn(b"skeleton", b"".join(written.values()))
        for folder, said in (("one/my_gpu", "my_gpu.c: it exists already"), ("one/My-GPU", "small letters, digits and _"), ("/", "small letters"),
                             ("good.png/mine", "Not a directory")):
            done = self.run_tool("new-client", folder)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), folder)
            self.assertIn(said, done.stderr)
        self.assertEqual({path.name: path.read_bytes() for path in (self.folder / "one/my_gpu").iterdir()}, written)
        self.assertEqual(sorted(path.name for path in (self.folder / "one").iterdir()), ["my_gpu"])

    def test_gpu_virtual_addresses_without_a_client(self):
        for model in (1, 2, 3):
            with self.subTest(model=model):
                report, steps = self.report("--mode", "sim", *self.choose_model(model), driver="softgpu_wddm2", client=False, code=0)
                for step in ("addresses", "own-content", "hostile-submit", "reset", "power", "restart"):
                    self.assertEqual(steps[step]["outcome"], "ok", (step, steps[step]["text"]))
                called = set().union(*(step["ddis"] for step in report["steps"]))
                needed = {"DxgkDdiCreateProcess", "DxgkDdiDestroyProcess", "DxgkDdiCreateContext", "DxgkDdiBuildPagingBuffer", "DxgkDdiSetRootPageTable",
                          "DxgkDdiSubmitCommandVirtual", "DxgkDdiPreemptCommand", "DxgkDdiResetFromTimeout", "DxgkDdiSetPowerState"}
                self.assertLessEqual(needed | ({"DxgkDdiGetRootPageTableSize"} if model == 1 else set()), called)

    def test_the_example_driver_is_clean(self):
        for driver in ("softgpu", os.path.join(MUTANTS, "softgpu.sys")):
            for mode in ("os", "sim"):
                report, steps = self.report("--mode", mode, driver=driver, code=0)
                for step in report["steps"]:
                    skipped = self.PLUG_IN_STEPS | self.DISPLAY_STEPS | self.ADDRESS_STEPS | (self.HANGS if mode == "os" else set()) | ({"cut-commands"} if driver == "softgpu" else set())
                    expected = "skipped" if step["name"] in skipped else "ok"
                    self.assertEqual((step["outcome"], step["findings"]), (expected, []), (driver, mode, step["name"]))
                self.assertGreater(steps["pressure"]["ddis"]["DxgkDdiBuildPagingBuffer"], 100)
                self.assertGreaterEqual(steps["preempt-busy"]["ddis"]["DxgkDdiPreemptCommand"], 1)
                self.assertEqual(steps["power"]["ddis"]["DxgkDdiSetPowerState"], 4)

    def test_without_a_client_less_is_done_and_said(self):
        done = self.verify(client=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^render +skipped +it takes --client")
        self.assertRegex(done.stdout, r"(?m)^hostile-render +ok ")
        self.assertRegex(done.stdout, r"(?m)^not called here.*DxgkDdiOpenAllocation")

    def test_one_seed_is_one_run(self):
        for name, seed in (("a", "7"), ("b", "7"), ("c", "8")):
            self.assertEqual(self.verify("--mode", "sim", "--seed", seed, "--trace", name).returncode, 0)
        read = lambda name: (self.folder / name).read_bytes()  # noqa: E731
        self.assertEqual(read("a"), read("b"))
        self.assertNotEqual(read("a"), read("c"))

    def test_the_verifiers_switches_change_no_picture(self):
        for arguments in (("--verifier", "all"), ("--verifier", "TakeSplitPoint,NeverPrepatch", "--mode", "sim")):
            done = self.run_tool("run", "--size", "300x200", "--json", *arguments)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            summary = json.loads(done.stdout)
            self.assertEqual(summary["result"], "identical to CPU reference")
            self.assertGreater(summary["verifier"]["TakeSplitPoint"], 0)
            self.assertEqual(len(summary["verifier"]), 10 if "all" in arguments else 2)
        done = self.run_tool("run", "--verifier", "FailVaRotation")
        self.assertEqual(done.returncode, 2)
        self.assertIn("FailDefragPass", done.stderr)

    def test_a_whole_driver_behind_the_mutants(self):
        self.mutant("none", code=0)

    def test_blind_spots_are_told(self):
        driver = os.path.join(MUTANTS, "framebuffer.sys")
        done = self.run_tool("verify", driver, "--device", "framebuffer", "--blind-spots", "--json", "--jobs", "2")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)  # of one mode, not all that enumeration does can be seen
        told = {trial["situation"]: trial for trial in json.loads(done.stdout)}
        for situation, step, rule in (("present-display-only.part", "presents", "DOD-10"), ("present-display-only.moves", "presents", "DOD-10"),
                                      ("vidpn.hidden", "visibility", "DOD-11"), ("query.unknown-type", "odd-queries", "LIFE-30"),
                                      ("start.failed", "failing-starts", "LIFE-09"), ("monitor.descriptor", "start", "CAPS-08"),
                                      ("stop.plain", "unload", "LIFE-20")):
            with self.subTest(situation=situation):
                self.assertEqual((told[situation]["outcome"], told[situation]["rule"]), ("found", rule))
                self.assertIn(f"step {step}: ", told[situation]["text"])
        # What user mode asks of its own driver is known to these two only.
        self.assertEqual({name for name, trial in told.items() if trial["outcome"] == "unnoticed"},
                         {"query.umd-private", "query.during-power", "vidpn.pivot-source", "vidpn.pivot-target", "vidpn.commit-second"})
        self.assertEqual([name for name, trial in told.items() if trial["outcome"] == "failed"], [])
        self.assertEqual(told["power.sleep"]["outcome"], "idle")
        counts = [int(number) for number in re.findall(r"\d+", done.stderr.splitlines()[-1])]
        self.assertEqual(counts[0], len(told))
        self.assertEqual(sum(counts[1:]), counts[0])
        done = self.run_tool("verify", driver, "--device", "framebuffer", "--blind-spots", "--situation", "present-display-only.p")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 4)
        self.assertEqual(self.run_tool("verify", driver, "--situation", "x").returncode, 2)

    def test_commands_that_a_client_unmaps(self):
        driver = MUTANT.replace(".so", ".sys")  # the ELF twin has no handlers
        report, steps = self.report("--mode", "sim", "--step", "cut-commands", driver=driver, code=0)
        self.assertGreater(int(re.match(r"\d+", steps["cut-commands"]["text"]).group()), 20)
        for fault, code, rule in (("commands_unguarded", 3, "NT-01"), ("handler_forgotten", 1, "REND-31")):
            with self.subTest(fault=fault):
                report, steps = self.report(*self.choose_fault(fault), "--mode", "sim", "--step", "cut-commands", driver=driver, code=code)
                self.assertEqual([finding["rule"] for finding in steps["cut-commands"]["findings"]], [rule])

    def test_buffers_with_one_wrong_field(self):
        """What the finding of the step says: which buffers, and what became of them."""
        for fault, text in (("fill_unchecked", "changed memory of another process: FILL: a size into the memory behind"),
                            ("fill_unchecked", "FILL: an offset just too large; FILL: a size just too large"),
                            ("fill_unreserved", "the work went through: FILL: reserved"),
                            ("fill_little", "that is right: FILL at its limits (STATUS_INVALID_USER_BUFFER)")):
            with self.subTest(fault=fault, text=text):
                report, steps = self.report(*self.choose_fault(fault), "--mode", "sim", "--step", "overreach", driver=MUTANT, code=1)
                told = " ".join(finding["actual"] for finding in steps["overreach"]["findings"])
                self.assertIn(text, told)
        report, steps = self.report("--step", "overreach", "--mode", "sim", code=0)
        refused, lost, right, around = map(int, re.findall(r"\d+", steps["overreach"]["text"]))
        self.assertGreater(refused, 300)
        self.assertEqual(lost, 0)
        self.assertGreater(right, 20)
        self.assertEqual(around, 14)  # seven allocations of a job on two nodes

    def test_plugins_of_the_older_interface(self):
        older = os.path.join(self.CLIENTS, "older_client.so")
        for driver in ("softgpu", "softgpu_wddm2"):
            arguments = self.choose_model(1) if driver == "softgpu_wddm2" else ()
            report, steps = self.report("--client", older, "--mode", "sim", *arguments, driver=driver, client=False, code=0)
            self.assertEqual(steps["render"]["outcome"], "ok")
            self.assertEqual((steps["overreach"]["outcome"], steps["overreach"]["text"]),
                             ("skipped", "the client plug-in has no record_overreach"))

    def test_user_mode_that_brings_the_driver_down(self):
        steps, rules = self.mutant("render_trusts", "--step", "hostile-render", code=3)
        self.assertTrue(rules["hostile-render"])
        self.assertEqual(steps["hostile-render"]["outcome"], "failed")

    def test_a_bug_check_does_not_end_the_verification(self):
        steps, rules = self.mutant("reset_fails", code=3)
        self.assertEqual(rules, {"hangs": ["TDR-23"], "adapter-hangs": ["TDR-23"]})
        for step in ("transfers", "worlds", "fences", "stop", "unload"):
            self.assertEqual(steps[step]["outcome"], "ok", steps[step]["text"])

    def test_a_driver_that_does_not_come_back(self):
        for mode in ("os", "sim"):
            steps, rules = self.mutant("render_spins", "--step", "hostile-render", "--ddi-timeout", "1", code=4, mode=mode)
            self.assertIn("NT-20", sum(rules.values(), []))

    def test_preemption_that_does_not_come_up_is_not_reached(self):
        # The results are right where the kernel never asks: that proves nothing of preemption.
        key = "\\Registry\\Machine\\System\\CurrentControlSet\\Control\\GraphicsDrivers\\Scheduler"
        for enabled, outcome in ((1, "ok"), (0, "skipped")):
            (self.folder / "registry.json").write_text(json.dumps({key: {"EnablePreemption": enabled}}))
            report, steps = self.report("--registry", "registry.json", "--mode", "sim", "--step", "preempt-busy", code=0 if enabled else 2)
            step = steps["preempt-busy"]
            self.assertEqual((step["outcome"], step["text"].startswith("not reached: ")), (outcome, not enabled), step)
            self.assertEqual("DxgkDdiPreemptCommand" in step["ddis"], bool(enabled))

    def test_nothing_is_exercised(self):
        # What the step needs is missing. Of two steps one that runs is enough.
        for more, code in (((), 2), (("--step", "preempt-idle"), 0)):
            done = self.verify("--mode", "sim", "--step", "preempt-busy", "--json=out.json", *more, client=False)
            self.assertEqual(done.returncode, code, done.stdout)
            report = json.loads((self.folder / "out.json").read_text())
            self.assertEqual((report["exit_code"], report["verdict"].split(":")[0]), (code, "not exercised" if code else "clean"))
            said = "dxgkit: the driver was not exercised: step preempt-busy was skipped, because it takes --client: only the driver's user mode knows its private data\n"
            self.assertEqual(done.stderr, said if code else "")

    def test_work_that_fails_anyway(self):
        # It is no mistake of a start, a device or a setting, nor of commands that were patched before.
        steps, rules = self.mutant("fills_otherwise", code=1)
        self.assertEqual(set().union(*rules.values()), {"REND-29"})
        for step in ("stale-outputs", "failing-starts", "odd-resources", "other-devices"):
            self.assertEqual((steps[step]["outcome"], steps[step]["findings"]), ("ok", []), steps[step]["text"])
        for step in ("prepatched", "other-settings"):
            self.assertEqual(steps[step]["outcome"], "skipped")
            self.assertIn("see the step render", steps[step]["text"])

    def test_a_lost_device_is_not_blamed_on_patching(self):
        steps, rules = self.mutant("later_pass_unlisted", "--step", "passes", code=1)
        found = next(finding for finding in steps["passes"]["findings"] if finding["rule"] == "REND-29")
        self.assertEqual(found["ddi"], "DxgkDdiSubmitCommand")
        self.assertIn("the device was lost to work that is right", found["actual"])
        self.assertNotIn("DxgkDdiPatch", found["fix"])

    def test_a_timeout_is_told_before_patience_ends(self):
        # With real threads each of the two requests that this driver ignores takes TdrDelay.
        steps, rules = self.mutant("preempt_silent", "--step", "preempt-busy", code=1, mode="os")
        self.assertIn("PREEMPT-06", rules.get("preempt-busy", []))
        self.assertNotIn("NT-20", sum(rules.values(), []))

    def test_a_driver_that_waits_for_ever(self):
        steps, rules = self.mutant("stop_waits", "--step", "restart", code=4)
        self.assertEqual(rules.get("restart"), ["NT-20"], rules)
        self.assertEqual(steps["restart"]["outcome"], "failed")
        actual = steps["restart"]["findings"][0]["actual"]
        self.assertRegex(actual, r"^DxgkDdiStopDevice has not returned: it waits for event 0x[0-9a-f]+ \(mutant\.so\+0x")
        self.proved({"NT-20"})

    def test_a_bad_pointer_is_placed_at_the_call(self):
        steps, rules = self.mutant("registers_lost", "--step", "devices", code=3)
        finding = steps["start"]["findings"][0]
        self.assertIn("DxgkDdiStartDevice called READ_REGISTER_ULONG with argument 1 = 0x40, which touched 0x40 (read)", finding["actual"])
        self.assertIn("mutant.so+0x", finding["actual"])

    def test_a_process_that_ends_is_placed(self):
        """The report has what was found before, too."""
        for fault, found, text in (
                ("leaves_process", [], r"lost its process: it ended itself with exit code 0; the last call of the driver was DxgkDdiCreateAllocation\."),
                ("aborts_process", ["NT-34"], r"ended its process by signal 6 in DxgkDdiCreateAllocation, at mutant\.so\+0x[0-9a-f]+\.")):
            for mode in ("os", "sim"):
                with self.subTest(fault=fault, mode=mode):
                    report, steps = self.report(*self.choose_fault(fault), "--mode", mode, "--step", "allocations", driver=MUTANT, code=3)
                    self.assertEqual([(name, step["outcome"]) for name, step in steps.items()], [("load", "ok"), ("start", "ok"), ("allocations", "failed")])
                    findings = steps["allocations"]["findings"]
                    self.assertEqual([finding["rule"] for finding in findings], [*found, "NT-01"])
                    self.assertRegex(findings[-1]["actual"], f"^Step allocations {text}$")
                    self.assertFalse(report["ended"])
                    self.assertGreater(report["situations"]["reached"], 3)

    def test_runs_with_many_seeds(self):
        """The report is one, whatever runs found what, and in whatever order they ended."""
        steps = ("--step", "devices", "--step", "contexts")
        reports = []
        for jobs in ("1", "3"):
            done = self.verify("--seeds", "5..9", "--jobs", jobs, *steps, "--json=out.json")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("\n5 runs, 0 of them not clean\n", done.stdout)
            reports.append(json.loads((self.folder / "out.json").read_text()))
        self.assertEqual(reports[0], reports[1])
        self.assertEqual([step["name"] for step in reports[0]["steps"]], ["load", "start", "devices", "contexts", "stop", "unload"])
        self.assertEqual(reports[0]["steps"][1]["ddis"]["DxgkDdiStartDevice"], 5)

    def test_runs_that_find_something_or_lose_their_process(self):
        for fault, rule, runs in (("transfers_nothing", "PAGE-50", 3), ("aborts_process", "NT-01", 3)):
            with self.subTest(fault=fault):
                step = "paging" if rule == "PAGE-50" else "allocations"
                done = self.verify(*self.choose_fault(fault), "--seeds", "2..4", "--step", step, "--json=out.json", driver=MUTANT)
                report = json.loads((self.folder / "out.json").read_text())
                self.assertEqual(done.returncode, report["exit_code"])
                self.assertIn(f"seed 2: step {step}: {rule} in ", done.stdout)
                self.assertIn(f"\n3 runs, {runs} of them not clean\n", done.stdout)
                found = {one["name"]: [finding for finding in one["findings"] if finding["rule"] == rule] for one in report["steps"]}
                self.assertTrue(found[step][0]["actual"].endswith(" That was with seed 2."), found)

    def test_thorough_runs_end(self):
        done = self.verify("--thorough", "--step", "devices", "--json=out.json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report = json.loads((self.folder / "out.json").read_text())
        runs = report["steps"][1]["ddis"]["DxgkDdiStartDevice"]
        self.assertEqual(runs, 24)  # eight runs, and sixteen that brought nothing new
        refused = self.verify("--thorough", "--seeds", "1..2")
        self.assertEqual(refused.returncode, 2)

    def test_one_step(self):
        report, steps = self.report("--step", "devices", code=0)
        self.assertEqual(list(steps), ["load", "start", "devices", "stop", "unload"])
        listed = self.run_tool("verify", "--list-steps")
        self.assertEqual(listed.returncode, 0)
        self.assertRegex(listed.stdout, r"(?m)^devices +\w")

    def test_formats(self):
        checker = HERE.parents[1] / "src/verifier/check_formats.py"
        done = self.verify(*self.choose_fault("patch_fails"), "--sarif=out.sarif", "--junit=out.xml", "--json=out.json",
                           driver=os.path.join(MUTANTS, "mutant.sys"))
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("PATCH-31", done.stdout)
        for kind, name in (("sarif", "out.sarif"), ("junit", "out.xml")):
            checked = subprocess.run([sys.executable, str(checker), kind, str(self.folder / name)], capture_output=True, text=True)
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        results = json.loads((self.folder / "out.sarif").read_text())["runs"][0]["results"]
        self.assertIn("PATCH-31", [result["ruleId"] for result in results])
        self.assertEqual(json.loads((self.folder / "out.json").read_text())["exit_code"], 3)

    def test_display_drivers(self):
        for driver in [os.path.join(MUTANTS, "framebuffer" + form) for form in (".so", ".sys")]:
            for mode in ("os", "sim"):
                report, steps = self.report("--device", "framebuffer", "--mode", mode, driver=driver, client=False, code=0)
                for step in ("modes", "presents", "visibility", "blank", "vidpns", "plain-stop", "restart", "bug-check-screen", "stop", "unload"):
                    self.assertEqual(steps[step]["outcome"], "ok", (driver, mode, step, steps[step]["text"]))
                self.assertEqual(steps["devices"]["outcome"], "skipped")
                self.assertGreater(steps["presents"]["ddis"]["DxgkDdiPresentDisplayOnly"], 10)
                self.assertEqual(steps["plain-stop"]["ddis"]["DxgkDdiStopDevice"], 1)
                self.assertGreater(steps["bug-check-screen"]["ddis"]["DxgkDdiSystemDisplayWrite"], 1)
                questions, enumerations, failures = map(int, re.findall(r"(\d+) (?:questions|enumerations|failing)", steps["vidpns"]["text"]))
                self.assertGreater(questions, 10)
                self.assertGreater(enumerations, 40)
                self.assertGreater(failures, 40)

    def test_clients_that_are_wrong(self):
        for fault, text in (("version", "version 3"), ("size", "size_bytes"), ("null", "NULL"), ("function", "record"), ("symbol", "dxgkit_client")):
            name = os.path.join(self.CLIENTS, f"hostile_{fault}_client.so")
            done = self.run_tool("verify", "softgpu", "--client", name)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), fault)
            self.assertIn(name, done.stderr)
            self.assertIn(text, done.stderr)
        for fault in ("open", "plan"):
            report, steps = self.report("--client", os.path.join(self.CLIENTS, f"hostile_{fault}_client.so"), client=False, code=1)
            self.assertEqual([name for name, step in steps.items() if step["outcome"] == "failed"], ["client"])

    def test_devices(self):
        # Nothing of softgpu is there: the driver refuses to start, and its own words are the finding.
        for device in ("none", "pci:1234:5678,bar0=16M,bar2=64K"):
            report, steps = self.report("--device", device, client=False, code=1)
            self.assertEqual(steps["start"]["outcome"], "failed")
            self.assertEqual(steps["devices"]["outcome"], "skipped")

    def test_bad_input(self):
        (self.folder / "text.sys").write_text("not a driver")
        (self.folder / "bad.toml").write_text("= = =")
        (self.folder / "cut.sys").write_bytes(b"MZ" + b"\0" * 30)
        (self.folder / "cut.so").write_bytes(b"\x7fELF\2\1\1" + b"\0" * 30)
        for arguments in (("verify",), ("verify", "missing.sys"), ("verify", "text.sys"), ("verify", "."),
                          ("verify", "cut.sys"), ("verify", "cut.so"), ("verify", "/bin/true"),
                          ("verify", "softgpu", "--device", "toaster"), ("verify", "softgpu", "--device", "pci:zz:1"),
                          ("verify", "softgpu", "--device", "pci:1:2,bar9=4K"), ("verify", "softgpu", "--device", "pci:1:2,bar0=5K"),
                          ("verify", "softgpu", "--device", "pci:1:2,bar0=4K,bar1=4K"),
                          ("verify", "softgpu", "--registry", "missing.toml"), ("verify", "softgpu", "--registry", "bad.toml"),
                          ("verify", "softgpu", "--client", "missing.so"), ("verify", "softgpu", "--client", "text.sys"),
                          ("verify", "softgpu", "--mode", "fast"), ("verify", "softgpu", "--seed", "x"),
                          ("verify", "softgpu", "--step", "dance"), ("verify", "softgpu", "--ddi-timeout", "0"),
                          ("verify", "softgpu", "--json", "--sarif"),
                          ("verify", "softgpu", "--mutate-calls", "2"), ("verify", "softgpu", "--mutate", "--in-process"),
                          ("verify", "softgpu", "--mutate", "--trace", "t.txt"), ("verify", "text.sys", "--mutate"), ("verify", "cut.so", "--mutate")):
            with self.subTest(arguments=arguments):
                before = self.files()
                done = self.run_tool(*arguments)
                self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stdout + done.stderr)
                self.assertTrue(done.stderr.startswith("dxgkit: "), done.stderr)
                self.assertEqual(self.files(), before)

    def test_one_thing_wrong_at_a_time(self):
        """--mutate: each thing a driver asks for fails once, and the driver takes it."""
        for driver in ("softgpu", "softgpu_wddm2"):
            done = self.verify("--mutate", "--junit=junit.xml", "--json=mutations.json", driver=driver, client=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stdout.splitlines()[-1], r"^clean: .*\d+ survived$")
            for text in ("DxgkCbMapMemory, call 1: STATUS_INSUFFICIENT_RESOURCES", "DxgkCbGetDeviceInformation, call 1: STATUS_UNSUCCESSFUL",
                         "call 1: no memory", "the device is only pci:5347:0001", "100 % of the interrupts are lost"):
                self.assertIn(text, done.stdout)
            rows = json.loads((self.folder / "mutations.json").read_text())
            self.assertGreater(len(rows), 15)
            # It is not that nothing fails: without its registers no driver starts.
            refused = [row for row in rows if row["text"].startswith("start: the adapter did not start")]
            self.assertGreater(len(refused), 5)
            self.assertIn(f'tests="{len(rows)}"', (self.folder / "junit.xml").read_text())

    def test_error_paths_that_are_wrong(self):
        """Mutants whose error paths leak and crash; plain verify finds them, too, --mutate says after what."""
        for name, word in (("start_error_leaks", "leaked"), ("start_error_ignored", "crashed")):
            fault = self.choose_fault(name)
            done = self.verify(*fault, "--mutate", driver=MUTANT, client=False)
            self.assertEqual(done.returncode, {"leaked": 1, "crashed": 3}[word], done.stdout + done.stderr)
            self.assertRegex(done.stdout, rf"(?m)^{word} +DxgkCb", name)
            # Two runs of the same say the same, wherever images lie.
            again = self.verify(*fault, "--mutate", "--jobs", "3", driver=MUTANT, client=False)
            self.assertEqual(done.stdout, again.stdout)
            # Each finding with its place and the one thing that was wrong.
            sarif = self.folder / f"{name}.sarif"
            self.verify(*fault, "--mutate", f"--sarif={sarif}", driver=MUTANT, client=False)
            checker = HERE.parents[1] / "src/verifier/check_formats.py"
            checked = subprocess.run([sys.executable, str(checker), "sarif", str(sarif)], capture_output=True, text=True)
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
            results = json.loads(sarif.read_text())["runs"][0]["results"]
            wrong = re.findall(rf"(?m)^{word} +(.+)$", done.stdout)
            for result, what in zip(results, wrong, strict=True):
                self.assertIn(f"It was after: {what}.", result["message"]["text"])
            if word == "crashed":
                place = results[0]["locations"][0]
                self.assertEqual(os.path.basename(place["physicalLocation"]["artifactLocation"]["uri"]), "start_faults.h")
                self.assertEqual(place["logicalLocations"][0]["fullyQualifiedName"], "DxgkDdiStartDevice")


if __name__ == "__main__":
    unittest.main()
