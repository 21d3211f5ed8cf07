#!/usr/bin/env python3
"""Writes the C++ table of the rulebook: generate_table.py RULES_DIR OUTPUT.cpp"""
import json
import pathlib
import re
import sys

TEXTS = ("why", "fix", "wrong", "right")


# What each generated table needs for its literals.
USING = "using namespace std::string_view_literals;"


def literal(text):
    """With its length: a compiler that has to count takes 40 s for the rulebook, and leaves code that fills the table in each process."""
    return json.dumps(text, ensure_ascii=False) + "sv"


def load(path):
    return json.loads(path.read_text(encoding="utf-8"))


def load_areas(rules_dir):
    areas = []
    for path in rules_dir.glob("*.json"):
        document = load(path)
        if "area" in document:
            if path.stem != document["area"]:
                sys.exit(f"{path}: the file is named after another area than {document['area']}")
            areas.append(document)
    return sorted(areas, key=lambda area: area["order"])


def load_texts(rules_dir, areas):
    """The texts of each rule."""
    texts = {}
    for path in sorted((rules_dir / "explain").glob("*.json")):
        if path.stem not in {area["area"] for area in areas}:
            sys.exit(f"{path}: there is no area {path.stem}")
        for rule, entry in load(path).items():
            if not rule.startswith(path.stem + "-"):
                sys.exit(f"{path}: {rule} is of another area")
            if set(entry) != set(TEXTS) or not all(entry[name].strip() for name in TEXTS):
                sys.exit(f"{path}: {rule} needs the texts {', '.join(TEXTS)}, and no others")
            if entry["wrong"] == entry["right"]:
                sys.exit(f"{path}: {rule} has the same example twice")
            texts[rule] = entry
    for area in areas:
        ids = {rule["id"] for rule in area["rules"]}
        for rule in sorted(ids - set(texts)):
            sys.exit(f"explain/{area['area']}.json: {rule} has no texts")
        for rule in sorted(rule for rule in texts if rule.startswith(area["area"] + "-") and rule not in ids):
            sys.exit(f"explain/{area['area']}.json: {rule} is no rule")
    return texts


def is_page(source):
    """Whether the source is a page that states something of the rule: neither a report, nor a page beside a choice that is all ours."""
    return not re.search(r"\(our choice\)$|^no public source|^field reports?\b|^event text$|bring-up (notes|logs)", source, re.IGNORECASE)


class Pages:
    """Addresses of the pages that sources name. A remark in brackets behind a title does not belong to it."""

    def __init__(self, path):
        document = load(path)
        self.base, self.paths, self.used = document["base"], document["pages"], set()

    def address(self, source):
        for title in (source, re.sub(r"\s*\([^()]*\)$", "", source)):
            if title in self.paths:
                self.used.add(title)
                return self.base + self.paths[title]
        return ""

    def refuse_unused(self, path):
        for title in sorted(set(self.paths) - self.used):
            sys.exit(f"{path}: no rule names the page {title}")


def main():
    rules_dir, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    areas = load_areas(rules_dir)
    texts = load_texts(rules_dir, areas)
    pages = Pages(rules_dir / "pages.json")
    reasons = load(rules_dir / "situations.json")["no_situation"]
    gaps = load(rules_dir / "gaps.json")["gaps"]

    area_lines, page_lines, rule_lines = [], [], []
    seen = set()
    for area in areas:
        area_lines.append(f'    {{{literal(area["area"])}, {literal(area["title"])}, {len(seen)}, {len(area["rules"])}}},')
        for number, rule in enumerate(area["rules"], start=1):
            if rule["id"] != f'{area["area"]}-{number:02}' or rule["id"] in seen:
                sys.exit(f'{area["area"]}: {rule["id"]} is out of order; a withdrawn rule keeps its number')
            seen.add(rule["id"])
            if not rule["our_choice"] and "our choice" in json.dumps(rule).lower():
                sys.exit(f'{rule["id"]}: it says that something is our choice, and our_choice is false')
            if not rule["our_choice"] and not any(is_page(source) for source in rule["sources"]):
                sys.exit(f'{rule["id"]}: no page states it, and our_choice is false')
            who = {"K": "kKernel", "M": "kMiniport", "T": "kThunkCaller"}[rule["who"]]
            fields = [
                literal(rule["id"]), literal(rule["level"]), f"Who::{who}", literal(rule["statement"]),
                literal(rule["observed"]), literal("; ".join(rule["sources"])),
                f'{{kPages + {len(page_lines)}, {len(rule["sources"])}}}',
                *(literal(texts[rule["id"]][name]) for name in TEXTS), literal(reasons.get(rule["id"], "")),
                str(rule["seed"]).lower(), str(rule["our_choice"]).lower(),
                str(any(is_page(source) for source in rule["sources"])).lower(),
            ]
            rule_lines.append("    {" + ", ".join(fields) + "},")
            for source in rule["sources"]:
                page_lines.append("    {" + literal(" ".join(source.split())) + ", " + literal(pages.address(source)) + "},")
    pages.refuse_unused(rules_dir / "pages.json")
    lines = [
        "// Generated from rules/*.json by rules/generate_table.py.",
        '#include "verifier/rule_catalogue_table.h"',
        "",
        "namespace dxgkit::verifier::table {",
        USING,
        "",
        "constinit const RuleArea kAreas[] = {", *area_lines, "};", f"const size_t kAreaCount = {len(areas)};",
        "",
        "static constinit const RulePage kPages[] = {", *page_lines, "};",
        "",
        "constinit const Rule kRules[] = {", *rule_lines, "};", f"const size_t kRuleCount = {len(seen)};",
        "",
        "constinit const RuleGap kGaps[] = {", *(f'    {{{literal(gap["id"])}, {literal(gap["text"])}}},' for gap in gaps), "};",
        f"const size_t kGapCount = {len(gaps)};",
        "",
        "}  // namespace dxgkit::verifier::table",
        "",
    ]
    output.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
