#!/usr/bin/env python3
"""Writes the C++ form of situations.json: generate_situations.py SITUATIONS.json HEADER.h TABLE.cpp

The header has an enumerator for each situation and each fact, the table their texts.
"""
import json
import pathlib
import re
import sys

from generate_table import USING, literal


def enumerator(name):
    return "k" + "".join(part[0].upper() + part[1:] for part in re.split(r"[.-]", name))


def header(data):
    lines = [
        "// Generated from rules/situations.json by rules/generate_situations.py.",
        "#pragma once",
        "",
        "#include <cstddef>",
        "#include <cstdint>",
        "",
        "namespace dxgkit::verifier {",
        "",
        "/// What a driver may be confronted with; situation_catalogue() says each.",
        "enum class Situation : uint16_t {",
    ]
    lines += [f"  {enumerator(one['id'])}," for one in data["situations"]]
    lines += ["};", f"inline constexpr size_t kSituations = {len(data['situations'])};", "",
              "/// What an adapter or a run must have for a situation to be possible.",
              "enum class SituationFact : uint8_t {"]
    lines += [f"  {enumerator(fact)}," for fact in data["facts"]]
    lines += ["};", f"inline constexpr size_t kSituationFacts = {len(data['facts'])};", "", "}  // namespace dxgkit::verifier", ""]
    return "\n".join(lines)


def table(data):
    facts = list(data["facts"])
    lines = [
        "// Generated from rules/situations.json by rules/generate_situations.py.",
        '#include "verifier/situation_table.h"',
        "",
        "namespace dxgkit::verifier::table {",
        USING,
        "",
        "constinit const SituationInfo kSituationTable[kSituations] = {",
    ]
    for one in data["situations"]:
        needs = sum(1 << facts.index(fact) for fact in one["needs"])
        lines.append("    {" + ", ".join([literal(one["id"]), literal(one["ddi"]), literal(one["when"]), literal(" ".join(one["rules"])), f"{needs:#x}"]) + "},")
    lines += ["};", "constinit const std::string_view kFactTexts[kSituationFacts] = {"]
    lines += [f"    {literal(text)}," for text in data["facts"].values()]
    lines += ["};", "", "}  // namespace dxgkit::verifier::table", ""]
    return "\n".join(lines)


def main():
    data = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    if len(data["facts"]) > 64:
        sys.exit("situations.json: a set of facts has 64 bits")
    ids = [one["id"] for one in data["situations"]]
    if len(set(map(enumerator, ids))) != len(ids):
        sys.exit("situations.json: two situations have one name")
    for path, text in zip(sys.argv[2:4], (header(data), table(data))):
        path = pathlib.Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Half of the sources include the header, and most changes of the file are none of its.
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


main()
