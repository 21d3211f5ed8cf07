#!/usr/bin/env python3
"""Drivers with one fault each, through `dxgkit verify`: each is found first by the step that is made for it. Arguments: support.py."""
import unittest

from support import Verifying


class Faults(Verifying):
    def test_faults_are_found_where_they_are(self):
        proved = set()
        # fault, exit code, step, rule; the tool goes on after the findings that Windows would survive
        for fault, code, step, rule in (
                ("start_fails", 1, "start", "LIFE-11"),
                ("version_odd", 1, "start", "CAPS-11"),
                ("version_left_out", 1, "start", "CAPS-11"),
                ("preemption_unsaid", 1, "start", "PREEMPT-19"),
                ("engines_copy", 1, "start", "CAPS-12"),
                ("base_odd", 1, "start", "SEG-17"),
                ("cpu_address_nowhere", 1, "cpu-addresses", "SEG-19"),
                ("caps_change", 1, "queries", "LIFE-17"),
                ("handle_of_no_type", 1, "allocations", "ALLOC-33"),
                ("transfers_nothing", 1, "paging", "PAGE-50"),
                ("fills_half", 1, "fills", "PAGE-51"),
                ("fills_zeros", 1, "fills", "PAGE-51"),
                ("moves_nothing", 1, "plain-copies", "PAGE-50"),
                ("allocations_refused", 1, "allocations", "LIFE-25"),
                ("first_row_only", 1, "allocations", "ALLOC-63"),
                ("resource_unasked", 1, "allocations", "ALLOC-62"),
                ("fence_unknown", 1, "stray-interrupts", "INT-22"),
                ("device_disowned", 1, "failing-starts", "LIFE-27"),
                ("event_not_made", 1, "start", "NT-35"),
                ("entry_astray", 1, "load", "LIFE-01"),
                ("parts_overlap", 1, "transfers", "PAGE-50"),
                ("pages_merged", 1, "plain-copies", "PAGE-50"),
                ("touches_astray", 1, "plain-copies", "PAGE-50"),
                ("last_page_stays", 1, "unmapped-pages", "PAGE-29"),
                ("prepatch_left_out", 1, "prepatched", "REND-07"),
                ("maps_from_start", 1, "unmapped-pages", "PAGE-29"),
                ("reset_deafens", 1, "hangs", "INT-22"),
                ("told_when_asked", 1, "paging", "INT-26"),
                ("first_part_only", 1, "passes", "REND-29"),
                ("room_ignored", 3, "passes", "REND-08"),
                ("patch_room_ignored", 3, "worlds", "REND-08"),
                ("contexts_lost_asleep", 1, "storms", "REND-31"),
                ("later_pass_unlisted", 1, "passes", "REND-29"),
                ("passes_stand_still", 1, "passes", "REND-09"),
                ("context_too_many", 1, "many-contexts", "SCHED-05"),
                ("patch_fails", 3, "paging", "PATCH-31"),
                ("slots_none", 1, "render", "REND-22"),
                ("fills_otherwise", 1, "render", "REND-29"),
                ("fill_unchecked", 1, "overreach", "REND-29"),
                ("fill_unreserved", 1, "overreach", "REND-31"),
                ("fill_nothing", 1, "overreach", "REND-31"),
                ("part_begins_anew", 1, "preempt-busy", "REND-29"),
                ("preempt_silent", 3, "preempt-idle", "PREEMPT-06"),
                ("fence_from_memory", 1, "stray-interrupts", "INT-22"),
                ("fault_of_next", 3, "memory-errors", "INT-11"),
                ("resumes_at_start", 1, "preempt-busy", "REND-29"),
                ("fault_ends_preemption", 1, "memory-errors", "TDR-18"),
                ("fences_rise", 1, "memory-errors", "INT-22"),
                ("last_behind_fault", 1, "memory-errors", "INT-22"),
                ("status_left_out", 1, "hangs", "TDR-10"),
                ("reset_blames_unbegun", 1, "hangs", "TDR-14"),
                ("sleeper_claims", 1, "removal", "INT-08"),
                ("reset_blames_newest", 1, "hangs", "TDR-14"),
                ("responsive_for_ever", 1, "hangs", "TDR-10"),
                ("never_responsive", 1, "hangs", "TDR-10"),
                ("restart_deaf", 3, "adapter-hangs", "TDR-33"),
                ("reset_fails", 3, "hangs", "TDR-23"),
                ("power_fails", 1, "power", "PWR-02"),
                ("interrupt_stays", 1, "shared-line", "INT-08"),
                ("unready_at_interrupt", 3, "shared-line", "NT-01"),
                ("reset_forgets", 1, "hangs", "INT-22"),
                ("sleep_forgets", 1, "power", "INT-22"),
                ("zero_is_newer", 3, "power", "INT-11"),
                ("hibernation_deafens", 1, "other-devices", "INT-26"),
                ("start_error_leaks", 1, "failing-starts", "LIFE-20"),
                ("start_error_ignored", 3, "failing-starts", "NT-01"),
                ("start_crippled", 1, "failing-starts", "LIFE-27"),
                ("start_fails_again", 1, "failing-starts", "LIFE-27"),
                ("first_is_memory", 1, "odd-resources", "LIFE-28"),
                ("unmaps_nothing", 1, "failing-starts", "LIFE-20"),
                ("frees_otherwise", 1, "unmapped-pages", "NT-34"),
                ("maximum_odd", 1, "client", "LIFE-25"),
                ("memory_hidden", 1, "client", "CAPS-13"),
                ("keeps_nothing", 1, "other-devices", "PWR-16"),
                ("one_device", 1, "other-devices", "LIFE-32"),
                ("setting_forgotten", 1, "other-settings", "LIFE-33"),
                ("value_unchecked", 1, "registry-values", "LIFE-31"),
                ("value_cut", 1, "registry-values", "LIFE-31"),
                ("no_device_needed", 1, "absence", "LIFE-27"),
                ("no_registers_needed", 1, "absence", "LIFE-27"),
                ("fault_hushed", 1, "memory-errors", "INT-27"),
                ("query_wakes_nobody", 1, "power", "PWR-17"),
                ("any_size", 1, "odd-queries", "NT-33"),
                ("all_types", 1, "odd-queries", "LIFE-30"),
                ("overlays_left_out", 1, "stale-outputs", "LIFE-29"),
                ("eviction_left_out", 1, "stale-outputs", "LIFE-29"),
                ("close_fails", 1, "allocations", "LIFE-26"),
                ("cancel_missing", 1, "start", "CAPS-04"),
                ("pool_leaks", 1, "failing-starts", "LIFE-20"),
                ("devices_leak", 1, "processes", "LIFE-20"),
                ("open_error_leaks", 1, "no-memory", "LIFE-20"),
                ("handle_unknown", 1, "no-memory", "ALLOC-33"),
                ("no_memory_renamed", 1, "no-memory", "LIFE-23"),
                ("data_overrun", 1, "private-queries", "NT-33"),
                ("reserved_taken", 1, "nearly-right-data", "LIFE-25"),
                ("instances_odd", 1, "nearly-right-data", "LIFE-25"),
                ("escape_error_leaks", 1, "nearly-right-data", "LIFE-20"),
                ("states_left_out", 1, "memory-errors", "LIFE-25"),
                ("reasons_invented", 1, "memory-errors", "LIFE-25"),
                ("entry_missing", 1, "load", "LIFE-03"),
                ("entry_gives_up", 1, "load", "LIFE-01"),
                ("private_refused", 1, "client", "LIFE-25"),
                ("entry_faults", 3, "load", "NT-01"),
                ("registers_lost", 3, "start", "NT-01"),
                ("watches_with_nothing", 3, "start", "NT-01"),
                ("lock_kept", 1, "start", "NT-16")):
            with self.subTest(fault=fault):
                # A driver that never answers is asked once: the steps after it would wait for it.
                # Some jobs take several DMA buffers anyway. A start that succeeds whatever fails is found earlier, too.
                only = ("--step", step) if fault in ("first_part_only", "preempt_silent", "restart_deaf", "patch_room_ignored", "later_pass_unlisted", "passes_stand_still", "context_too_many", "slots_none", "keeps_nothing",
                                                "hibernation_deafens", "no_registers_needed") else ()
                steps, rules = self.mutant(fault, "--until-finding", *only, code=code)
                self.assertIn(rule, rules.get(step, []), rules)
                self.assertEqual(next(iter(rules)), step, "something else was found first")
                proved.add(rule)
        self.proved(proved)


if __name__ == "__main__":
    unittest.main()
