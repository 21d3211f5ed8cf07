"""Checks the headers of abi/include against the layout facts, for one interface version.

usage: check_layout.py [--umd] --version WDDM2_0 --clang clang++-19 --cxx g++ --work <folder>
       check_layout.py --mutate ...

--umd: d3dumddi.h, with its facts and versions, instead of the headers that drivers of the kernel use.

Compiles the facts as assertions for the driver's target (C++ and C, COFF and ELF) and natively (C++ and C),
then runs the bit-field and GUID checks of both. With --mutate the facts are falsified one way after
the other, and the test fails if any of the falsehoods goes unnoticed.
"""

import argparse
import copy
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


class Failed(Exception):
    pass


def run(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        lines = (result.stdout + result.stderr).splitlines()
        errors = [line for line in lines if "error" in line]
        raise Failed("failed: %s\n%s" % (" ".join(command), "\n".join((errors or lines)[:40])))
    return result.stdout


def flags(facts, version, work):
    common = QUIET + ["-I" + work, "-I" + HERE, "-isystem", os.path.join(HERE, "..", "include")]
    if facts.macro.startswith("D3D_UMD"):
        common += ["-DLAYOUT_UMD", "-D%s=%s_%s" % (facts.macro, facts.macro, version)]
    return common + ["-DDXGKDDI_INTERFACE_VERSION=DXGKDDI_INTERFACE_VERSION_" + version]


def check(checks, options, version, work):
    """Compiles and runs everything; returns what the run printed, raises Failed."""
    os.makedirs(work, exist_ok=True)
    checks.write(work)
    common = flags(checks.facts, version, work)
    driver = common + ["-ffreestanding", "-fno-stack-protector", "-mno-stack-arg-probe"]
    bits = os.path.join(HERE, "layout_bits.cpp")
    asserts = os.path.join(HERE, "layout_asserts.h")
    windows = "--target=" + WINDOWS
    run([options.clang, windows, "-std=c++17", "-fsyntax-only"] + driver + ["-x", "c++", asserts])
    run([options.clang, windows, "-std=c11", "-fsyntax-only"] + driver + ["-x", "c", asserts])
    run([options.cxx, "-std=c11", "-fsyntax-only"] + common + ["-x", "c", asserts])
    run([options.clang, windows + "-elf", "-std=c++17"] + driver +
        ["-DLAYOUT_RUN=dxgkit_layout_driver", "-c", bits, "-o", work + "/driver.o"])
    run([options.cxx, "-std=c++23"] + common +
        ["-DLAYOUT_RUN=dxgkit_layout_native", "-c", bits, "-o", work + "/native.o"])
    run([options.cxx, "-std=c++23"] + common +
        [os.path.join(HERE, "layout_main.cpp"), work + "/native.o", work + "/driver.o",
         "-o", work + "/check"])
    return run([work + "/check"])


def falsify(data, path, change):
    """A copy of the facts with one number changed. path: keys down to that number."""
    data = copy.copy(data)
    node = data
    for key in path[:-1]:
        node[key] = copy.copy(node[key])
        node = node[key]
    node[path[-1]] = change(node[path[-1]])
    return data


def mutations(data):
    """(what, path to a number, change) for each kind of fact the test claims to check."""
    members = data["records"]["DXGK_SEGMENTFLAGS"]["members"]
    bit = next(i for i, m in enumerate(members) if m.get("bit", 0) == 3)
    grow = lambda value: value + 8  # noqa: E731
    flip = lambda value: value ^ 1  # noqa: E731
    return [
        ("record size", ["records", "DXGK_DRIVERCAPS", "size"], grow),
        ("record alignment", ["records", "DXGK_NODEMETADATA", "align"], grow),
        ("member offset", ["records", "DXGKARG_RENDER", "members", 3, "offset"], grow),
        ("member size", ["records", "DXGKARG_RENDER", "members", 3, "size"], grow),
        ("bit position", ["records", "DXGK_SEGMENTFLAGS", "members", bit, "bit"], grow),
        ("enum size", ["enums", "DXGK_INTERRUPT_TYPE", "size"], grow),
        ("enumerator", ["enums", "DXGK_ENGINE_TYPE", "values", "DXGK_ENGINE_TYPE_COPY"], grow),
        ("table offset", ["tables", "DXGKRNL_INTERFACE", 40, 3], grow),
        ("constant", ["constants", "DXGK_MAX_MMUS"], flip),
        ("guid", ["guids", "GUID_DEVINTERFACE_I2C"],
         lambda text: text[:-1] + ("0" if text[-1] != "0" else "1")),
        ("string", ["strings", "D3DKMT_SUBKEY_DX9"], lambda text: 'L"DX8"'),
    ]


def umd_mutations(data):
    """The same for the facts of user-mode drivers."""
    flags_of = data["records"]["D3DDDICB_RENDERFLAGS"]["members"]
    bit = next(i for i, m in enumerate(flags_of) if m["name"] == "NullRendering")
    grow = lambda value: value + 8  # noqa: E731
    return [
        ("record size of a callback", ["records", "D3DDDICB_RENDER", "size"], grow),
        ("member offset of a callback", ["records", "D3DDDICB_PRESENT", "members", 3, "offset"], grow),
        ("bit of a callback", ["records", "D3DDDICB_RENDERFLAGS", "members", bit, "bit"], grow),
        ("callback", ["tables", "D3DDDI_DEVICECALLBACKS", 40, 3], grow),
        ("enumerator", ["enums", "D3DDDI_RESIDENCYSTATUS", "values",
                        "D3DDDI_RESIDENCYSTATUS_NOTRESIDENT"], grow),
        ("hresult", ["hresults", "D3DDDIERR_DEVICEREMOVED"], lambda text: text[:-1] + "1"),
    ]


def mutate(options):
    kernel, umd = facts_module.load(), facts_module.load_umd()
    missed = []
    cases = [(kernel,) + case for case in mutations(kernel.data)]
    cases += [(umd,) + case for case in umd_mutations(umd.data)]
    for index, (truth, what, path, change) in enumerate(cases):
        version = truth.versions[-1]
        lie = facts_module.Facts(falsify(truth.data, path, change), truth.macro, truth.umd)
        try:
            check(layout_checks.Checks(lie, version), options, version,
                  os.path.join(options.work, "mutant%d" % index))
            missed.append(what)
        except Failed:
            pass
    print("abi layout: %d of %d falsified facts noticed" % (len(cases) - len(missed), len(cases)))
    for what in missed:
        print("  not noticed: " + what)
    return 1 if missed else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--version")
    parser.add_argument("--umd", action="store_true")
    parser.add_argument("--mutate", action="store_true")
    parser.add_argument("--clang", required=True)
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--work", required=True)
    options = parser.parse_args()
    if options.mutate:
        return mutate(options)
    facts = facts_module.load_umd() if options.umd else facts_module.load()
    checks = layout_checks.Checks(facts, options.version)
    try:
        found = check(checks, options, options.version, os.path.join(
            options.work, ("umd." if options.umd else "") + options.version))
    except Failed as failure:
        print(failure)
        return 1
    print("abi layout %s: %s, %d skipped" % (
        options.version, ", ".join("%d %s" % (n, what) for what, n in checks.counts.items()),
        len(checks.skipped)))
    for reason in checks.skipped:
        print("  skipped " + reason)
    print("  compiled as C++ and C for %s and natively by %s, as C++ for %s-elf" %
          (WINDOWS, options.cxx, WINDOWS))
    print(found, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
