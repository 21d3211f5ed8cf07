#!/usr/bin/env python3
"""scripts/lane_analysis turns red where it should: lane_analysis_test.py BUILD

Each case changes a copy of one file as a careless author would, and lets clang read the copy in place of the file.
"""
import importlib.machinery
import importlib.util
import json
import pathlib
import sys
import tempfile
import unittest

LOADER = importlib.machinery.SourceFileLoader("lane_analysis", str(pathlib.Path(__file__).resolve().parent / "lane_analysis"))
lane_analysis = importlib.util.module_from_spec(importlib.util.spec_from_loader("lane_analysis", LOADER))
LOADER.exec_module(lane_analysis)
BUILD = pathlib.Path(sys.argv.pop())
POWER = lane_analysis.ROOT / "src/dxgk/power/power.cpp"


class Analysis(unittest.TestCase):
    def said(self, changed, old, new):
        """What clang says of power.cpp when `changed` has `new` for `old`."""
        original = lane_analysis.ROOT / changed
        text = original.read_text()
        self.assertIn(old, text)
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / original.name
            copy.write_text(text.replace(old, new, 1))
            overlay = pathlib.Path(folder) / "overlay.json"
            overlay.write_text(json.dumps({"version": 0, "roots": [{"type": "file", "name": str(original), "external-contents": str(copy)}]}))
            return lane_analysis.parse(POWER, lane_analysis.sources(BUILD)[POWER], ("-ivfsoverlay", str(overlay)))

    def test_the_file_as_it_is_passes(self):
        self.assertEqual(lane_analysis.parse(POWER, lane_analysis.sources(BUILD)[POWER]), "")

    def test_a_requirement_left_out(self):
        said = self.said("src/dxgk/power/power.h", "void lose(PowerTarget during) DXGKIT_REQUIRES(on_lane);", "void lose(PowerTarget during);")
        self.assertIn("requires holding role 'on_lane'", said)

    def test_a_member_touched_off_the_lane(self):
        said = self.said("src/dxgk/power/power.cpp", "core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { evicting_ = true; });", "evicting_ = true;")
        self.assertIn("writing variable 'evicting_' requires holding role 'on_lane'", said)


unittest.main()
