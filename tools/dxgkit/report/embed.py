#!/usr/bin/env python3
"""Packs the report page into C++: embed.py OUTPUT.cpp (the files beside this script)."""
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
SCRIPTS = ["theme.js", "columns.js", "model.js", "lanes.js", "timeline.js", "memory.js", "residency.js", "frames.js", "tables.js", "causes.js", "addresses.js", "moment.js", "details.js",
           "search.js", "filters.js", "compare.js", "page.js", "main.js"]


def text_of(name):
    return (FOLDER / name).read_text(encoding="utf-8")


def literal(text):
    # Some compilers limit the length of one literal as it stands, and warn of what neighbours join to.
    pieces = [text[i:i + 8000] for i in range(0, len(text), 8000)]
    return "\n".join(f'R"page({piece})page"' for piece in pieces)


def page_parts():
    """The page around its gaps: the blocks of columns, the recording, another one, the run's own data."""
    script = "(() => {\n'use strict';\n" + "\n".join(text_of(name) for name in SCRIPTS) + "\n})();"
    rest = text_of("template.html").replace("@STYLE@", text_of("style.css")).replace("@SCRIPT@", script)
    parts = []
    for gap in ("@BLOCKS@", "@DATA@", "@OTHER@", "@RUN@"):
        part, rest = rest.split(gap)
        parts.append(part)
    return [*parts, rest]


def main():
    lines = ["// Generated from tools/dxgkit/report by embed.py.", '#include "tools/dxgkit/report_page.h"', "",
             '#pragma GCC diagnostic ignored "-Woverlength-strings"', "",
             "namespace dxgkit::tool::report_page {", ""]
    for name, text in zip(("kBeforeBlocks", "kBeforeData", "kBeforeOther", "kBeforeRun", "kAfterRun"), page_parts()):
        lines += [f"const std::string_view {name} =", literal(text) + ";", ""]
    lines += ["}  // namespace dxgkit::tool::report_page", ""]
    pathlib.Path(sys.argv[1]).write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
