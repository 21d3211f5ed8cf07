#!/usr/bin/env python3
"""Writes what arguments.tsv and the ABI say of the arguments of D3DKMT functions: the table (table.h), and the same as constants (facts.h).

usage: generate.py LAYOUT.json arguments.tsv thunks.tsv TABLE.cpp FACTS.h LIMITS.h
"""
import hashlib
import json
import re
import sys

KEPT = ("D3DKMT_HANDLE", "D3DGPU_VIRTUAL_ADDRESS", "HANDLE")
NAMES = {"D3DKMT_HANDLE": (4, "kHandle"), "D3DGPU_VIRTUAL_ADDRESS": (8, "kGpuAddress"), "LUID": (8, "kLuid")}
SCALARS = {"unsigned char": 1, "char": 1, "unsigned short": 2, "short": 2, "unsigned int": 4, "int": 4, "unsigned long": 4, "long": 4,
           "unsigned long long": 8, "long long": 8, "D3DKMT_HANDLE": 4, "D3DGPU_VIRTUAL_ADDRESS": 8}


class Facts:
    def __init__(self, layout_path, hand_path, thunks_path):
        with open(layout_path, encoding="utf-8") as file:
            data = json.load(file)
        self.records, self.aliases, self.types, self.enums = (data[key] for key in ("records", "aliases", "types", "enums"))
        self.points = {name: point for name, point in data["entry_points"].items() if name.startswith("D3DKMT")}
        self.values = dict(data["constants"])
        for enum in self.enums.values():
            self.values.update(enum["values"])
        with open(thunks_path, encoding="utf-8") as file:
            self.implemented = {line.split("\t")[0] for line in file if line.strip() and not line.startswith("#")}
        self.writes, self.local, self.hand, self.used, self.limits = {}, {}, {}, set(), {}
        with open(hand_path, encoding="utf-8") as file:
            for line in file:
                self.read_line(line.rstrip("\n"))

    def read_line(self, line):
        if not line or line.startswith("#"):
            return
        if line.startswith("record "):
            _, name, size, *members = line.split(" ")
            parts = [member.split(":") for member in members]
            self.records[name] = {"size": int(size), "members": [
                {"name": p[0], "type": "HANDLE" if len(p) == 2 else "USHORT", "offset": int(p[1]), "size": int(p[2]) if len(p) > 2 else 8} for p in parts]}
            return
        if line.startswith("limit "):
            _, name, value = line.split(" ")
            self.limits[name] = int(value)
            return
        name, kind, *rest = line.split("\t")
        if kind == "writes":
            self.writes[name] = rest[0]
        elif kind == "local":
            self.local[name] = rest[0]
        else:
            record, member = name.split(".", 1)
            self.hand.setdefault(record, []).append((member, kind, rest))

    def number(self, text):
        """A number, or a name of the ABI."""
        return int(text, 0) if text[0].isdigit() else self.values[text]

    def parts(self, kind, rest):
        """Of a line of a member: OF, the limit, CONDITION; each may be missing."""
        rest = [*rest]
        most = next((one for one in rest if one.startswith("most ")), None)
        if most is not None:
            rest.remove(most)
        when = rest.pop() if rest and (rest[-1][0] == "@" or "=" in rest[-1] or (rest[-1] != rest[0] and rest[-1].startswith("Flags."))) else None
        of = rest[0] if rest else None
        return of, self.number(most.removeprefix("most ")) if most else None, when

    def resolve(self, kind):
        kind = kind.replace("const ", "").strip()
        while kind in self.aliases and kind not in KEPT:
            kind = self.aliases[kind].replace("const ", "").strip()
        return kind

    def size_of(self, kind):
        if kind.endswith("*"):
            return 8
        for table in (self.records, self.types):
            if kind in table:
                return table[kind]["size"]
        return 4 if kind in self.enums else SCALARS[kind]

    def is_pointer(self, kind):
        return kind.endswith("*") or kind.startswith("PFN") or kind == "HANDLE" or self.types.get(kind, {}).get("kind") == "pointer"


class Table:
    def __init__(self, facts):
        self.facts = facts
        self.numbers = {}     # structure name -> number
        self.structures = []  # (name, bytes, fields)
        self.named = []       # lists of members that name something: (offset, width, what)
        self.functions = sorted(facts.points)

    def member_of(self, record, name):
        for member in self.facts.records[record]["members"]:
            if member["name"] == name:
                return member
        if "." in name:  # a member of a structure inside
            for member in self.facts.records[record]["members"]:
                if name.startswith(member["name"] + ".") and self.facts.resolve(member["type"]) in self.facts.records:
                    inner = self.member_of(self.facts.resolve(member["type"]), name[len(member["name"]) + 1:])
                    return {**inner, "offset": inner["offset"] + member["offset"]}
        sys.exit(f"arguments.tsv: {record} has no member {name}")

    def condition(self, record, text):
        """(offset, width, mask, value, test, function)"""
        if text is None:
            return (0, 0, 0, 0, "kIs", -1)
        if text.startswith("@"):
            return (0, 0, 0, 0, "kIs", self.functions.index(text[1:]))
        found = re.fullmatch(r"([\w.]+?)(!?=)(\w+)", text)
        if found is None:
            member = self.member_of(record, text)
            mask = ((1 << member["width"]) - 1) << member["bit"]
            return (member["offset"], member["size"], mask, 0, "kIsNot", -1)
        member = self.member_of(record, found[1])
        value = self.facts.number(found[3])
        return (member["offset"], member["size"], (1 << (8 * member["size"])) - 1, value, "kIs" if found[2] == "=" else "kIsNot", -1)

    def elements(self, record, member, of):
        """Count place, fixed count, bytes of an element, its structure, whether these are bytes, and which of its members name something."""
        count, _, kind = (of or "1").partition("*")
        named = -1
        if kind.isdigit():
            size, structure, is_bytes = int(kind), -1, int(kind) == 1
        else:
            pointer = self.facts.resolve(member["type"])
            target = kind or ("void" if pointer == "PVOID" else self.facts.resolve(pointer[:-1]))
            if target == "void":
                size, structure, is_bytes = 1, -1, True
            elif target.endswith("*"):
                size, structure, is_bytes = 8, self.pointers_to(self.facts.resolve(target[:-1])), False
            else:
                size, structure, is_bytes = self.facts.size_of(target), self.structure(target), False
                named = self.names_of(target)
        if count.isdigit():
            return (0, 0), int(count), size, structure, is_bytes, named
        place = self.member_of(record, count)
        return (place["offset"], place["size"]), 0, size, structure, is_bytes, named

    def own_fields(self, record):
        """Fields of the lines of `record` itself: offset -> list of rows."""
        rows = {}
        for name, kind, rest in self.facts.hand.get(record, []):
            self.facts.used.add((record, name, kind, tuple(rest)))
            member = self.member_of(record, name)
            of, most, when = self.facts.parts(kind, rest)
            row = {"name": name, "kind": kind, "use": "kIn", "memory": "kNone", "count": (0, 0), "fixed": 0, "bytes": 0, "structure": -1,
                   "is_bytes": False, "most": 0, "named": -1, "when": self.condition(record, when)}
            if kind in ("in", "both", "room"):
                row["kind"] = "block"
                row["use"] = USES[kind]
                row["count"], row["fixed"], row["bytes"], row["structure"], row["is_bytes"], row["named"] = self.elements(record, member, of)
                row["most"] = most or self.facts.limits["bytes" if row["is_bytes"] else "list"]
            elif kind == "text":
                row["most"] = most or self.facts.limits["text"]
            elif kind == "address":
                row["memory"] = "k" + of.capitalize()
            elif kind == "event":
                row["kind"] = "descriptor"
                if member["type"].endswith("]"):  # one field for each, with a condition of its own
                    place = self.member_of(record, of)
                    for i in range(member["size"] // 8):
                        rows[member["offset"] + 8 * i] = [{**row, "when": (place["offset"], place["size"], 0xFFFFFFFF, i, "kIsMore", -1)}]
                    continue
            rows.setdefault(member["offset"], []).append(row)
        return rows

    def fields(self, record):
        """Rows of a record with those of the structures inside: (offset, row), by offset. Each pointer has one."""
        out = {offset: list(rows) for offset, rows in self.own_fields(record).items()}
        for member in self.facts.records[record]["members"]:
            kind = member["type"].replace("const ", "")
            if kind.endswith("{}"):
                continue
            base, numbers = kind.split("[")[0], re.findall(r"\[(\d+)\]", kind)
            count = 1
            for number in numbers:
                count *= int(number)
            base = self.facts.resolve(base)
            if base in self.facts.records:
                step = self.facts.records[base]["size"]
                for i in range(count):
                    at = member["offset"] + i * step
                    for offset, row in self.fields(base):
                        moved = dict(row)
                        moved["name"] = f"{member['name']}.{row['name']}"
                        if row["count"][1]:
                            moved["count"] = (row["count"][0] + at, row["count"][1])
                        when = row["when"]
                        if when[1]:
                            moved["when"] = (when[0] + at, *when[1:])
                        out.setdefault(at + offset, []).append(moved)
            elif self.facts.is_pointer(base) and member["offset"] not in out:
                sys.exit(f"arguments.tsv says nothing of {record}.{member['name']} ({member['type']})")
        return sorted(((offset, row) for offset, rows in out.items() for row in rows), key=lambda pair: pair[0])

    def names_in(self, kind, base=0):
        """Handles, GPU virtual addresses and LUIDs in a type: (offset, width, what)."""
        if kind in NAMES:
            return {(base, *NAMES[kind])}
        out = set()
        for member in self.facts.records.get(kind, {"members": []})["members"]:
            inner = member["type"].replace("const ", "")
            if inner.endswith("{}") or "bit" in member or inner.endswith("*"):
                continue
            inner, numbers = inner.split("[")[0], re.findall(r"\[(\d+)\]", inner)
            count = 1
            for number in numbers:
                count *= int(number)
            inner = self.facts.resolve(inner)
            if inner not in NAMES and inner not in self.facts.records:
                continue
            for i in range(count):
                out |= self.names_in(inner, base + member["offset"] + i * self.facts.size_of(inner))
        return out

    def names_of(self, kind):
        """The number of the list of a type; -1: nothing in it names anything."""
        found = sorted(self.names_in(kind))
        if not found:
            return -1
        if found not in self.named:
            self.named.append(found)
        return self.named.index(found)

    def structure(self, name):
        """The number of a structure that has fields; -1 for plain bytes."""
        if name not in self.facts.records:
            return -1
        if name not in self.numbers:
            fields = self.fields(name)
            self.numbers[name] = self.emit(name, self.facts.records[name]["size"], fields) if fields else -1
        return self.numbers[name]

    def emit(self, name, size, fields):
        self.structures.append((name, size, fields))
        return len(self.structures) - 1

    def pointers_to(self, target):
        name = target + "*"
        if name not in self.numbers:
            row = {"name": "", "kind": "block", "use": "kIn", "memory": "kNone", "count": (0, 0), "fixed": 1, "bytes": self.facts.size_of(target),
                   "structure": self.structure(target), "is_bytes": False, "most": 1, "named": self.names_of(target), "when": (0, 0, 0, 0, "kIs", -1)}
            self.numbers[name] = self.emit(name, 8, [(0, row)])
        return self.numbers[name]

    def arguments(self, function):
        """(structure number, whether the function takes one structure, shown members)"""
        params = self.facts.points[function]["params"]
        if len(params) == 1 and params[0][0].endswith("*"):
            target = self.facts.resolve(params[0][0][:-1])
            if target in self.facts.records:
                fields = self.fields(target) if self.travels(function) else []
                return self.emit(target, self.facts.records[target]["size"], fields), True, self.shown(target)
        members = [{"name": name or f"a{i}", "type": kind, "offset": 8 * i, "size": 8} for i, (kind, name) in enumerate(params) if kind != "void"]
        for member in members:
            kind = self.facts.resolve(member["type"])
            if not self.facts.is_pointer(kind):
                member["size"] = self.facts.size_of(kind)
        self.facts.records[function] = {"size": 8 * len(members), "members": members}
        fields = self.fields(function) if self.travels(function) else []
        return self.emit(function, 8 * len(members), fields), False, self.shown(function)

    def travels(self, function):
        return function in self.facts.implemented and function not in self.facts.local

    def shown(self, record, prefix="", base=0):
        out, taken = [], set()
        for member in self.facts.records[record]["members"]:
            kind = member["type"].replace("const ", "")
            at = base + member["offset"]
            if kind.endswith("{}") or kind.endswith("]") or "Reserved" in member["name"] or at in taken or "bit" in member:
                continue
            resolved = self.facts.resolve(kind)
            if resolved in self.facts.records:
                members = self.facts.records[resolved]["members"]
                whole = next((m for m in members if m["name"] == "Value" and m["size"] == member["size"]), None)
                if whole is None and member["size"] in (1, 2, 4, 8) and all("bit" in m for m in members):
                    whole = True
                if whole is not None:
                    out.append((prefix + member["name"], at, member["size"], True, False))
                    taken.add(at)
                elif member["size"] <= 128:
                    out += self.shown(resolved, f"{prefix}{member['name']}.", at)
                continue
            size = member["size"]
            if size not in (1, 2, 4, 8):
                continue
            taken.add(at)
            pointer = self.facts.is_pointer(resolved) or resolved.startswith("POBJECT")
            hexadecimal = pointer or resolved in ("D3DKMT_HANDLE", "D3DGPU_VIRTUAL_ADDRESS") or member["name"].endswith("Flags")
            out.append((prefix + member["name"], at, size, hexadecimal, resolved.endswith("*")))
        return out


USES = {"in": "kIn", "both": "kBoth", "room": "kRoom", "text": "kIn"}
KINDS = {"block": "kBlock", "text": "kText", "descriptor": "kDescriptor", "descriptor_out": "kDescriptorOut", "address": "kAddress", "into": "kInto",
         "presence": "kPresence", "pages": "kPages", "value": "kValue"}


def field_line(offset, row):
    place, width, mask, value, test, function = row["when"]
    when = f"{{{{{place}, {width}}}, {mask:#x}ULL, {value:#x}ULL, Test::{test}, {function}}}" if width or function >= 0 else "{}"
    return (f'    {{"{row["name"]}", {offset}, Kind::{KINDS[row["kind"]]}, Use::{row["use"]}, Memory::{row["memory"]}, '
            f'{{{row["count"][0]}, {row["count"][1]}}}, {row["fixed"]}, {row["bytes"]}, {row["structure"]}, {row["most"]}, {when}, {row["named"]}}},')


def functions_of(facts, table):
    """(name, structure, whether it takes one, when it is written back, why it stays local, shown members, names) of each function, by number."""
    functions = []
    for name in table.functions:
        structure, one, shown = table.arguments(name)
        default = "never" if facts.points[name]["params"][:1] and facts.points[name]["params"][0][0].startswith("const") or not one else "success"
        writes = {"never": "kNever", "success": "kOnSuccess", "always": "kAlways"}[facts.writes.get(name, default)]
        local = facts.local.get(name)
        if name not in facts.implemented:
            local, writes = "the kernel refuses it", "kNever"
        record = table.structures[structure][0]
        named = table.names_of(record) if one else -1
        functions.append((name, structure, one, writes, local, shown, named))
    return functions


def write_table(facts, table, path):
    functions = functions_of(facts, table)
    out = ["// Generated by src/arguments/generate.py. Do not edit.", '#include "arguments/table.h"', "", "#include <array>", "", "namespace dxgkit::arguments {", "namespace {", ""]
    for number, (name, size, fields) in enumerate(table.structures):
        if fields:
            out += [f"constexpr std::array<Field, {len(fields)}> kFields{number} = {{{{  // {name}", *(field_line(*f) for f in fields), "}};"]
    out += ["", f"constexpr std::array<Structure, {len(table.structures)}> kStructures = {{{{"]
    out += [f'    {{"{name}", {size}, {f"kFields{number}" if fields else "{}"}}},' for number, (name, size, fields) in enumerate(table.structures)]
    out += ["}};", ""]
    rows = []
    for number, (name, structure, one, writes, local, shown, named) in enumerate(functions):
        if shown:
            out += [f"constexpr std::array<Shown, {len(shown)}> kShown{number} = {{{{"]
            out += [f'    {{"{s[0]}", {{{s[1]}, {s[2]}}}, {str(s[3]).lower()}, {str(s[4]).lower()}}},' for s in shown]
            out += ["}};"]
        reason = f'"{local}"' if local else "nullptr"
        rows.append(f'    {{"{name}", {structure}, {str(one).lower()}, Writes::{writes}, {reason}, {f"kShown{number}" if shown else "{}"}, {named}}},')
    for number, members in enumerate(table.named):
        out += [f"constexpr std::array<Named, {len(members)}> kNamed{number} = {{{{", *(f"    {{{{{m[0]}, {m[1]}}}, Names::{m[2]}}}," for m in members), "}};"]
    out += [f"constexpr std::array<std::span<const Named>, {len(table.named)}> kNamed = {{{{", *(f"    kNamed{i}," for i in range(len(table.named))), "}};"]
    out += ["", f"constexpr std::array<Function, {len(rows)}> kFunctions = {{{{", *rows, "}};", ""]
    version = hashlib.sha256("\n".join(out).encode()).hexdigest()[:16]
    out += ["}  // namespace", "", "std::span<const Function> functions() { return kFunctions; }", "std::span<const Structure> structures() { return kStructures; }",
            "std::span<const Named> named(int16_t list) { return list < 0 ? std::span<const Named>{} : kNamed[static_cast<size_t>(list)]; }",
            f"uint64_t table_version() {{ return 0x{version}ULL; }}", "", "}  // namespace dxgkit::arguments", ""]
    for record, lines in facts.hand.items():
        for name, kind, rest in lines:
            if (record, name, kind, tuple(rest)) not in facts.used:
                sys.exit(f"arguments.tsv: no function has {record}.{name}")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out))
    return functions


def expression(facts, record, text):
    """A condition as C++ over `of`, a structure of the type `record`."""
    found = re.fullmatch(r"([\w.]+?)(!?=)(\w+)", text)
    return f"of.{found[1]} {'==' if found[2] == '=' else '!='} {found[3]}" if found else f"of.{text} != 0"


def member_facts(facts, table, record, name, lines):
    """What the lines of one member that is a block or a text say. A function in a condition does not count: who names the member has chosen."""
    kind_of = record + "Arguments" if record in facts.points else record
    member = table.member_of(record, name)
    uses, mosts, counts, elements, body = set(), set(), [], set(), []
    for kind, rest in lines:
        if kind not in USES:
            continue
        of, most, when = facts.parts(kind, rest)
        if kind == "text":
            count, size, is_bytes, fixed = "0", 2, False, None
        else:
            _, fixed, size, _, is_bytes, _ = table.elements(record, member, of)
            name_of_count = (of or "1").partition("*")[0]
            count = str(fixed) if name_of_count.isdigit() else f"of.{name_of_count}"
            fixed = fixed if name_of_count.isdigit() else None
        uses.add(USES[kind])
        mosts.add(most or facts.limits["text" if kind == "text" else "bytes" if is_bytes else "list"])
        elements.add(size)
        counts.append(fixed)
        condition = expression(facts, record, when) if when and when[0] != "@" else None
        body.append(f"    if ({condition}) return {count};" if condition else f"    return {count};")
    if not body:
        return []
    if not body[-1].startswith("    return"):
        body.append("    return 0;")
    if len(uses) != 1 or len(mosts) != 1 or len(elements) != 1:
        sys.exit(f"arguments.tsv: the lines of {record}.{name} differ in what they are")
    if "." in name:
        sys.exit(f"arguments.tsv: {record}.{name} is in a structure without a name, which facts cannot have")
    of = " of" if any("of." in line for line in body) else ""
    return ["template <>", f"struct MemberFacts<&{kind_of}::{name}> {{", f"  static constexpr Use kUse = Use::{uses.pop()};",
            f"  static constexpr size_t kMost = {mosts.pop()}, kElementBytes = {elements.pop()};", f"  static constexpr bool kIsOne = {str(set(counts) == {1}).lower()};",
            f"  static constexpr size_t count(const {kind_of}&{of}) {{", *body, "  }", "};", ""]


def write_facts(facts, table, functions, path):
    out = ["// Generated by src/arguments/generate.py. Do not edit. Part of arguments/facts.h.", "#pragma once", "",
           "namespace dxgkit::arguments {", ""]
    for name, _, one, writes, _, _, _ in functions:
        if name not in facts.implemented:
            continue
        if one:
            out += ["template <>", f"struct FunctionFacts<&{name}> {{", f'  static constexpr std::string_view name() {{ return "{name}"; }}',
                    f"  static constexpr Writes kWrites = Writes::{writes};", "};", ""]
        elif any(kind in USES for _, kind, _ in facts.hand.get(name, [])):
            members = [f"  {kind} {parameter or f'a{i}'};" for i, (kind, parameter) in enumerate(facts.points[name]["params"])]
            out += [f"/// The parameters of {name}.", f"struct {name}Arguments {{", *members, "};", ""]
    for record, lines in facts.hand.items():
        grouped = {}
        for name, kind, rest in lines:
            grouped.setdefault(name, []).append((kind, rest))
        for name, of_member in grouped.items():
            out += member_facts(facts, table, record, name, of_member)
    out += ["}  // namespace dxgkit::arguments", ""]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out))


def write_limits(facts, path):
    names = {"list": "/// The most elements of one list.\ninline constexpr size_t kMaxListElements", "bytes": "/// The most bytes of one block of private data.\ninline constexpr size_t kMaxPrivateBytes",
             "text": "/// The most units of a text, with its terminator: MAX_PATH.\ninline constexpr size_t kMaxTextUnits"}
    out = ["// Generated by src/arguments/generate.py. Do not edit.", "#pragma once", "", "#include <cstddef>", "", "namespace dxgkit::arguments {", "",
           "// What a member has no limit of its own for.", *(f"{text} = {facts.limits[name]};" for name, text in names.items()), "", "}  // namespace dxgkit::arguments", ""]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out))


def main():
    layout, hand, thunks, table_path, facts_path, limits_path = sys.argv[1:]
    facts = Facts(layout, hand, thunks)
    table = Table(facts)
    functions = write_table(facts, table, table_path)
    write_facts(facts, table, functions, facts_path)
    write_limits(facts, limits_path)


if __name__ == "__main__":
    main()
