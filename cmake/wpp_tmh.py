"""Writes the trace headers (.tmh) that a driver's sources include and the WPP preprocessor of a Windows build would make.

usage: wpp_tmh.py --out <folder> <source, header or folder>...

Every trace function that a "begin_wpp config" block names becomes a macro that does nothing; WPP_INIT_TRACING and its relatives
too. The driver's sources stay as they are: put <folder> on their include path.
"""

import argparse
import os
import re
import sys

SOURCES = (".c", ".cpp", ".cxx", ".cc", ".h", ".hpp", ".hxx", ".inl", ".ini")


def files_of(paths):
    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        for name in sorted(os.listdir(path)):
            if name.lower().endswith(SOURCES):
                yield os.path.join(path, name)


def scan(paths):
    """The .tmh names included and the trace functions declared."""
    headers, functions = set(), set()
    for path in files_of(paths):
        with open(path, encoding="latin-1") as file:
            text = file.read()
        headers |= set(re.findall(r'#\s*include\s*[<"]([^<>"\\/]+\.tmh)[>"]', text))
        for block in re.findall(r"begin_wpp\s+config(.*?)end_wpp", text, re.S):
            functions |= set(re.findall(r"FUNC\s+(\w+)", block))
            functions |= set(re.findall(r"^\s*//\s*(\w+)\s*\{", block, re.M))
    return headers, functions


def render(functions):
    lines = ["#include <WppRecorder.h>"]
    for name in ("WPP_INIT_TRACING", "WPP_CLEANUP", "WPP_SYSTEMCONTROL", "WPP_SYSTEMCONTROL2"):
        lines += ["#undef " + name, "#define %s(...) ((void)0)" % name]
    lines += ["#undef WPP_RECORDER_LEVEL_FILTER", "#define WPP_RECORDER_LEVEL_FILTER(...) dxgkit_wpp_filter",
              "#ifndef DXGKIT_WPP_TMH", "#define DXGKIT_WPP_TMH",
              "static __attribute__((unused)) unsigned char dxgkit_wpp_filter;", "#endif"]
    for name in sorted(functions):
        lines += ["#undef " + name, "#define %s(...) ((void)0)" % name]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("paths", nargs="+")
    options = parser.parse_args()
    headers, functions = scan(options.paths)
    os.makedirs(options.out, exist_ok=True)
    for name in sorted(headers):
        with open(os.path.join(options.out, name), "w", encoding="utf-8") as file:
            file.write(render(functions))
    print("%d trace headers, %d trace functions" % (len(headers), len(functions)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
