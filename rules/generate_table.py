#!/usr/bin/env python3
"""Writes the C++ table of the rulebook: generate_table.py RULES_DIR OUTPUT.cpp"""
import json
import pathlib
import sys


def literal(text):
    return json.dumps(text, ensure_ascii=False)


def main():
    rules_dir, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    areas = []
    for path in rules_dir.glob("*.json"):
        document = json.loads(path.read_text(encoding="utf-8"))
        if "area" in document:
            if path.stem != document["area"]:
                sys.exit(f"{path}: the file is named after another area than {document['area']}")
            areas.append(document)
    areas.sort(key=lambda area: area["order"])

    lines = [
        "// Generated from rules/*.json by rules/generate_table.py.",
        '#include "verifier/rule_catalogue_table.h"',
        "",
        "namespace dxgkit::verifier::table {",
        "",
        "const RuleArea kAreas[] = {",
    ]
    first = 0
    for area in areas:
        lines.append(f'    {{{literal(area["area"])}, {literal(area["title"])}, {first}, {len(area["rules"])}}},')
        first += len(area["rules"])
    lines += ["};", f"const size_t kAreaCount = {len(areas)};", "", "const Rule kRules[] = {"]
    seen = set()
    for area in areas:
        for number, rule in enumerate(area["rules"], start=1):
            if rule["id"] != f'{area["area"]}-{number:02}' or rule["id"] in seen:
                sys.exit(f'{area["area"]}: {rule["id"]} is out of order; a withdrawn rule keeps its number')
            seen.add(rule["id"])
            who = {"K": "kKernel", "M": "kMiniport", "T": "kThunkCaller"}[rule["who"]]
            fields = [
                literal(rule["id"]), literal(rule["level"]), f"Who::{who}", literal(rule["statement"]),
                literal(rule["observed"]), literal("; ".join(rule["sources"])),
                str(rule["seed"]).lower(), str(rule["our_choice"]).lower(),
            ]
            lines.append("    {" + ", ".join(fields) + "},")
    lines += ["};", f"const size_t kRuleCount = {len(seen)};", "", "}  // namespace dxgkit::verifier::table", ""]
    output.write_text("\n".join(lines), encoding="utf-8")


main()
