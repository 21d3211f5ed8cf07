#!/usr/bin/env python3
"""scripts/docs_commands finds the commands of a page, and tells an excerpt that is not what they print."""
import importlib.machinery
import importlib.util
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
SCRIPT = pathlib.Path(__file__).resolve().parent / "docs_commands"
loader = importlib.machinery.SourceFileLoader("docs_commands", str(SCRIPT))
docs_commands = importlib.util.module_from_spec(importlib.util.spec_from_loader("docs_commands", loader))
loader.exec_module(docs_commands)

PAGE = """# A page

Say `dxgkit rules`, or dxgkit rules in prose.

    dxgkit devices                  what there is
    make test                       no command of ours

```sh
dxgkit rules PATCH
grep -c a "b  c"
DXGKIT_X=1 dxgkit support
```

```text
dxgkit is no command here
  two   2
```
"""


class Commands(unittest.TestCase):
    def test_are_lines_of_code_blocks_and_excerpts_are_none(self):
        self.assertEqual(list(docs_commands.commands(PAGE)), [
            (5, "dxgkit devices", None), (9, "dxgkit rules PATCH", None), (10, 'grep -c a "b', None), (11, "DXGKIT_X=1 dxgkit support", None),
            (17, None, ["dxgkit is no command here", "  two   2"])])

    def test_pages_about_wddm_are_among_the_pages(self):
        self.assertIn("docs/wddm/patching.md", docs_commands.PAGES)


class Excerpts(unittest.TestCase):
    OUTPUT = "result: fine\n   100 t1 placed allocation=7 offset=0x10\n   200 t1 evicted allocation=7\nall  2.02 s\n"

    def missing(self, *lines):
        return docs_commands.not_printed(lines, self.OUTPUT)

    def test_numbers_gaps_and_what_is_left_out_may_differ(self):
        self.assertIsNone(self.missing("result: fine", "...", "  5 t3 evicted allocation=99", "", "all 117 s"))
        self.assertIsNone(self.missing("1 t1 placed allocation=8 offset=0x2000"))

    def test_a_line_that_is_not_printed_is_told(self):
        self.assertEqual(self.missing("result: fine", "   100 t1 placed resource=7 offset=0x10"), "   100 t1 placed resource=7 offset=0x10")

    def test_order_counts_and_a_line_is_there_once(self):
        self.assertEqual(self.missing("   200 t1 evicted allocation=7", "result: fine"), "result: fine")
        self.assertEqual(self.missing("result: fine", "result: fine"), "result: fine")

    def test_a_part_of_a_line_is_not_enough(self):
        self.assertEqual(self.missing("result:"), "result:")


if __name__ == "__main__":
    unittest.main()
