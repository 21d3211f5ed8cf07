#!/usr/bin/env python3
"""Mistakes of a first week, in the tutorial's driver and in both of its forms: first_week_test.py PROJECT_ROOT BUILD_FOLDER

`dxgkit verify` names each one's cause first, with the file and line, and accuses the driver of nothing that only follows from it.
"""
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
import unittest

ROOT, BUILD = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2))
# An idle machine needs 15 s at most. Others may be at work here, so that is asked of the processor time, and the clock only catches a driver whose
# every step waits for TdrDelay.
PROCESSOR_SECONDS_MOST, SECONDS_MOST = 15, 60
FLAGS = ("-std=c11 -O2 -gdwarf -ffreestanding -fms-extensions -fasynchronous-unwind-tables -Wall -Wextra -Werror -isystem "
         f"{ROOT}/abi/include").split()

# What is wrong; the lines of first.c that are replaced, and by what; the rule that is named first; the function; what its line has.
MISTAKES = {
    "no completion is reported": (
        "    SendReport(&report);\n    KeSetEvent(",
        "    if (preempt) SendReport(&report);\n    KeSetEvent(",
        "TDR-01", "FirstSubmitCommand", "FirstSubmitCommand("),
    "a null pointer": (
        "  if (query->pSegmentDescriptor == NULL) return STATUS_SUCCESS;  // first pass: only the count\n",
        "",
        "NT-01", "QuerySegments", "RtlZeroMemory(segment"),
    "a lock that stays held": (
        "  job->Commands = (const COMMAND*)commands;\n  KeReleaseSpinLockFromDpcLevel(&adapter->Lock);\n",
        "  job->Commands = (const COMMAND*)commands;\n",
        "NT-16", "FirstSubmitCommand", "KeAcquireSpinLockAtDpcLevel("),
    "a leak where a start fails": (
        "  if (!NT_SUCCESS(status)) FirstStopDevice(adapter);\n",
        "",
        "LIFE-20", "FirstStartDevice", "MmAllocateContiguousMemory("),
    "a paging operation that is too short": (
        "command->Bytes = args->Transfer.TransferSize;",
        "command->Bytes = args->Transfer.TransferSize - PAGE_SIZE;",
        "PAGE-50", "FirstBuildPagingBuffer", "FirstBuildPagingBuffer("),
}

# As above; these show only in a situation that verify brings about. The rule, and the step that finds it.
RARE_MISTAKES = {
    "a version that is left out": ("  caps->WDDMVersion = DXGKDDI_WDDMv1_3;\n", "", "CAPS-11", "start"),
    "preemption that is not said": ("  caps->SchedulingCaps.PreemptionAware = 1;\n", "", "PREEMPT-19", "start"),
    "a handle that nobody looks at": ("    if (allocation == NULL) return STATUS_INVALID_HANDLE;\n", "", "ALLOC-02", "no-memory"),
    "an event that one wait clears": (
        "KeInitializeEvent(&adapter->Rest, NotificationEvent, TRUE);", "KeInitializeEvent(&adapter->Rest, SynchronizationEvent, TRUE);",
        "PREEMPT-07", "restart"),
    "an engine that begins busy": (
        "KeInitializeEvent(&adapter->Rest, NotificationEvent, TRUE);", "KeInitializeEvent(&adapter->Rest, NotificationEvent, FALSE);",
        "PREEMPT-07", "restart"),
    "a thread that nobody waits for": (
        "    KeWaitForSingleObject(adapter->Thread, Executive, KernelMode, FALSE, NULL);\n", "", "NT-14", "unload"),
}


class FirstWeek(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name)
        (cls.folder / "client.c").write_text("\n".join(cls.blocks("client.c")))
        cls.run_tool("clang-19", "-shared", "-fPIC", f"-I{BUILD}/include", "-o", "client.so", "client.c")

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    @staticmethod
    def processor_seconds():
        """Of all processes that were waited for."""
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    @staticmethod
    def blocks(name):
        """The code blocks of that file on the tutorial's page."""
        page = (ROOT / "docs/your-first-miniport.md").read_text()
        return [part.split("```", 1)[0] for part in page.split(f"```c {name}\n")[1:]]

    @classmethod
    def run_tool(cls, *command):
        subprocess.run(command, cwd=cls.folder, check=True)

    def driver(self, form, before, after, flags=FLAGS, debug="/debug:dwarf,symtab"):
        source = (ROOT / "examples/miniport/first.c").read_text()
        self.assertEqual(source.count(before), 1, "the tutorial's driver has changed; change the mistake with it")
        (self.folder / "first.c").write_text(source.replace(before, after))
        if form == "sys":
            self.run_tool("clang-19", "--target=x86_64-pc-windows-msvc", *flags, "-fasync-exceptions", "-c", "first.c", "-o", "first.obj")
            self.run_tool("lld-link-19", "/nologo", "/driver", "/subsystem:native", "/entry:DriverEntry", "/nodefaultlib", debug,
                          "/out:first.sys", "first.obj", f"{BUILD}/miniports/kmlib.lib", f"{BUILD}/miniports/ntoskrnl.lib")
        else:
            self.run_tool("clang-19", "--target=x86_64-pc-windows-msvc-elf", *FLAGS, "-fno-stack-protector", "-c", "first.c", "-o", "first.o")
            self.run_tool("ld.lld-19", "-shared", "-Bsymbolic", "-z", "now", "-z", "noexecstack", "-z", "separate-code", "-o", "first.so", "first.o")

    def check(self, mistake, form):
        before, after, rule, function, code = MISTAKES[mistake]
        self.driver(form, before, after)
        used, began = self.processor_seconds(), time.monotonic()
        done = subprocess.run([f"{BUILD}/tools/dxgkit/dxgkit", "verify", f"first.{form}", "--device", "none", "--client", "./client.so",
                               "--json=report.json", "--sarif=report.sarif"], cwd=self.folder, capture_output=True, text=True)
        used, seconds = self.processor_seconds() - used, time.monotonic() - began
        print(f"{mistake}, {form}: {seconds:.1f} s, {used:.1f} s of processor time, exit code {done.returncode}", file=sys.stderr)
        self.assertLess(seconds, SECONDS_MOST, done.stdout)
        self.assertLess(used, PROCESSOR_SECONDS_MOST, done.stdout)
        self.assertIn(done.returncode, (1, 3), done.stdout + done.stderr)
        report = json.loads((self.folder / "report.json").read_text())
        found = [finding for step in report["steps"] for finding in step["findings"]]
        self.assertEqual(found[0]["rule"], rule, done.stdout)
        source = found[0]["place"]["source"][0]
        self.assertEqual((source["function"], source["file"]), (function, "first.c"), done.stdout)
        lines = (self.folder / "first.c").read_text().splitlines()
        self.assertIn(code, lines[source["line"] - 1])
        # The text says the same, and no other rule is broken. One mistake may show in several places.
        self.assertIn(f"{function} (first.c:{source['line']})", done.stdout)
        for finding in found[1:]:
            self.assertTrue(finding["rule"] == rule or finding.get("because_of") == rule, done.stdout)
        own = [finding for finding in found if "because_of" not in finding]
        self.assertRegex(done.stdout, rf"\b{len(own)} findings?, 0 warnings")
        sarif = json.loads((self.folder / "report.sarif").read_text())["runs"][0]["results"]
        location = sarif[0]["locations"][0]["physicalLocation"]
        self.assertEqual((location["artifactLocation"]["uri"], location["region"]["startLine"]), ("first.c", source["line"]))
        self.assertEqual({one["level"] for one in sarif[1:]} - {"note"}, {"error"} if len(own) > 1 else set())


    def test_mistakes_that_show_in_rare_situations(self):
        for mistake, (before, after, rule, step) in RARE_MISTAKES.items():
            with self.subTest(mistake=mistake):
                self.driver("sys", before, after)
                done = subprocess.run([f"{BUILD}/tools/dxgkit/dxgkit", "verify", "first.sys", "--device", "none", "--client", "./client.so", "--mode", "sim",
                                       "--until-finding", "--json"], cwd=self.folder, capture_output=True, text=True)
                steps = json.loads(done.stdout)["steps"]
                found = [(finding["rule"], one["name"]) for one in steps for finding in one["findings"]]
                self.assertEqual(found[:1], [(rule, step)], done.stdout[-2000:])

    def test_a_reset_waits_for_the_job_under_way(self):
        """A GPU that takes longer than the kernel waits is reset in the middle of a job, and is quiet afterwards."""
        execute = "      for (UINT i = 0; i < job.Count; ++i) Execute(adapter, &job.Commands[i]);\n"
        slow = ("      static ULONG jobs;\n      LARGE_INTEGER time;\n      time.QuadPart = -50000000;\n"
                "      if (job.Count != 0 && ++jobs % 5 == 0) KeDelayExecutionThread(KernelMode, FALSE, &time);\n")
        self.driver("so", execute, slow + execute)
        done = subprocess.run([f"{BUILD}/tools/dxgkit/dxgkit", "verify", "first.so", "--device", "none", "--client", "./client.so",
                               "--seeds", "1..4", "--step", "render", "--step", "render-together", "--json=report.json"],
                              cwd=self.folder, capture_output=True, text=True)
        steps = json.loads((self.folder / "report.json").read_text())["steps"]
        self.assertIn("DxgkDdiResetFromTimeout", {ddi for step in steps for ddi in step["ddis"]})
        for rule in ("TDR-22", "PREEMPT-09"):  # reports of what the reset has ended
            self.assertNotIn(rule, done.stdout)

    def test_lines_out_of_a_pdb(self):
        self.driver("sys", *MISTAKES["a null pointer"][:2], flags=["-g", "-gcodeview", *(flag for flag in FLAGS if flag != "-gdwarf")],
                    debug="/debug")
        done = subprocess.run([f"{BUILD}/tools/dxgkit/dxgkit", "verify", "first.sys", "--device", "none"], cwd=self.folder, capture_output=True, text=True)
        self.assertRegex(done.stdout, r"at: +first.sys.0x[0-9a-f]+ QuerySegments .first.c:\d+.\n +inlined into FirstQueryAdapterInfo .first.c:\d+.")


def add(mistake, form):
    setattr(FirstWeek, f"test_{mistake.replace(' ', '_')}_{form}", lambda self: self.check(mistake, form))


for one in MISTAKES:
    for other in ("sys", "so"):
        add(one, other)

unittest.main()
