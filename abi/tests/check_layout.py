"""Checks the headers of abi/include against the layout facts, for one interface version.

usage: check_layout.py --version WDDM2_0 --clang clang++-19 --cxx g++ --work <folder>

Compiles the facts as assertions for the driver's target (C++ and C, COFF and ELF) and natively,
then runs the bit-field checks of both.
"""

import argparse
import os
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "generate"))

import facts as facts_module  # noqa: E402
import layout_checks  # noqa: E402

WINDOWS = "x86_64-pc-windows-msvc"
QUIET = ["-w", "-O0", "-fno-strict-aliasing"]


def run(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        print("failed: " + " ".join(command))
        lines = (result.stdout + result.stderr).splitlines()
        errors = [line for line in lines if "error" in line]
        print("\n".join((errors or lines)[:40]))
        sys.exit(1)
    return result.stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", required=True)
    parser.add_argument("--clang", required=True)
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--work", required=True)
    options = parser.parse_args()
    work = os.path.join(options.work, options.version)
    os.makedirs(work, exist_ok=True)
    checks = layout_checks.Checks(facts_module.load(), options.version)
    checks.write(work)

    common = QUIET + ["-I" + work, "-I" + HERE, "-isystem", os.path.join(HERE, "..", "include"),
                      "-DDXGKDDI_INTERFACE_VERSION=DXGKDDI_INTERFACE_VERSION_" + options.version]
    driver = common + ["-ffreestanding", "-fno-stack-protector", "-mno-stack-arg-probe"]
    bits = os.path.join(HERE, "layout_bits.cpp")
    asserts = os.path.join(HERE, "layout_asserts.h")
    run([options.clang, "--target=" + WINDOWS, "-std=c++17", "-fsyntax-only", "-x", "c++",
         asserts] + driver)
    run([options.clang, "--target=" + WINDOWS, "-std=c11", "-fsyntax-only", "-x", "c",
         asserts] + driver)
    run([options.clang, "--target=" + WINDOWS + "-elf", "-std=c++17", "-c", bits,
         "-DLAYOUT_RUN=dxgkit_layout_driver", "-o", work + "/driver.o"] + driver)
    run([options.cxx, "-std=c++23", "-fPIC", "-c", bits, "-DLAYOUT_RUN=dxgkit_layout_native",
         "-o", work + "/native.o"] + common)
    run([options.cxx, "-std=c++23", os.path.join(HERE, "layout_main.cpp"), work + "/native.o",
         work + "/driver.o", "-o", work + "/check"] + common)
    found = subprocess.run([work + "/check"], capture_output=True, text=True)

    print("abi layout %s: %s, %d skipped" % (
        options.version, ", ".join("%d %s" % (n, what) for what, n in checks.counts.items()),
        len(checks.skipped)))
    for reason in checks.skipped:
        print("  skipped " + reason)
    print("  compiled as C++ and C for %s, as C++ for %s-elf and natively by %s" %
          (WINDOWS, WINDOWS, options.cxx))
    print(found.stdout, end="")
    return found.returncode


if __name__ == "__main__":
    sys.exit(main())
