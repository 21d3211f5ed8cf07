#!/usr/bin/python3
"""The parts of scripts/mutate_drivers: which changes it makes, that each runs when it is chosen, and what it makes of a verification's end."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "mutation"))
try:
    import candidates
except ModuleNotFoundError as missing:
    print(f"skipped, python3-clang-19 is not installed: {missing}")
    sys.exit(77)
import driver_candidates  # noqa: E402
import drawing  # noqa: E402
import drivers  # noqa: E402
import schemata  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent / "mutation"
C_SOURCE = """\
#define STATUS_SUCCESS 0
#define STATUS_NO_MEMORY -5
#define SIZE_REGISTER 16
enum { kEnd = 3 };
struct Caps { unsigned flags, bytes; };
static int take(unsigned offset, unsigned size) { return (int)(offset * 2 + size); }
int check(unsigned size, unsigned limit, struct Caps* caps) {
  if (size > limit && limit != 0) return STATUS_NO_MEMORY;
  caps->flags = size;
  caps->bytes = 0;
  if (size == kEnd) caps->bytes = take(size, SIZE_REGISTER);
  return STATUS_SUCCESS;
}
"""
CXX_SOURCE = """\
enum Kind : unsigned { kNone, kFill, kCopy };
constexpr unsigned kBytes = 8;
struct Command { Kind kind; unsigned bytes; };
unsigned size_of(const Command& command) { return command.bytes + kBytes; }
bool has(Kind kind) { return kind == kCopy; }
unsigned make(Command* command) {
  *command = Command{kFill, kBytes};
  return has(command->kind) ? 1 : size_of(*command);
}
"""
MAIN = "int dxgkit_mutant_chosen, dxgkit_mutant_also, dxgkit_mutant_telling;\nvoid dxgkit_mutant_tell(int id) { (void)id; }\n"


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = candidates.ROOT
        candidates.ROOT = pathlib.Path(self.folder.name)

    def tearDown(self):
        candidates.ROOT = self.root
        self.folder.cleanup()

    def found(self, name, text, *flags):
        (candidates.ROOT / name).write_text(text)
        some = driver_candidates.of_unit(candidates.ROOT / name, flags, {name})[name]
        drawing.numbered(some)
        for number, one in enumerate(some, 1):
            one.update(id=number, before=drawing.original(one), after=drawing.changed(one))
        return some

    def check(self, some, *wanted):
        have = {(one["line"], one["operator"], one["before"], one["after"]) for one in some}
        for one in wanted:
            self.assertIn(one, have, "\n".join(map(str, sorted(have))))


class Operators(Folder):
    def test_changes_of_a_driver_in_c(self):
        some = self.found("sample.c", C_SOURCE, "-std=c11")
        condition = "size > limit && limit != 0"
        self.check(some, (8, "condition negated", condition, f"!({condition})"), (8, "condition false", condition, "0"),
                   (8, "second clause only", condition, "!!(limit != 0)"), (8, "compare", "size > limit", "(size) >= (limit)"),
                   (8, "other status", "STATUS_NO_MEMORY", "STATUS_SUCCESS"), (9, "assigned 0", "size", "0"),
                   (9, "statement left out", "caps->flags = size;", ""), (11, "constant", "kEnd", "((kEnd) + 1)"),
                   (11, "constant", "SIZE_REGISTER", "((SIZE_REGISTER) + 1)"), (11, "argument 0", "size", "0"),
                   (11, "arguments exchanged", "take(size, SIZE_REGISTER)", "take(SIZE_REGISTER, size)"),
                   (12, "other status", "STATUS_SUCCESS", "STATUS_UNSUCCESSFUL"), (6, "left operand only", "offset * 2 + size", "(offset * 2)"))
        self.assertFalse([one for one in some if one["before"] == "0" and one["operator"] == "assigned 0"], "it is 0 already")

    def test_changes_of_a_driver_in_cxx(self):
        some = self.found("sample.cpp", CXX_SOURCE, "-std=c++20")
        self.check(some, (4, "right operand only", "command.bytes + kBytes", "(kBytes)"), (4, "constant", "kBytes", "((kBytes) + 1)"),
                   (5, "constant", "kCopy", "(__typeof__(kCopy))((kCopy) + 1)"), (7, "member left out", "kFill", "(__typeof__(kFill))0"))
        self.assertFalse([one for one in some if one["line"] == 2], "a constant's own declaration is no code")


class Equivalent(Folder):
    def test_an_entry_names_a_text_or_a_whole_function(self):
        some = self.found("sample.c", C_SOURCE, "-std=c11")
        why = {"file": "sample.c", "function": "check", "why": "Nobody sees it."}
        text = {**why, "operator": "statement left out", "text": "caps->flags  =  size;"}
        self.assertEqual({one["line"] for one in some if drawing.equivalent(one, [text])}, {9})
        self.assertEqual({one["function"] for one in some if drawing.equivalent(one, [why])}, {"check"})
        self.assertFalse([one for one in some if drawing.equivalent(one, [{**why, "file": "other.c"}])])

    def test_an_entry_may_be_about_one_of_several_changes_that_look_the_same(self):
        some = self.found("sample.c", "int size(int a) {\n  int b[2] = {0, 0};\n  return b[a];\n}\n", "-std=c11")
        one = {"file": "sample.c", "function": "size", "operator": "constant", "text": "0", "why": "Nobody sees it."}
        places = [mutant["start"] for mutant in some if drawing.equivalent(mutant, [one])]
        self.assertEqual([mutant["start"] for mutant in some if drawing.equivalent(mutant, [{**one, "nth": 2}])], places[1:])
        self.assertEqual(len(places), 2)

    def test_an_entry_with_several_changes_is_so_many_entries(self):
        why = {"file": "sample.c", "why": "Nobody sees it."}
        several = {**why, "changes": [["constant", "1"], ["argument 0", "size"]]}
        self.assertEqual(list(drawing.one_by_one([why, several])),
                         [why, {**why, "operator": "constant", "text": "1"}, {**why, "operator": "argument 0", "text": "size"}])


class Schemata(Folder):
    def answers(self, name, text, compiler, language, main):
        """What the program answers with each mutant; the first answer is that of none."""
        some = self.found(name, text, language)
        some = [one for one in some if "STATUS_UNSUCCESSFUL" not in one["after"]]
        written = schemata.write((candidates.ROOT / name).read_bytes(), some, drivers.ASKING)
        source = candidates.ROOT / f"all_{name}"
        source.write_text(written.text.decode() + main)
        program = candidates.ROOT / "program"
        subprocess.run([compiler, language, "-w", "-Wno-c++11-narrowing", "-include", str(HERE / "driver_probe.h"), str(source), "-o", str(program)], check=True)
        return some, [subprocess.run([str(program), str(one)], timeout=20).returncode for one in range(len(some) + 1)]

    def test_each_mutant_runs_when_it_is_chosen(self):
        call = "  struct Caps c = {0, 0}; int r = check(3, 9, &c); return (r + (int)c.flags * 3 + (int)c.bytes) & 255;\n"
        some, answers = self.answers("sample.c", C_SOURCE, "clang-19", "-std=c11", MAIN + "int atoi(const char*);\n"
                                     "int main(int n, char** a) {\n  dxgkit_mutant_chosen = atoi(a[1]);\n" + call + "}\n")
        self.assertEqual(answers[0], 9 + 3 * 2 + 16)
        by = {(one["operator"], one["before"]): answers[one["id"]] for one in some if one["id"] < len(answers)}
        self.assertEqual(by["arguments exchanged", "take(size, SIZE_REGISTER)"], 9 + 16 * 2 + 3)
        self.assertEqual(by["statement left out", "caps->flags = size;"], 3 * 2 + 16)
        self.assertEqual(by["condition negated", "size == kEnd"], 9)

    def test_a_driver_in_cxx_compiles_with_all_mutants(self):
        some, answers = self.answers("sample.cpp", CXX_SOURCE, "clang++-19", "-std=c++20", "extern \"C\" {\n" + MAIN + "int atoi(const char*);\n}\n"
                                     "int main(int n, char** a) {\n  dxgkit_mutant_chosen = atoi(a[1]);\n  Command c; return make(&c);\n}\n")
        self.assertEqual(answers[0], 16)
        self.assertGreater(len(set(answers)), 3)


class Ends(unittest.TestCase):
    def classify(self, code, *findings, outcome="failed", err=""):
        report = {"steps": [{"name": "render", "text": "wrong", "outcome": outcome, "findings": list(findings)}]}
        return drivers.classify(code, json.dumps(report), err)[0]

    def test_what_the_end_of_a_verification_means(self):
        rule = {"rule": "PAGE-05", "severity": "violation", "actual": "left pDmaBuffer at its input"}
        warning = {**rule, "severity": "warning"}
        self.assertEqual(self.classify(1, rule), drivers.NAMED)
        self.assertEqual(self.classify(3, warning, rule), drivers.NAMED)
        self.assertEqual(self.classify(1), drivers.OTHERWISE)
        self.assertEqual(self.classify(0, warning, outcome="ok"), drivers.MISSED)
        self.assertEqual(drivers.classify(2, "", "dxgkit: DriverEntry failed")[0], drivers.OTHERWISE)
        self.assertEqual(self.classify(4, {**rule, "rule": "NT-20", "actual": "Step render made no progress for 8 s"}), drivers.HANG)

    def test_ends_of_the_tool_itself_are_told_apart(self):
        def ended(how):
            return {"rule": "NT-01", "severity": "bugcheck", "actual": f"Step start {how}."}

        by_signal = "ended its process by signal 11"
        self.assertEqual(self.classify(3, ended(by_signal)), drivers.TOOL)
        self.assertEqual(self.classify(3, ended("lost its process: it ended by signal 9")), drivers.TOOL)
        placed = (f"{by_signal} in DxgkDdiPatch, at a.so+0x12", f"{by_signal} in DxgkDdiPatch, which had called memcpy, at a.so+0x12",
                  "lost its process: it ended by signal 9; the last call of the driver was DxgkDdiPatch")
        for how in placed:
            self.assertEqual(self.classify(3, ended(how)), drivers.OTHERWISE, how)
            self.assertEqual(self.classify(3, ended(how), err="malloc(): invalid size"), drivers.OTHERWISE, how)
            self.assertEqual(self.classify(3, ended(how), err="CHECK(x) failed"), drivers.TOOL, how)
        self.assertEqual(self.classify(-6, err="malloc(): invalid size"), drivers.TOOL)
        self.assertEqual(drivers.classify(None, "", "")[0], drivers.TOOL)
        self.assertEqual(drivers.classify(1, "no report", "")[0], drivers.TOOL)

    def test_what_does_not_compile_is_blamed_by_its_place(self):
        text = b"int a[3];\nint b;\n"
        mutant = {"id": 7, "operator": "constant", "start": 6, "end": 7, "text": "2", "parts": []}
        written = {"x.cpp": schemata.write(text, [mutant], drivers.ASKING)}
        driver = drivers.Driver.__new__(drivers.Driver)
        driver.overlay = pathlib.Path("/o")
        self.assertEqual(driver.blamed("/o/x.cpp:1:9: error: not constant\n", written), {7})
        self.assertEqual(driver.blamed("/o/x.cpp:1:1: error: not constant\n", written), {7})
        self.assertEqual(driver.blamed("/o/x.cpp:2:1: error: not constant\n", written), set())


if __name__ == "__main__":
    unittest.main()
