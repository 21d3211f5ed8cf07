#!/usr/bin/env python3
"""Writes the C++ form of bug_checks.json: generate_bug_checks.py RULES_DIR OUTPUT.cpp

A rule whose `observed` names a bug check, BC(119,1), belongs to it, beside those that the file lists.
"""
import pathlib
import re
import sys

sys.dont_write_bytecode = True
from generate_table import USING, literal, load, load_areas


class ObservedRules:
    """The rules that name a bug check, by code, and by code and value of the first parameter."""

    def __init__(self, areas):
        self.by_code, self.by_value = {}, {}
        for area in areas:
            for rule in area["rules"]:
                for code, parameter in re.findall(r"BC\(([0-9A-F]+)(?:,([^)]*))?\)", rule["observed"]):
                    self.by_code.setdefault(int(code, 16), []).append(rule["id"])
                    if re.fullmatch(r"[0-9A-F]+", parameter):
                        self.by_value.setdefault((int(code, 16), int(parameter, 16)), []).append(rule["id"])


def both(observed, listed, ids, where):
    for rule in listed:
        if rule not in ids:
            sys.exit(f"bug_checks.json: {where} names {rule}, which is no rule")
        if rule in observed:
            sys.exit(f"bug_checks.json: {where} lists {rule}, which names it already")
    return literal(" ".join(dict.fromkeys(observed + listed)))


def main():
    rules_dir, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    areas = load_areas(rules_dir)
    ids = {rule["id"] for area in areas for rule in area["rules"]}
    observed = ObservedRules(areas)
    base = load(rules_dir / "pages.json")["base"]
    value_lines, check_lines, known, values_known = [], [], set(), set()
    for check in load(rules_dir / "bug_checks.json")["bug_checks"]:
        code = int(check["code"], 16)
        known.add(code)
        first = len(value_lines)
        for value in check["values"]:
            number = int(value["value"], 16)
            if (code, number) in values_known:
                sys.exit(f"bug_checks.json: {check['code']} has {value['value']} twice")
            values_known.add((code, number))
            where = f"{check['code']} {value['value']}"
            value_lines.append("    {" + ", ".join([
                f"{number:#x}", literal(value["name"]), literal(value["meaning"]), str(value["published"]).lower(),
                both(observed.by_value.get((code, number), []), value["rules"], ids, where), literal("\n".join(value["causes"]))]) + "},")
        check_lines.append("    {" + ", ".join([
            f"{code:#x}", literal(check["name"]), literal(base + check["page"]), literal(check["meaning"]),
            str(check["live_dump"]).lower(), str(check["complete"]).lower(),
            "{" + ", ".join(map(literal, check["parameters"])) + "}",
            both(observed.by_code.get(code, []), check["rules"], ids, check["code"]), literal("\n".join(check["causes"])),
            f"{{kValues + {first}, {len(value_lines) - first}}}"]) + "},")
    for code in sorted(set(observed.by_code) - known):
        sys.exit(f"bug_checks.json: {observed.by_code[code]} name {code:#x}, which is not there")
    # 0x116 and its like have a pointer or a status as first parameter: no value of it is special.
    for code, number in sorted(observed.by_value):
        if (code, number) not in values_known and any(code == known_code for known_code, _ in values_known):
            sys.exit(f"bug_checks.json: {observed.by_value[code, number]} name {code:#x} with {number:#x}, which is not there")
    lines = [
        "// Generated from rules/bug_checks.json by rules/generate_bug_checks.py.",
        '#include "verifier/bug_check_table.h"',
        "",
        "namespace dxgkit::verifier::table {",
        USING,
        "",
        "static constinit const BugCheckValue kValues[] = {", *value_lines, "};",
        "",
        "constinit const BugCheck kBugChecks[] = {", *check_lines, "};", f"const size_t kBugCheckCount = {len(check_lines)};",
        "",
        "}  // namespace dxgkit::verifier::table",
        "",
    ]
    output.write_text("\n".join(lines), encoding="utf-8")


main()
