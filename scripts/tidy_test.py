#!/usr/bin/env python3
"""What scripts/tidy says of floors, classes and prose, on sources made up for it."""
import importlib.machinery
import importlib.util
import pathlib
import unittest

LOADER = importlib.machinery.SourceFileLoader("tidy", str(pathlib.Path(__file__).resolve().parent / "tidy"))
tidy = importlib.util.module_from_spec(importlib.util.spec_from_loader("tidy", LOADER))
LOADER.exec_module(tidy)

CLASS = """
class Small {
 public:
  explicit Small(Core& core) : core_(core) {}
  int first() const { return second(1); }
  /// Words (in brackets) are no method.
  int second(int value = f(2)) DXGKIT_REQUIRES(lane);

 private:
  Core& core_;
  std::function<void(int)> told_ DXGKIT_GUARDED_BY(lock_);
  int number_{0};
};
"""


class Floors(unittest.TestCase):
    def test_files_and_folders_have_a_floor(self):
        self.assertEqual(tidy.floor_of("src/port", "src/port/types.h"), 0)
        self.assertEqual(tidy.floor_of("src/port", "src/port/core/levels.h"), 1)
        self.assertIsNone(tidy.floor_of("src/port", "src/port/nowhere.h"))
        self.assertIsNone(tidy.floor_of("src/base", "src/base/status.h"))

    def test_an_arrow_up_is_told(self):
        told = list(tidy.include_offences("src/port/core/levels.cpp", '// first\n#include "port/ddi/life.h"\n'))
        self.assertEqual(told, ["src/port/core/levels.cpp:2: port/ddi/life.h is on a floor above"])
        self.assertEqual(list(tidy.include_offences("src/port/ddi/life.cpp", '#include "port/core/levels.h"\n')), [])


class Classes(unittest.TestCase):
    def test_methods_are_counted(self):
        self.assertEqual([(name, count) for name, _, count in tidy.classes_of(CLASS)], [("Small", 3)])

    def test_too_many_methods_are_told(self):
        text = "class Large {\n" + "".join(f"  void f{i}();\n" for i in range(tidy.METHODS_MAX + 1)) + "};\n"
        self.assertEqual(len(list(tidy.class_offences({"large.h": text}))), 1)
        self.assertEqual(len(list(tidy.class_offences({"small.h": CLASS}))), 0)

    def test_too_many_files_are_told(self):
        files = {"small.h": CLASS} | {f"part{i}.cpp": f"int Small::f{i}() {{\n}}\n" for i in range(tidy.SOURCES_MAX + 1)}
        self.assertEqual(len(list(tidy.class_offences(files))), 1)


class Prose(unittest.TestCase):
    def test_long_lines_are_told_outside_code_and_tables(self):
        fits, long = "x" * tidy.COLUMNS_MAX, "x" * (tidy.COLUMNS_MAX + 1)
        text = "\n".join([fits, long, "", f"    {long}", "```", long, "```", f"| {long} |", f"- {long}", ""])
        self.assertEqual(list(tidy.long_prose(text)), [2, 9])
        self.assertEqual(list(tidy.prose_offences("docs/made_up.md", long)),
                         [f"docs/made_up.md:1: more than {tidy.COLUMNS_MAX} columns of prose"])

    def test_comments_of_dashes_are_told(self):
        self.assertEqual(list(tidy.dashes_only("// --- text\n  // -----\n/* ---- */\nint a; // --\n//\n")), [2, 3])
        self.assertEqual(len(list(tidy.prose_offences("scripts/made_up.py", "# --- text\n# ---\n"))), 1)
        self.assertEqual(len(list(tidy.prose_offences("data.txt", "# ---\n"))), 0)


unittest.main()
