#!/usr/bin/env python3
"""What scripts/captures says of the thunks as they are, and of thunks that copy by hand or leave a member out."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts/captures"
LIST = "capture<&D3DKMT_UPDATEGPUVIRTUALADDRESS::Operations>(args, &operations)"


def told(folder, file=None, old="", new=""):
    """Exit code and lines for a copy of the thunks in which one text is another."""
    copy = pathlib.Path(folder) / "thunks"
    shutil.copytree(ROOT / "src/thunks", copy, dirs_exist_ok=True)
    if file is not None:
        text = (copy / file).read_text()
        assert old in text, old
        (copy / file).write_text(text.replace(old, new))
    done = subprocess.run([sys.executable, "-B", SCRIPT, copy], capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines()


class Captures(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def test_the_thunks_are_as_the_table_says(self):
        code, lines = told(self.folder)
        self.assertEqual(code, 0, lines)
        self.assertRegex(lines[0], r"^1\d\d members of the table are captured or given by it$")

    def test_a_list_that_is_copied_by_hand_is_told(self):
        by_hand = "capture_array(args.Operations, args.NumOperations, kMaxListElements, &operations)"
        code, lines = told(self.folder, "gpu_va_thunks.cpp", LIST, by_hand)
        self.assertEqual(code, 1)
        self.assertEqual(len(lines), 2, lines)
        self.assertRegex(lines[0], r"^src/thunks/gpu_va_thunks.cpp:\d+: by hand; name the member \(members.h\): .*capture_array\(args.Operations")
        self.assertEqual(lines[1], "src/arguments/arguments.tsv:1: no thunk captures or gives D3DKMT_UPDATEGPUVIRTUALADDRESS.Operations")

    def test_other_ways_of_copying_are_told(self):
        for line in ("if (!guarded_copy(args.pModeList, modes.data(), 8))", "if (!writable(args.pModeList, 8))", "std::memcpy(&one, args.pModeList, 8);"):
            given = "  if (!give<&D3DKMT_GETDISPLAYMODELIST::pModeList>(args, modes))"
            code, lines = told(self.folder, "display_thunks.cpp", given, f"  {line}\n{given}")
            self.assertEqual((code, len(lines)), (1, 1), lines)

    def test_a_name_that_nothing_is_known_of_is_told(self):
        code, lines = told(self.folder, "gpu_va_thunks.cpp", LIST, "capture<&Args::Operations>(args, &operations)")
        self.assertEqual(code, 1)
        self.assertIn("src/thunks/gpu_va_thunks.cpp:1: scripts/captures has no line for what Args stands for", lines)

    def test_an_exception_that_is_gone_is_told(self):
        code, lines = told(self.folder, "present_thunks.cpp", "guarded_copy(private_format", "write_it(private_format")
        self.assertEqual((code, len(lines)), (1, 1), lines)
        self.assertIn("an exception that is not there", lines[0])


if __name__ == "__main__":
    unittest.main()
