#!/usr/bin/env python3
"""Drivers with one fault each, through `dxgkit verify`: verify_test.py DXGKIT_EXECUTABLE FOLDER_OF_MINIPORTS RESULTS [unittest arguments]

For rules that only content shows: the driver does all that is asked of it, and something else than was asked. RESULTS is a file for `make rules`.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL, MINIPORTS, RESULTS = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
CLIENT = os.path.join(os.path.dirname(TOOL), "clients", "softgpu_client.so")
PROVED = {}  # test: rules


class Verify(unittest.TestCase):
    def verify(self, driver, *arguments, registry=None):
        """Exit code, steps by name, rules by step."""
        with tempfile.TemporaryDirectory() as folder:
            if registry is not None:
                (pathlib.Path(folder) / "registry.json").write_text(json.dumps({"service": registry}))
                arguments += ("--registry", "registry.json")
            done = subprocess.run([TOOL, "verify", os.path.join(MINIPORTS, driver), "--json", *arguments], cwd=folder, capture_output=True, text=True)
        self.assertIn(done.returncode, (0, 1, 3), done.stdout + done.stderr)
        report = json.loads(done.stdout)
        steps = {step["name"]: step for step in report["steps"]}
        found = {name: [finding["rule"] for finding in step["findings"] if finding["severity"] != "warning"] for name, step in steps.items()}
        return done.returncode, steps, {name: rules for name, rules in found.items() if rules}

    @staticmethod
    def violation(step):
        """What the first finding of a step says that is no warning."""
        return next(finding["actual"] for finding in step["findings"] if finding["severity"] != "warning")

    def proves(self, rule):
        PROVED.setdefault(self._testMethodName, set()).add(rule)


class GpuVa(Verify):
    """softgpu with GPU virtual addresses."""

    # fault, model, steps that are run, the one that finds it, its rule
    FAULTS = (
        ("transfer_moves_nothing", 2, ("own-content",), "own-content", "PAGE-50"),
        ("transfer_moves_nothing", 1, ("own-content",), "own-content", "PAGE-50"),
        ("transfer_forgets_last_page", 2, ("paging",), "paging", "PAGE-50"),
        ("fill_writes_half", 2, ("own-content",), "own-content", "PAGE-51"),
        ("fill_writes_half", 1, ("fills",), "fills", "PAGE-51"),
        ("fill_writes_zeros", 1, ("fills",), "fills", "PAGE-51"),
        ("fill_writes_zeros", 2, ("fills",), "fills", "PAGE-51"),
        ("flush_does_nothing", 2, ("mappings",), "mappings", "VA-47"),
        ("update_keeps_old_entries", 2, ("page-faults",), "page-faults", "VA-47"),
        ("update_keeps_old_entries", 3, ("page-faults",), "page-faults", "VA-47"),
        ("update_forgets_read_only", 2, ("protections",), "protections", "VA-47"),
        ("update_forgets_read_only", 1, ("protections",), "protections", "VA-47"),
        ("update_forgets_no_execute", 2, ("protections",), "protections", "VA-47"),
        ("update_takes_zeros_for_memory", 2, ("page-tables",), "page-tables", "VA-47"),
        ("update_takes_zeros_for_memory", 1, ("page-tables",), "page-tables", "VA-47"),
        ("flush_ends_early", 2, ("page-tables",), "page-tables", "VA-47"),
        ("flush_ends_early", 1, ("page-tables",), "page-tables", "VA-47"),
        ("copy_forgets_entries", 2, ("page-tables",), "page-tables", "VA-47"),
        ("copy_has_one_range", 2, ("page-tables",), "page-tables", "VA-47"),
        ("root_of_somebody_else", 2, ("same-addresses",), "same-addresses", "SUB-30"),
        ("root_of_somebody_else", 1, ("same-addresses",), "same-addresses", "SUB-30"),
        ("submit_forgets_null_rendering", 2, ("null-rendering",), "null-rendering", "SUB-22"),
        ("submit_leaves_size_to_engine", 2, ("overreach",), "overreach", "REND-31"),
        ("submit_trusts_users", 2, ("overreach",), "overreach", "REND-31"),
        ("refusal_hides_completion", 1, ("stray-interrupts",), "stray-interrupts", "INT-26"),
    )

    def test_faults_that_only_content_shows(self):
        for fault, model, only, step, rule in self.FAULTS:
            with self.subTest(fault=fault, model=model):
                chosen = [argument for name in only for argument in ("--step", name)]
                code, steps, rules = self.verify("va_mutants.so", "--client", CLIENT, "--mode", "sim", *chosen,
                                                 registry={"Mutant": fault, "MemoryModel": model})
                self.assertEqual((code, set(rules), set(rules[step])), (1, {step}, {rule} | ({"TDR-01"} if rule == "SUB-22" else set())), steps[step]["text"])
                self.assertEqual(steps[step]["outcome"], "failed")
                self.proves(rule)

    # fault, the step that finds it, a part of the finding
    REPORTS = (
        ("fault_elsewhere", "protections", "could fault"),
        ("fault_elsewhere", "page-faults", "could fault"),
        ("fault_without_address", "page-faults", "client softgpu says: the address is missing"),
        ("fault_of_instruction", "page-faults", "general code 1"),
        ("fault_is_of_device", "overreach", "client softgpu says: a code that the driver does not have"),
        ("fault_always_writes", "protections", "commands are only read"),
        ("fault_never_writes", "protections", "client softgpu says: it does not say that it wrote"),
    )

    def test_what_is_said_of_page_faults(self):
        for fault, step, text in self.REPORTS:
            for model in (1, 2):
                with self.subTest(fault=fault, model=model):
                    code, steps, rules = self.verify("va_mutants.so", "--client", CLIENT, "--mode", "sim", "--step", step, registry={"Mutant": fault, "MemoryModel": model})
                    self.assertEqual((code, {name: set(some) for name, some in rules.items()}), (1, {step: {"INT-25"}}))
                    self.assertIn(text, steps[step]["findings"][0]["actual"])
                    self.proves("INT-25")

    # A bug check ends the machine, and the verification goes on with a new one.
    FATAL = (
        ("transfer_advances_past_end", "own-content", "PAGE-05"),
        ("transfer_odd_status", "own-content", "PAGE-07"),
        ("update_is_busy", "addresses", "PAGE-13"),
        ("submit_has_no_room", "hostile-submit", "SUB-28"),
    )

    def test_bug_checks(self):
        for fault, step, rule in self.FATAL:
            with self.subTest(fault=fault):
                code, steps, rules = self.verify("va_mutants.so", "--mode", "sim", "--step", step, registry={"Mutant": fault, "MemoryModel": 2})
                self.assertEqual((code, set(sum(rules.values(), []))), (3, {rule}), steps)
                self.assertIn(step, rules)
                self.proves(rule)

    def test_two_resets_in_a_row(self):
        code, steps, rules = self.verify("va_mutants.so", "--client", CLIENT, "--mode", "sim", "--step", "hangs", registry={"Mutant": "fences_lost_in_two_resets", "MemoryModel": 1})
        self.assertEqual((code, {name: set(some) for name, some in rules.items()}), (1, {"hangs": {"INT-22"}}), steps)
        self.proves("INT-22")

    def test_a_device_that_leaves(self):
        """Its registers hold all ones, a newer fence than those of the upper half."""
        code, steps, rules = self.verify("va_mutants.so", "--client", CLIENT, "--mode", "sim", "--step", "removal", registry={"Mutant": "removal_completes_all", "MemoryModel": 2})
        self.assertEqual((code, {name: set(some) for name, some in rules.items()}), (3, {"removal": {"INT-11"}}), steps)
        self.proves("INT-11")

    def test_a_whole_driver_behind_the_mutants(self):
        for model in (1, 2, 3):
            code, steps, rules = self.verify("va_mutants.so", "--client", CLIENT, "--mode", "sim", *("--step", "own-content", "--step", "mappings", "--step", "page-tables",
                                             "--step", "protections", "--step", "same-addresses", "--step", "null-rendering", "--step", "page-faults", "--step", "overreach"), registry={"MemoryModel": model})
            self.assertEqual((code, rules), (0, {}), steps)
            self.assertEqual({step["outcome"] for step in steps.values()}, {"ok"}, steps)


class Display(Verify):
    def test_a_screen_that_shows_something_else(self):
        for form in (".so", ".sys"):
            for fault in (None, "present_forgets_rectangle"):
                registry = {} if fault is None else {"Mutant": fault}
                code, steps, rules = self.verify("display_mutants" + form, "--device", "framebuffer", "--mode", "sim", "--step", "presents", registry=registry)
                if fault is None:
                    self.assertEqual((code, rules), (0, {}), steps)
                    continue
                self.assertEqual((code, rules), (1, {"presents": ["DOD-10"]}), steps["presents"]["text"])
                self.assertIn("pixels differ", steps["presents"]["findings"][0]["actual"])
                self.proves("DOD-10")


    # fault, the step that finds it, its rule, a part of the finding
    FAULTS = (
        ("present_ignores_pitch", "presents", "DOD-10", "longer rows"),
        ("present_forgets_moves", "presents", "DOD-10", "one move"),
        ("hidden_stays", "visibility", "DOD-11", "once it is invisible"),
        ("hidden_presents", "visibility", "DOD-11", "after a present"),
        ("support_wants_vidpn", "vidpns", "VIDPN-32", "null hDesiredVidPn"),
        ("support_ignores_pins", "vidpns", "VIDPN-32", "no adapter has such a mode"),
        ("support_swallows_failure", "vidpns", "VIDPN-34", "STATUS_NO_MEMORY"),
        ("enumerate_swallows_failure", "vidpns", "VIDPN-19", "is empty"),
        ("enumerate_passes_status", "vidpns", "VIDPN-34", "NO_MORE_ELEMENTS"),
        ("enumerate_error_leaks", "vidpns", "VIDPN-07", "mode set"),
        ("pivot_replaced", "vidpns", "VIDPN-19", "though it is the pivot"),
        ("scaling_pivot_changed", "vidpns", "VIDPN-35", "scaling support"),
        ("support_bits_forgotten", "vidpns", "VIDPN-35", "scaling support"),
        ("enumerate_drifts", "vidpns", "VIDPN-33", "Asked twice"),
        ("enumerate_one_way", "vidpns", "VIDPN-33", "not offered"),
        ("path_takes_all", "vidpns", "VIDPN-20", "scaling 2"),
        ("path_takes_nothing", "vidpns", "DOD-03", "as it is shown now"),
        ("monitor_known_already", "vidpns", "DOD-03", "has the modes already"),
        ("commit_loses_mode", "vidpns", "DOD-10", "whole picture"),
        ("commit_swallows_failure", "vidpns", "VIDPN-34", "the DDI succeeded"),
        ("showing_clears", "visibility", "DOD-11", "was TRUE for a source that was visible"),
        ("support_bits_kept", "vidpns", "VIDPN-33", "Asked twice"),
        ("child_awareness_open", "start", "CAPS-08", "MonitorOrientationAwareness"),
        ("present_ignores_pitch", "other-screens", "DOD-10", "longer rows"),
        ("release_keeps_picture", "plain-stop", "DOD-08", "The picture of before"),
        ("release_names_another", "plain-stop", "DOD-08", "target 0x2"),
        ("release_of_16_bits", "plain-stop", "DOD-08", "format 23"),
        ("capability_not_written", "stale-outputs", "LIFE-29", "VidPnHWCaps"),
        ("present_reads_its_stack", "stale-outputs", "DOD-10", "pixels differ"),
        ("bug_screen_without_size", "bug-check-screen", "DOD-12", "0x0 pixels"),
        ("bug_screen_packed", "bug-check-screen", "DOD-12", "is wrong"),
        ("hibernation_refused", "blank", "PWR-02", "0xc00000bb for D3"),
    )

    def test_faults_that_no_mode_set_shows(self):
        for fault, step, rule, text in self.FAULTS:
            with self.subTest(fault=fault):
                code, steps, rules = self.verify("display_mutants.so", "--device", "framebuffer", "--mode", "sim", "--step", step, registry={"Mutant": fault})
                self.assertEqual((code, set(rules)), (1, {step}), rules)
                self.assertIn(rule, rules[step])
                self.assertIn(text, " ".join(finding["actual"] for finding in steps[step]["findings"]))
                self.proves(rule)

    def test_a_plain_stop_that_keeps_the_screen(self):
        """It is found when the driver is unloaded: the mapping is still there."""
        code, steps, rules = self.verify("display_mutants.so", "--device", "framebuffer", "--mode", "sim", "--step", "plain-stop", registry={"Mutant": "stop_keeps_screen"})
        self.assertEqual((code, rules), (1, {"unload": ["LIFE-20"]}))
        code, steps, rules = self.verify("display_mutants.so", "--device", "framebuffer", "--mode", "sim", "--step", "restart", registry={"Mutant": "stop_keeps_screen"})
        self.assertEqual((code, rules), (0, {}))

    def test_whole_drivers_behind_them(self):
        chosen = [argument for name in ("presents", "visibility", "vidpns", "plain-stop", "bug-check-screen") for argument in ("--step", name)]
        for registry in ({}, {"Mutant": "two_sizes"}):
            for mode in ("sim", "os"):
                code, steps, rules = self.verify("display_mutants.so", "--device", "framebuffer", "--mode", mode, *chosen, registry=registry)
                self.assertEqual((code, rules), (0, {}), steps)
                self.assertEqual({step["outcome"] for step in steps.values()}, {"ok"}, steps)
        # Of two modes of source and target each, one pair in two goes together.
        self.assertRegex(steps["vidpns"]["text"], r"^1 topology, 0 of them not supported")


class Screen(Verify):
    """softgpu with a screen: a full driver."""

    FAULTS = (
        ("vsync_each_fourth", "vsyncs", "DISP-25", "after the one before"),
        ("vsync_lost_now_and_then", "vsyncs", "DISP-25", "120 vertical syncs came in "),
        ("blank_flag_in_line", "vsyncs", "DISP-24", "in the blank"),
        ("beam_stands", "vsyncs", "DISP-24", "always at line 0"),
        ("beam_in_few_lines", "vsyncs", "DISP-24", "a line was drawn in "),
        ("immediate_flip_waits", "flips", "DISP-26", "with the interval 0 pixel (0, 0) is"),
        ("primary_elsewhere", "visibility", "DOD-11", "The primary is filled with one color. On the screen"),
        ("screen_lost_asleep", "blank", "DOD-11", "shows 0x0 pixels of a visible source"),
        ("wake_refused", "power", "PWR-02", "0xc00000bb for D0"),
        ("immediate_flip_forgotten", "flips", "DISP-26", "After flip 2 with the interval 0 pixel (0, 0) is 2060c0, not ff8040"),
    )
    SCREEN = ("screen_mutants.so", "--client", CLIENT, "--device", "softgpu,refresh=60", "--mode", "sim")

    def test_faults_of_a_screen(self):
        for fault, step, rule, text in self.FAULTS:
            with self.subTest(fault=fault):
                code, steps, rules = self.verify(*self.SCREEN, "--step", step, registry={"Mutant": fault, "ScreenSize": 320 | 200 << 16})
                self.assertEqual((code, rules), (1, {step: [rule]}), steps[step]["text"])
                self.assertIn(text, steps[step]["findings"][0]["actual"])
                self.proves(rule)

    def test_vertical_syncs_beside_work(self):
        # Some of the reports are made outside the ISR, which is another mistake (INT-09).
        code, steps, rules = self.verify(*self.SCREEN, "--step", "vsyncs", registry={"Mutant": "vsync_with_each_fence", "ScreenSize": 320 | 200 << 16})
        self.assertEqual((code, rules), (1, {"vsyncs": ["INT-09", "DISP-25"]}))
        self.assertIn("120 vertical syncs came in ", steps["vsyncs"]["findings"][1]["actual"])

    # fault, its rule, a part of the finding
    PLANES = (
        ("plane_is_not_clipped", "DISP-39", "Of several planes"),
        ("plane_begins_at_corner", "DISP-39", "Of several planes"),
        ("plane_covers_all", "DISP-39", "Of several planes"),
        ("planes_always_supported", "DISP-27", "3 planes are called supported"),
        ("planes_never_supported", "DISP-27", "cannot be shown as the only plane"),
        ("plane_beyond_surface", "DISP-27", "of a surface of 320x200 is called supported"),
        ("planes_without_number", "CAPS-17", "SupportMultiPlaneOverlay is set, and MaxOverlayPlanes is 0"),
    )

    def test_faults_of_planes(self):
        for fault, rule, text in self.PLANES:
            with self.subTest(fault=fault):
                code, steps, rules = self.verify(*self.SCREEN, "--step", "planes", registry={"Mutant": fault, "ScreenSize": 320 | 200 << 16, "OverlayPlanes": 2})
                self.assertEqual((code, rules), (1, {"planes": [rule]}), steps["planes"]["text"])
                self.assertIn(text, steps["planes"]["findings"][0]["actual"])
                self.proves(rule)
        for planes in (1, 2):
            code, steps, rules = self.verify(*self.SCREEN, "--step", "planes", registry={"ScreenSize": 320 | 200 << 16, "OverlayPlanes": planes})
            self.assertEqual((code, rules, steps["planes"]["outcome"]), (0, {}, "ok"), steps)
            self.assertRegex(steps["planes"]["text"], rf"^1\d pictures of {planes} planes? seen on the screen; 7 refused$")

    def test_a_whole_driver_behind_them(self):
        code, steps, rules = self.verify(*self.SCREEN, "--step", "vidpns", "--step", "visibility", "--step", "vsyncs", "--step", "flips", "--step", "blank", "--step", "power", registry={"ScreenSize": 320 | 200 << 16})
        self.assertEqual((code, rules), (0, {}), steps)
        self.assertEqual({step["outcome"] for step in steps.values()}, {"ok"}, steps)


class Pointer(Verify):
    """The virtio GPU's miniport: its device mixes the pointer into the screen."""

    # fault, a part of the finding
    FAULTS = (
        ("pointer_ignores_pitch", "After a move to (0, 0) pixel "),
        ("pointer_keeps_first_shape", "After a new shape of the pointer that is shown pixel "),
        ("pointer_stays_inside", "After a move to (-31, -31) pixel "),
        ("pointer_never_hides", "After the pointer was hidden at (0, 0) pixel "),
        ("pointer_stays_while_shown", "After a move to (-31, -31) pixel "),
        ("pointer_without_alpha", "After a move to (0, 0) pixel "),
    )

    def test_faults_of_a_pointer(self):
        arguments = ("pointer_mutants.so", "--device", "virtio-gpu,modes=640x480", "--mode", "sim", "--step", "pointer")
        for fault, text in self.FAULTS:
            with self.subTest(fault=fault):
                code, steps, rules = self.verify(*arguments, registry={"Mutant": fault})
                self.assertEqual((code, rules), (1, {"pointer": ["DISP-40"]}), steps["pointer"]["text"])
                self.assertIn(text, steps["pointer"]["findings"][0]["actual"])
                self.proves("DISP-40")
        code, steps, rules = self.verify(*arguments)
        self.assertEqual((code, rules, steps["pointer"]["text"]), (0, {}, "3 pointers moved, also half outside, and seen on the screen"))


class Descriptor(Verify):
    """The virtio GPU's miniport: it reads the EDID of its monitor from the device."""

    # fault, rules that find it, a part of the finding
    FAULTS = (
        ("descriptor_has_blocks", {"NT-33"}, " of DescriptorBuffer at offset 0, whose size is 1:"),
        ("descriptor_starts_at_block", {"CAPS-16"}, "Asked for 127 bytes at offset 1 of child "),
        ("descriptor_has_no_end", {"CAPS-16"}, "It succeeded for 128 bytes at offset "),
    )
    # The same of what the device knows of its monitor.
    OTHERS = (
        ("descriptor_is_missing", "Of child 1 it gives no descriptor, and the device has one."),
        ("descriptor_of_another", "Of child 1 byte 13 is 0x01, and the device has 0x00."),
    )

    def test_descriptors_that_the_device_does_not_have(self):
        arguments = ("pointer_mutants.so", "--device", "virtio-gpu", "--mode", "sim", "--step", "modes")
        for fault, text in self.OTHERS:
            with self.subTest(fault=fault):
                code, steps, rules = self.verify(*arguments, registry={"Mutant": fault})
                self.assertEqual((code, rules), (1, {"modes": ["CAPS-18"]}))
                self.assertEqual(steps["modes"]["findings"][0]["actual"], text)
                self.proves("CAPS-18")
        self.assertEqual(self.verify(*arguments)[0::2], (0, {}))

    def test_an_interrupt_that_cannot_be_controlled(self):
        arguments = ("pointer_mutants.so", "--device", "virtio-gpu", "--mode", "sim", "--step", "vsyncs")
        code, steps, rules = self.verify(*arguments, registry={"Mutant": "any_interrupt_is_vsync"})
        self.assertEqual((code, set(rules)), (1, {"vsyncs"}))
        self.assertEqual(self.violation(steps["vsyncs"]), "It returned 0x00000000 when interrupt type 1 was to be enabled.")
        self.proves("INT-23")
        self.assertEqual(self.verify(*arguments)[0::2], (0, {}))

    def test_a_beam_without_blank(self):
        arguments = ("pointer_mutants.so", "--device", "virtio-gpu", "--mode", "sim", "--step", "vsyncs")
        code, steps, rules = self.verify(*arguments, registry={"Mutant": "beam_without_blank"})
        self.assertEqual((code, rules), (1, {"vsyncs": ["DISP-24"]}))
        self.assertEqual(self.violation(steps["vsyncs"]), "In 400 looks at one period it never was in the vertical blank.")
        self.proves("DISP-24")

    def test_faults_of_a_descriptor(self):
        arguments = ("pointer_mutants.so", "--device", "virtio-gpu", "--mode", "sim", "--step", "odd-queries")
        for fault, expected, text in self.FAULTS:
            with self.subTest(fault=fault):
                code, steps, rules = self.verify(*arguments, registry={"Mutant": fault})
                self.assertEqual((code, set(rules), set(rules.get("odd-queries", ()))), (1, {"odd-queries"}, expected))
                self.assertTrue(any(text in finding["actual"] for finding in steps["odd-queries"]["findings"]), steps["odd-queries"]["findings"])
                for rule in expected:
                    self.proves(rule)
        code, steps, rules = self.verify(*arguments)
        self.assertEqual((code, rules), (0, {}))
        self.assertIn(", 9 parts of monitor descriptors", steps["odd-queries"]["text"])


class Updates(Verify):
    """The virtio GPU's miniport: its screen shows what commands bring there."""

    SCREEN = ("pointer_mutants.so", "--device", "virtio-gpu,modes=640x480", "--mode", "sim", "--client",
              os.path.join(os.path.dirname(TOOL), "clients", "virtiogpu_client.so"))
    # fault, a part of the finding
    FAULTS = (
        ("update_forgets_x", 'After "TRANSFER_TO_HOST and FLUSH" of '),
        ("update_flushes_left", 'After "TRANSFER_TO_HOST and FLUSH" of 1x1 pixels at (639, 479) pixel (639, 479) is '),
    )

    def test_updates_that_go_wrong(self):
        for fault, text in self.FAULTS:
            with self.subTest(fault=fault):
                code, steps, rules = self.verify(*self.SCREEN, "--step", "updates", registry={"Mutant": fault})
                self.assertEqual((code, rules), (1, {"updates": ["REND-32"]}), steps["updates"]["text"])
                self.assertIn(text, self.violation(steps["updates"]))
                self.proves("REND-32")
        code, steps, rules = self.verify(*self.SCREEN, "--step", "updates")
        self.assertEqual((code, rules, steps["updates"]["text"]), (0, {}, "20 updates, all seen on the screen"))

    def test_a_command_that_the_device_refuses(self):
        code, steps, rules = self.verify(*self.SCREEN, "--step", "visibility", registry={"Mutant": "resource_is_never_made"})
        self.assertEqual(code, 1)
        self.assertEqual({one for found in rules.values() for one in found}, {"LIFE-35"}, rules)
        self.assertEqual(self.violation(steps["visibility"]), "The device says of what it was asked: command 0x102 is refused with INVALID_RESOURCE_ID.")
        self.proves("LIFE-35")
        self.assertEqual(self.verify(*self.SCREEN, "--step", "visibility")[0::2], (0, {}))

    def test_a_wait_in_vain(self):
        code, steps, rules = self.verify(*self.SCREEN, "--step", "visibility", registry={"Mutant": "screen_in_vain"})
        self.assertEqual(code, 1)
        self.assertEqual(rules, {"start": ["NT-41"]})  # told once, where the first source is shown
        self.assertEqual(self.violation(steps["start"]), "It stalled the processor for 60 ms altogether, and the device works.")
        self.proves("NT-41")

    def test_looks_without_a_pause(self):
        code, steps, rules = self.verify(*self.SCREEN, "--step", "visibility", registry={"Mutant": "polls_without_pause"})
        self.assertEqual((code, rules), (1, {"start": ["NT-42"]}))
        self.assertRegex(self.violation(steps["start"]), r"^It called DxgkCbSynchronizeExecution 20\d\d times, one call behind the other, and no time had passed\.$")
        self.proves("NT-42")

    def test_surfaces_of_other_kinds(self):
        code, steps, rules = self.verify(*self.SCREEN, "--step", "odd-queries", registry={"Mutant": "any_surface_is_primary"})
        self.assertEqual((code, rules), (1, {"odd-queries": ["ALLOC-64", "ALLOC-64"]}))
        self.assertEqual(self.violation(steps["odd-queries"]), "It succeeded for a shadow surface of 37 x 11 pixels, and Pitch is 0.")
        self.proves("ALLOC-64")

    def test_faults_of_a_start(self):
        for fault, rule, text in (("enters_twice", "INT-28", "synchronised routine called it while it was synchronized"), ("registers_are_cached", "LIFE-36", "were mapped with CacheType 1.")):
            with self.subTest(fault=fault):
                code, steps, rules = self.verify(*self.SCREEN, "--step", "visibility", registry={"Mutant": fault})
                self.assertEqual((code, set(rules["start"])), (1, {rule}))
                self.assertIn(text, self.violation(steps["start"]))
                self.proves(rule)

    def test_a_fence_that_no_packet_behind_a_sleep_hides(self):
        code, steps, rules = self.verify(*self.SCREEN, "--step", "power", registry={"Mutant": "fence_is_forgotten"})
        self.assertEqual((code, rules), (1, {"power": ["INT-22"]}))
        self.proves("INT-22")
        for step in ("power", "reset"):
            code, steps, rules = self.verify(*self.SCREEN, "--step", step)
            self.assertEqual((code, rules, steps[step]["outcome"]), (0, {}, "ok"), steps[step])

    # fault, the exit code, the step that finds it, its rule, a part of the finding
    SEVERAL = (
        ("text_mode_is_forgotten", 1, "text-mode", "OPT-37", "the screen showed what its source had shown"),
        ("clock_is_lost_asleep", 3, "blank", "TDR-31", ""),
        ("sizes_are_cut", 1, "other-devices", "DISP-41", "and not 800x600, which the device tells of the monitor"),
        ("unreadable_is_left_out", 1, "overreach", "REND-31", "a NOP of 0 bytes; a NOP that is shorter than its header"),
        ("interrupts_are_claimed_early", 1, "shared-line", "INT-08", "It claimed an interrupt before DxgkDdiStartDevice had mapped a register."),
    )

    def test_faults_that_one_step_finds(self):
        for fault, expected, step, rule, text in self.SEVERAL:
            with self.subTest(fault=fault):
                code, steps, rules = self.verify(*self.SCREEN, "--step", step, registry={"Mutant": fault})
                self.assertEqual((code, set(rules)), (expected, {step}), rules)
                self.assertIn(rule, rules[step])
                self.assertIn(text, self.violation(steps[step]))
                self.proves(rule)
                code, steps, rules = self.verify(*self.SCREEN, "--step", step)
                self.assertEqual((code, rules, steps[step]["outcome"]), (0, {}, "ok"), steps[step])


class Results(unittest.TextTestResult):
    """What passed, as GoogleTest says it."""

    def stopTestRun(self):
        super().stopTestRun()
        bad = {test._testMethodName for test, _ in self.failures + self.errors if hasattr(test, "_testMethodName")}
        bad |= {test.test_case._testMethodName for test, _ in self.failures + self.errors if hasattr(test, "test_case")}
        cases = "".join(
            f'<testcase name="{name}" status="run" result="completed" classname="verify_mutants"><properties><property name="rules" '
            f'value="{" ".join(sorted(rules))}"/></properties>{"<failure/>" if name in bad else ""}</testcase>' for name, rules in sorted(PROVED.items()))
        pathlib.Path(RESULTS).write_text(f'<testsuites><testsuite name="verify_mutants">{cases}</testsuite></testsuites>\n')


if __name__ == "__main__":
    unittest.main(testRunner=unittest.TextTestRunner(resultclass=Results))
