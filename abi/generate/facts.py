"""Layout facts of the WDDM interface, as data.

Reads wddm-layout.json and answers, for any of the 21 interface versions, what a record, an enum or
a type looks like. umd-callbacks.json is read the same way, for the 17 versions of user-mode drivers.
Nothing here knows how a header is written.
"""

import json
import os
import re

HEADERS = ["d3dukmdt.h", "d3dkmdt.h", "d3dkmthk.h", "d3dkmddi.h", "dispmprt.h"]
UMD_HEADER = "d3dumddi.h"

# Types of members that only older layouts have, which the layout rows give without a type:
# chosen by us to fit the recorded offset and size.
OLD_MEMBER_TYPES = {
    ("D3DKMT_MULTIPLANE_OVERLAY_ATTRIBUTES", "NumFilters"): "UINT",
    ("D3DKMT_MULTIPLANE_OVERLAY_ATTRIBUTES", "pFilters"): "void*",
    ("DXGK_MULTIPLANE_OVERLAY_ATTRIBUTES", "NumFilters"): "UINT",
    ("DXGK_MULTIPLANE_OVERLAY_ATTRIBUTES", "pFilters"): "void*",
    ("D3DKMT_NODE_PERFDATA", "Reserved"): "ULONGLONG",
    ("D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER_INFORMATION", "Reserved"): "UINT64[9]",
    ("D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER_INFORMATION", "Reserve"): "UINT",
    ("D3DKMT_QUERYSTATISTICS_SYSTEM_MEMORY", "Reserved"): "UINT64",
    ("DXGK_NODEMETADATA", "Reserved"): "UINT",
}

# Sizes and alignments of what the facts use but the NT headers define.
SCALARS = {
    "unsigned int": (4, 4), "int": (4, 4), "unsigned long": (4, 4), "long": (4, 4),
    "unsigned short": (2, 2), "short": (2, 2), "unsigned char": (1, 1), "char": (1, 1),
    "float": (4, 4), "KPROCESSOR_MODE": (1, 1), "POWER_ACTION": (4, 4),
    "_OBJECT_ATTRIBUTES": (48, 8),
}


def names_in(type_text):
    """Identifiers of a type expression, without the language's own words."""
    words = re.findall(r"[A-Za-z_]\w*", type_text)
    return [w for w in words if w not in ("const", "void", "struct", "union", "float", "unsigned",
                                          "char", "int", "long", "short")]


class Member:
    """One member of one layout. Offsets are bytes from the start of the outermost record."""

    __slots__ = ("name", "type", "offset", "size", "bit", "width", "flex")

    def __init__(self, name, type_text, offset, size, bit=None, width=None, flex=False):
        self.name = name
        self.type = type_text
        self.offset = offset
        self.size = size
        self.bit = bit
        self.width = width
        self.flex = flex


class Layout:
    """A record as one interface version sees it."""

    __slots__ = ("kind", "size", "align", "members")

    def __init__(self, kind, size, align, members):
        self.kind = kind
        self.size = size
        self.align = align
        self.members = members


class Facts:
    """macro: the preprocessor name of the version that the conditions of a header compare.
    umd: the meta section of umd-callbacks.json, whose versions belong to those of the kernel."""

    def __init__(self, data, macro, umd):
        self.data = data
        self.macro = macro
        self.umd = umd
        self.records = data["records"]
        self.enums = data["enums"]
        self.functions = data["functions"]
        self.entry_points = data["entry_points"]
        self.aliases = data["aliases"]
        self.types = data["types"]
        self.constants = data["constants"]
        self.versions = sorted(data["meta"]["versions"], key=data["meta"]["versions"].get)
        self.version_value = data["meta"]["versions"]
        self.order = {name: i for i, name in enumerate(self.versions)}
        self.by_tag = {}
        for collection in (self.records, self.enums):
            for name, entity in collection.items():
                if "tag" in entity:
                    self.by_tag[entity["tag"]] = name
        self._layouts = {}

    def since(self, entity):
        """Index of the first version that has this entity."""
        return self.order[entity.get("since", "VISTA")]

    def canonical(self, name):
        """The typedef name for a tag, or the name itself."""
        if name in self.records or name in self.enums:
            return name
        return self.by_tag.get(name, name)

    def layout(self, name, version):
        """Layout of a record at a version index, or None where it does not exist."""
        key = (name, version)
        if key not in self._layouts:
            self._layouts[key] = self._find_layout(name, version)
        return self._layouts[key]

    def _find_layout(self, name, version):
        record = self.records[name]
        if version < self.since(record):
            return None
        rows = self.data["history"].get(name, [])
        chosen = None
        for row in rows:
            if self.order[row[0]] <= version:
                chosen = row
        if chosen is not None and chosen[1] is None:
            return None
        if chosen is None or chosen[1] == "current":
            members = [Member(m["name"], m["type"], m["offset"], m["size"], m.get("bit"),
                              m.get("width"), m.get("flex", False)) for m in record["members"]]
            return Layout(record["kind"], record["size"], record["align"], members)
        _, size, align, old_members = chosen
        current = {m["name"]: m for m in record["members"]}
        members = []
        for old in old_members:
            member = Member(old[0], None, old[1], old[2], *(old[3:5] if len(old) > 3 else ()))
            member.type = self._old_type(name, member, current.get(member.name), version)
            members.append(member)
        return Layout(record["kind"], size, align, members)

    def _old_type(self, record_name, member, now, version):
        if member.bit is not None:
            if member.size == 1:
                return "BOOLEAN"
            return now["type"] if now else {2: "USHORT", 4: "UINT", 8: "UINT64"}[member.size]
        override = OLD_MEMBER_TYPES.get((record_name, member.name))
        if override is not None and (now is None or self.size_of(override, version)[0] ==
                                     member.size):
            return override
        if now["type"] in ("struct {}", "union {}"):
            return now["type"]
        if self.size_of(now["type"], version)[0] == member.size:
            return now["type"]
        element = re.sub(r"\[.*", "", now["type"])
        if element != now["type"]:
            unit = 8 if member.size % 8 == 0 and member.offset % 8 == 0 else 4
            return "%s[%d]" % ({8: "UINT64", 4: "UINT"}[unit], member.size // unit)
        return {1: "UCHAR", 2: "USHORT", 4: "ULONG", 8: "ULONGLONG"}[member.size]

    def size_of(self, type_text, version):
        """(size, align) in bytes of a type expression as this version sees it."""
        text = type_text.strip()
        if "(*)" in text:
            return (8, 8)
        array = re.search(r"((?:\[\d+\])+)$", text)
        if array:
            size, align = self.size_of(text[:array.start()], version)
            for count in re.findall(r"\d+", array.group(1)):
                size *= int(count)
            return (size, align)
        if text.endswith(("*", "*const")):
            return (8, 8)
        text = re.sub(r"\bconst\b", "", text).strip()
        name = self.canonical(text)
        if name in self.records:
            layout = self.layout(name, version) or self.layout(name, len(self.versions) - 1)
            return (layout.size, layout.align)
        if name in self.enums:
            return (self.enums[name]["size"],) * 2
        if name in self.functions:
            return (8, 8)
        if name in self.types:
            return (self.types[name]["size"], self.types[name]["align"])
        if name in SCALARS:
            return SCALARS[name]
        if name in self.aliases:
            return self.size_of(self.aliases[name], version)
        raise KeyError("no size for type " + type_text)

    def enumerators(self, name, version):
        """[(name, value)] of an enum at a version index, in the order the facts list them."""
        values = dict(self.enums[name]["values"])
        rows = self.data["enum_history"].get(name, [])
        seen = {}
        for row_version, changes in rows:
            for enumerator, value in changes.items():
                seen.setdefault(enumerator, []).append((self.order[row_version], value))
        result = []
        open_end = None
        for enumerator, value in values.items():
            history = seen.get(enumerator)
            if history is None:
                result.append((enumerator, value))
                continue
            at = [v for since, v in history if since <= version]
            if at:
                if at[-1] is not None:
                    result.append((enumerator, at[-1]))
            elif enumerator.endswith("_MAX"):
                # The end marker moves as values are added; its first position is not recorded.
                open_end = enumerator
        if open_end is not None:
            result.append((open_end, max(v for _, v in result) + 1))
        return result


def read(name):
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "..", name), encoding="utf-8") as file:
        return json.load(file)


def load():
    umd = read("umd-callbacks.json")["meta"]
    return Facts(read("wddm-layout.json"), "DXGKDDI_INTERFACE_VERSION", umd)


def load_umd():
    """What d3dumddi.h declares. The shared types are those of wddm-layout.json: their sizes never
    change, and only the names in them depend on the version."""
    data = read("umd-callbacks.json")
    data["types"].update({name: {"size": record["size"], "align": record["align"]}
                          for name, record in data["records"].items()
                          if record["header"] != UMD_HEADER})
    for section in ("records", "enums", "functions"):
        data[section] = {name: entity for name, entity in data[section].items()
                         if entity["header"] == UMD_HEADER}
    for section in ("history", "tables"):
        data[section] = {name: rows for name, rows in data[section].items()
                         if name in data["records"]}
    data["enum_history"] = {name: rows for name, rows in data["enum_history"].items()
                            if name in data["enums"]}
    data.update(entry_points={}, aliases={}, strings={}, guids={})
    return Facts(data, "D3D_UMD_INTERFACE_VERSION", data["meta"])
