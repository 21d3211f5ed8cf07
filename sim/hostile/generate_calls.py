#!/usr/bin/env python3
"""Writes calls.cpp: what the arguments of every implemented D3DKMT call look like, for whoever makes such calls at random.

usage: generate_calls.py LAYOUT.json thunks.tsv OUTPUT.cpp
"""
import json
import re
import sys

# What a handle's name says about what it names. First match.
HANDLES = [("HwQueueProgressFence", "Sync"), ("HwQueue", "HwQueue"), ("HwContext", "HwContext"), ("PagingQueue", "PagingQueue"),
           ("KeyedMutex", "KeyedMutex"), ("Shar", "Global"), ("Sync", "Sync"), ("Object", "Sync"), ("Fence", "Sync"), ("Adapter", "Adapter"),
           ("Context", "Context"), ("Device", "Device"), ("Resource", "Resource"), ("", "Allocation")]


def handle_pool(name):
    return next(pool for part, pool in HANDLES if part in name)


class Layout:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        self.records, self.aliases, self.types, self.enums = (data[key] for key in ("records", "aliases", "types", "enums"))
        self.points = data["entry_points"]
        self.emitted = {}  # record name -> number, in order of emission

    def resolve(self, kind):
        kind = kind.replace("const ", "").strip()
        while kind in self.aliases and kind != "D3DKMT_HANDLE" and kind != "D3DGPU_VIRTUAL_ADDRESS":
            kind = self.aliases[kind].replace("const ", "").strip()
        return kind

    def size_of(self, kind):
        if kind in ("D3DKMT_HANDLE",):
            return 4
        if kind == "D3DGPU_VIRTUAL_ADDRESS":
            return 8
        if kind.endswith("*"):
            return 8
        for table in (self.records, self.types):
            if kind in table:
                return table[kind]["size"]
        if kind in self.enums:
            return 4
        return {"unsigned char": 1, "char": 1, "unsigned short": 2, "short": 2, "unsigned int": 4, "int": 4, "unsigned long": 4, "long": 4,
                "unsigned long long": 8, "long long": 8}.get(kind, 8)

    def scalar(self, name, kind, size):
        """(kind of value, pool) of a member that is no record and no pointer."""
        last = name.split(".")[-1]
        if kind == "D3DKMT_HANDLE":
            return "kHandle", handle_pool(last)
        if kind == "HANDLE" or last == "hSyncFile":
            return "kNtHandle", None
        if kind.startswith("PFN"):
            return "kFunction", None
        if last.startswith("Reserved"):
            return "kReserved", None
        if kind == "D3DGPU_VIRTUAL_ADDRESS" or (size == 8 and "Address" in last):
            return "kAddress", None
        if re.match(r"Num|c[A-Z]", last) or last.endswith("Count"):
            return "kCount", None
        if "InPages" in last:
            return "kPages", None
        if "PrivateDriverDataSize" in last:
            return "kPrivateBytes", None
        if re.search(r"Size|Bytes|Length|Offset", last):
            return "kBytes", None
        if "Fence" in last or "Value" in last:
            return "kSmall", None
        if last in ("Type", "NodeOrdinal", "EngineAffinity", "Priority", "PhysicalAdapterIndex", "VidPnSourceId") or kind in self.enums:
            return "kSmall", None
        return "kNumber", None

    def fields(self, name):
        """Members of a record with nested records flattened: (name, offset, size, count, kind, pool, pointee, mask)."""
        out, bits = [], {}
        for member in self.records[name]["members"]:
            kind = member["type"].replace("const ", "")
            if kind.endswith("{}"):
                continue
            if "bit" in member:
                mask = ((1 << member["width"]) - 1) << member["bit"]
                known = 0 if member["name"].startswith("Reserved") else mask
                at = (member["offset"], member["size"])
                if at not in bits:
                    bits[at] = len(out)
                    out.append(["flags", member["offset"], member["size"], 1, "kFlags", None, None, 0])
                out[bits[at]][7] |= known
                continue
            if (member["offset"], member["size"]) in bits:
                continue  # the whole of the bits
            count = 1
            if kind.endswith("]"):
                kind, numbers = kind[:kind.index("[")], re.findall(r"\[(\d+)\]", kind)
                for number in numbers:
                    count *= int(number)
            kind = self.resolve(kind)
            if kind in self.records:
                inner = self.fields(kind)
                step = self.records[kind]["size"]
                for i in range(min(count, 4)):
                    for field in inner:
                        out.append([f"{member['name']}.{field[0]}", member["offset"] + i * step + field[1], *field[2:]])
                continue
            size = member["size"] // count
            if kind.endswith("*"):
                out.append([member["name"], member["offset"], 8, count, *self.pointer(member["name"], kind)])
                continue
            value, pool = self.scalar(member["name"], kind, size)
            if size not in (1, 2, 4, 8):
                value, count, size = "kNumber", member["size"], 1
            out.append([member["name"], member["offset"], size, count, value, pool, None, 0])
        return out

    def pointer(self, name, kind):
        """(kind of value, pool, pointee, mask) of a pointer."""
        target = self.resolve(kind[:-1])
        last = name.split(".")[-1]
        if target in self.records:
            return "kList", None, self.record(target), 0
        if target == "void" or target.endswith("*"):
            if "SystemMem" in last or "pSystemMem" in last:
                return "kMemory", None, None, 0
            if "PrivateDriverData" in last:
                return "kPrivateData", None, None, 0
            if last in ("Handle", "Context"):
                return "kOpaque", None, None, 0
            return "kBuffer", None, None, 0
        value, pool = self.scalar(last, target, self.size_of(target))
        key = f"<{value} {pool} {self.size_of(target)}>"
        if key not in self.emitted:
            self.emitted[key] = (len(self.emitted), self.size_of(target),
                                 [["", 0, self.size_of(target), 1, value, pool, None, 0]])
        return "kList", None, self.emitted[key][0], 0

    def record(self, name):
        if name not in self.emitted:
            self.emitted[name] = None
            number = len(self.emitted) - 1
            self.emitted[name] = (number, self.records[name]["size"], None)
            self.emitted[name] = (number, self.records[name]["size"], self.fields(name))
        return self.emitted[name][0]

    def parameters(self, function):
        """The record of a call's arguments: its structure, or its parameters side by side."""
        params = self.points[function]["params"]
        if len(params) == 1:
            target = self.resolve(params[0][0].replace("const ", "").rstrip("*"))
            if params[0][0].endswith("*") and target in self.records:
                return self.record(target), None
        fields, offset, kinds = [], 0, []
        for i, (kind, name) in enumerate(params):
            kinds.append((kind, offset))
            resolved = kind.replace("const ", "").strip()
            resolved = self.resolve(resolved) if not resolved.endswith("*") else resolved
            name = name or f"p{i}"
            if resolved.endswith("*"):
                target = self.resolve(resolved[:-1])
                if target in self.records or target != "void" and not target.startswith("OBJECT_ATTR"):
                    fields.append([name, offset, 8, 1, *self.pointer(name, resolved)])
                else:
                    fields.append([name, offset, 8, 1, "kBuffer", None, None, 0])
            else:
                size = self.size_of(resolved)
                value, pool = self.scalar(name, resolved, size)
                fields.append([name, offset, size, 1, value, pool, None, 0])
            offset += 8
        key = f"<{function}>"
        self.emitted[key] = (len(self.emitted), offset, fields)
        return self.emitted[key][0], kinds


def main():
    layout = Layout(sys.argv[1])
    with open(sys.argv[2], encoding="utf-8") as file:
        names = [line.split("\t")[0] for line in file if line.strip() and not line.startswith("#")]
    calls = []
    for name in names:
        number, kinds = layout.parameters(name)
        if kinds is None:
            kind = layout.points[name]["params"][0][0].replace("const ", "")
            body = f"return {name}(static_cast<{kind}>(arguments));"
        else:
            parts = ", ".join(f"take<{kind.replace('POBJECT_ATTRIBUTES', 'OBJECT_ATTRIBUTES*')}>(arguments, {offset})" for kind, offset in kinds)
            body = f"return {name}({parts});"
        calls.append(f'    {{"{name}", [](void* arguments) -> NTSTATUS {{ {body} }}, {number}}},')
    out = ["// Generated by sim/hostile/generate_calls.py. Do not edit.", '#include "sim/hostile/calls.h"', "", "#include <d3dkmthk.h>",
           "", "#include <array>", "#include <cstring>", "", "namespace dxgkit::hostile {", "namespace {", "",
           "template <typename T>", "T take(const void* arguments, size_t offset) {", "  T value;",
           "  std::memcpy(&value, static_cast<const char*>(arguments) + offset, sizeof value);", "  return value;", "}", ""]
    records = []
    for number, (name, (own, size, fields)) in enumerate(layout.emitted.items()):
        assert own == number
        rows = [f'    {{"{f[0]}", {f[1]}, {f[2]}, {f[3]}, Kind::{f[4]}, Pool::k{f[5] or "Allocation"}, {f[6] if f[6] is not None else -1}, '
                f'{f[7]:#x}U}},' for f in fields]
        if rows:
            out += [f"constexpr std::array<Field, {len(rows)}> kFields{number} = {{{{", *rows, "}};"]
        records.append(f'    {{"{name.strip("<>")}", {size}, {f"kFields{number}" if rows else "{}"}}},')
    out += ["", f"constexpr std::array<Record, {len(records)}> kRecords = {{{{", *records, "}};", "",
            f"constexpr std::array<Call, {len(calls)}> kCalls = {{{{", *calls, "}};", "", "}  // namespace", "",
            "std::span<const Record> records() { return kRecords; }", "std::span<const Call> calls() { return kCalls; }", "",
            "}  // namespace dxgkit::hostile", ""]
    with open(sys.argv[3], "w", encoding="utf-8") as file:
        file.write("\n".join(out))


main()
