#!/usr/bin/env python3
"""dxgkit run-client: Python, which knows nothing of dxgkit, is the program."""
import sys
import unittest

from support import MUTANT, Cli

# Counts adapters with D3DKMTEnumAdapters2 of the library at sys.argv[1].
COUNT = """
import ctypes, sys
adapters = ctypes.create_string_buffer(20 * 40)
count = (ctypes.c_uint64 * 2)(40, ctypes.addressof(adapters))
status = ctypes.CDLL(sys.argv[1]).D3DKMTEnumAdapters2(count)
print(f"{status & 0xFFFFFFFF:#x} {count[0]}")
sys.exit(7)
"""
# The same by the requests of Linux' own driver; then what is none of them.
DXG = """
import ctypes, fcntl, os, struct
device = os.open("/dev/dxg", os.O_RDONLY | os.O_CLOEXEC)
adapters = ctypes.create_string_buffer(20 * 40)
count = bytearray(struct.pack("QQ", 40, ctypes.addressof(adapters)))
print(fcntl.ioctl(device, 0xC0104714, count), struct.unpack("QQ", count)[0])
for descriptor, request in ((device, 0xC0104700), (device, 0xC0184714), (os.open("/dev/null", os.O_RDWR), 0xC0104714)):
    try:
        fcntl.ioctl(descriptor, request, count)
    except OSError as error:
        print(error.strerror)
os.close(device)
print(os.path.exists("/dev/null"), open("made", "w").write("x"))
"""
WSL = "/usr/lib/wsl/lib/libdxcore.so"


class Client(Cli):
    def run_client(self, *arguments, program=(sys.executable, "-c", COUNT, "libdxcore.so")):
        return self.run_tool("run-client", *arguments, "--", *program)

    def test_the_program_has_a_kernel_and_gives_the_exit_code(self):
        done = self.run_client()
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("0x0 1\n", "", 7))
        done = self.run_client("--device", "softgpu", "--device", "softgpu,vram=32M")
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("0x0 2\n", "", 7))
        self.assertEqual(self.files(), ["good.png"])
        self.assertEqual(self.run_client(program=("sh", "-c", "kill -9 $$")).returncode, 128 + 9)

    def test_a_stack_file_says_the_same(self):
        (self.folder / "stack.toml").write_text('driver = "softgpu"\ndevices = ["softgpu", "softgpu"]\n')
        done = self.run_client("--stack", "stack.toml")
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("0x0 2\n", "", 7))
        (self.folder / "stack.toml").write_text('driver = "none"\n')
        done = self.run_client("--stack", "stack.toml")
        self.assertEqual((done.stdout, done.returncode), ("0xc00000bb 40\n", 7))
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn('driver: there is no bundled driver "none"', done.stderr)

    def test_findings_go_where_the_user_wants_them(self):
        fault = self.choose_fault("frees_otherwise")
        done = self.run_client("--driver", MUTANT, *fault)
        self.assertEqual((done.stdout, done.returncode), ("0x0 1\n", 7))
        self.assertIn("NT-34", done.stderr)
        self.assertTrue(done.stderr.endswith("dxgkit: 1 finding\n"), done.stderr)
        done = self.run_client("--driver", MUTANT, *fault, "--findings", "findings.txt")
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("0x0 1\n", "", 7))
        self.assertIn("NT-34", (self.folder / "findings.txt").read_text())

    def test_what_cannot_be_done_is_said_in_a_line(self):
        for arguments, text in ((("--driver", "none.sys"), "none.sys: there is no such driver file"),
                                (("--stack", "s", "--driver", "softgpu"), "--stack"),
                                ((), "run-client needs a program: -- PROGRAM")):
            done = self.run_tool("run-client", *arguments, *(("--", "true") if arguments else ()))
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn(text, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
        done = self.run_client(program=("/no/such/program",))
        self.assertEqual((done.returncode, done.stderr), (2, "dxgkit: /no/such/program: No such file or directory\n"))

    def test_an_absolute_path_is_there_for_the_program_alone(self):
        before = self.run_tool("run-client", "--", "ls", "-d", WSL)
        done = self.run_client("--wsl-path", program=(sys.executable, "-c", COUNT, WSL))
        if done.returncode == 2:  # a system without user namespaces for everybody
            self.assertRegex(done.stderr, r"^dxgkit: --wsl-path: the system refuses .+: .+\n$")
        else:
            self.assertEqual((done.stdout, done.stderr, done.returncode), ("0x0 1\n", "", 7))
        after = self.run_tool("run-client", "--", "ls", "-d", WSL)
        self.assertEqual((before.returncode, before.stdout), (after.returncode, after.stdout))

    def test_dev_dxg_is_there_for_a_program_that_makes_its_requests(self):
        done = self.run_client("--dev-dxg", "--device", "softgpu", "--device", "softgpu", program=(sys.executable, "-c", DXG))
        wrong = "Inappropriate ioctl for device\n"
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("0 2\n" + 3 * wrong + "True 1\n", "", 0))


if __name__ == "__main__":
    unittest.main()
