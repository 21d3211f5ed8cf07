"""Compiles every header by itself, in every language and for every target it promises.

usage: check_headers.py --clang clang++-19 --cxx g++ --work <folder>

Then the hand-written NT records against their Windows sizes, and the sample driver into both image
forms (where lld is installed).
"""

import argparse
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
INCLUDE = os.path.join(HERE, "..", "include")
WARN = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-isystem", INCLUDE]


def run(command, stdin=None):
    result = subprocess.run(command, capture_output=True, text=True, input=stdin)
    if result.returncode != 0:
        print("failed: " + " ".join(command) + ("\n" + stdin if stdin else ""))
        print((result.stdout + result.stderr)[:4000])
        sys.exit(1)
    return result.stdout


def tool(name, clang):
    suffix = "-19" if clang.endswith("-19") else ""
    return shutil.which(name + suffix) or shutil.which(name)


def build_images(clang, work):
    """Links the sample driver as PE and as ELF; says so where a linker is missing."""
    source = os.path.join(HERE, "sample_driver.c")
    flags = ["-x", "c", "-std=c11", "-O2", "-ffreestanding", "-fasynchronous-unwind-tables"] + WARN
    windows = "--target=x86_64-pc-windows-msvc"
    run([clang, windows] + flags + ["-c", source, "-o", work + "/driver.obj"])
    run([clang, windows + "-elf"] + flags + ["-c", source, "-o", work + "/driver.o"])
    linkers = [tool(name, clang) for name in ("llvm-dlltool", "lld-link", "ld.lld")]
    if None in linkers:
        print("abi headers: lld is not installed, the sample driver was compiled but not linked")
        return
    imports = ["KeInitializeSpinLock", "KeAcquireSpinLockRaiseToDpc", "KeReleaseSpinLock",
               "DxgkInitialize", "PsThreadType DATA"]
    with open(work + "/nt.def", "w", encoding="utf-8") as file:
        file.write("LIBRARY ntoskrnl.exe\nEXPORTS\n" + "".join("  %s\n" % i for i in imports))
    run([linkers[0], "-m", "i386:x86-64", "-d", work + "/nt.def", "-l", work + "/nt.lib"])
    run([linkers[1], "/driver", "/subsystem:native", "/entry:DriverEntry", "/nodefaultlib",
         "/out:" + work + "/driver.sys", work + "/driver.obj", work + "/nt.lib"])
    run([linkers[2], "-shared", "-Bsymbolic", work + "/driver.o", "-o", work + "/driver.so"])
    print("abi headers: the sample driver links as .sys and as .so")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--clang", required=True)
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--work", required=True)
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    windows = "--target=x86_64-pc-windows-msvc"
    elf = windows + "-elf"
    compilers = [[options.cxx, "-std=c++23", "-x", "c++"],
                 [options.clang, "-std=c++23", "-x", "c++"],
                 [options.cxx, "-std=c11", "-x", "c"],
                 [options.clang, "-std=c11", "-x", "c"],
                 [options.clang, windows, "-ffreestanding", "-std=c++17", "-x", "c++"],
                 [options.clang, windows, "-ffreestanding", "-std=c++23", "-x", "c++"],
                 [options.clang, windows, "-ffreestanding", "-std=c11", "-x", "c"],
                 [options.clang, elf, "-ffreestanding", "-std=c++17", "-x", "c++"],
                 [options.clang, elf, "-ffreestanding", "-std=c11", "-x", "c"]]
    # poppack.h undoes another header's work.
    headers = sorted(name for name in os.listdir(INCLUDE)
                     if name.endswith(".h") and name != "poppack.h")
    for compiler in compilers:
        for header in headers:
            end = "#include <poppack.h>\n" if header.startswith("pshpack") else ""
            run(compiler + WARN + ["-fsyntax-only", "-Wno-pragma-pack", "-"],
                "#include <%s>\n%stypedef int header_is_complete;\n" % (header, end))
        run(compiler + WARN + ["-fsyntax-only", "-I" + HERE, "-"], '#include "nt_layout.h"\n')
    for compiler in compilers[:2]:
        run(compiler + WARN + ["-fsyntax-only", "-"], "#include <dxgkit/abi_versions.h>\n")
    print("abi headers: %d headers alone and the NT records, %d compilers and targets each" %
          (len(headers), len(compilers)))
    build_images(options.clang, options.work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
