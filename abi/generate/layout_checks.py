"""Turns the facts of one interface version into checks a compiler (and a run) can fail."""

import re

from headers import HeaderWriter, PROVIDED, literal


class Checks:
    """Assertions for one version, with counts of what they cover and what they leave out."""

    def __init__(self, facts, version_name):
        self.facts = facts
        self.writer = HeaderWriter(facts)
        self.version = facts.order[version_name]
        self.counts = dict.fromkeys(
            ["records", "members", "bit-fields", "enums", "enumerators", "table entries",
             "constants", "function types", "aliases", "guids", "strings", "hresults"], 0)
        self.skipped = []
        self.asserts = []
        self.cxx_asserts = []
        self.bit_fields = []
        self.guids = []
        self._records()
        self._enums()
        self._tables()
        self._constants()
        self._functions()

    def _assert(self, expression, label):
        self.asserts.append('CHECK(%s, "%s");' % (expression, label))

    def _records(self):
        facts = self.facts
        for name in facts.records:
            layout = facts.layout(name, self.version)
            if layout is None:
                continue
            self.counts["records"] += 1
            self._assert("sizeof(%s) == %d && ALIGN_OF(%s) == %d" %
                         (name, layout.size, name, layout.align), name)
            for member in layout.members:
                label = "%s.%s" % (name, member.name)
                if member.bit is not None:
                    self.counts["bit-fields"] += 1
                    self.bit_fields.append("BITS(%s, %s, %d, %d, %d, %d)" % (
                        name, member.name, member.offset, member.size, member.bit, member.width))
                    continue
                self.counts["members"] += 1
                offset = "OFFSET_OF(%s, %s) == %d" % (name, member.name, member.offset)
                if member.flex:
                    self.skipped.append(label + ": size of a trailing array without a length")
                    self._assert(offset, label)
                else:
                    self._assert("%s && SIZE_OF(%s, %s) == %d" %
                                 (offset, name, member.name, member.size), label)

    def _enums(self):
        facts = self.facts
        for name, enum in facts.enums.items():
            if self.version < facts.since(enum):
                continue
            self.counts["enums"] += 1
            if name.startswith("<"):
                self.skipped.append(name + ": size of an enum without a name")
            else:
                self._assert("sizeof(%s) == %d" % (name, enum["size"]), name)
            for enumerator, value in facts.enumerators(name, self.version):
                self.counts["enumerators"] += 1
                self._assert("(long long)%s == %dLL" % (enumerator, value), enumerator)

    def _tables(self):
        facts = self.facts
        for name, rows in facts.data["tables"].items():
            previous = None
            for index, member, kind, offset, since in rows:
                if facts.order[since or "VISTA"] > self.version:
                    continue
                self.counts["table entries"] += 1
                at = "OFFSET_OF(%s, %s)" % (name, member)
                order = "" if previous is None else " && %s > OFFSET_OF(%s, %s)" % (
                    at, name, previous)
                self._assert("%s == %d%s" % (at, offset, order),
                             "%s entry %d %s" % (name, index, member))
                if kind in facts.functions or kind in facts.aliases:
                    self.cxx_asserts.append(
                        'CHECK((Same<decltype(%s::%s), %s>::value), "%s.%s");' %
                        (name, member, kind, name, member))
                previous = member

    def _constants(self):
        facts = self.facts
        for name, value in facts.constants.items():
            if name == "DXGKDDI_INTERFACE_VERSION":
                value = facts.version_value[facts.versions[self.version]]
            if name == "D3D_UMD_INTERFACE_VERSION":
                value = self._umd_version()
            self.counts["constants"] += 1
            self._assert("(unsigned long long)%s == (unsigned long long)%s" %
                         (name, literal(value)), name)
        for name, text in facts.data.get("hresults", {}).items():
            self.counts["hresults"] += 1
            self._assert("(unsigned)%s == %sU && sizeof(%s) == 4" % (name, text, name), name)
        for name, text in facts.data["strings"].items():
            self.counts["strings"] += 1
            inner = text[2:-1]
            units = " && ".join("%s[%d] == %d" % (name, i, ord(c)) for i, c in enumerate(inner))
            self.cxx_asserts.append('CHECK(sizeof(%s) == %d && %s, "%s");' % (
                name, 2 * len(inner) + 2, units, name))
        for name, text in facts.data["guids"].items():
            self.counts["guids"] += 1
            a, b, c, d, e = text.split("-")
            tail = ["0x" + (d + e)[i:i + 2] for i in range(0, 16, 2)]
            self.guids.append("GUID_IS(%s, 0x%s, 0x%s, 0x%s, %s)" % (name, a, b, c,
                                                                   ", ".join(tail)))

    def _umd_version(self):
        """The user-mode version that a kernel of this version has by default."""
        facts, umd = self.facts, self.facts.umd
        return max(value for name, value in umd["versions"].items()
                   if facts.order[name] <= self.version)

    def _functions(self):
        facts = self.facts
        for name, function in facts.functions.items():
            if self.version < facts.since(function) or name in PROVIDED:
                continue
            self.counts["function types"] += 1
            pointer = name if function["kind"] == "function_pointer" else name + "*"
            self._assert("sizeof(%s) == 8" % pointer, name)
            self.cxx_asserts.append('PARAMETERS(%s, %d, "%s");' % (
                pointer, len(function["params"]), name))
        for name in facts.entry_points:
            function = facts.entry_points[name]
            if self.version < facts.since(function):
                continue
            self.counts["function types"] += 1
            self.cxx_asserts.append('PARAMETERS(decltype(&%s), %d, "%s");' % (
                name, len(function["params"]), name))
        for name, target in facts.aliases.items():
            if name == "__C_ASSERT__" or self._alias_is_later(name):
                continue
            if re.fullmatch(r"DXGKDDI_\w+", target.rstrip("*")) and not target.endswith("*"):
                continue  # a function type under a second name has no size
            self.counts["aliases"] += 1
            size = facts.size_of(target, self.version)[0] if self._sized(target) else 8
            self._assert("sizeof(%s) == %d" % (name, size), name)

    def _sized(self, target):
        try:
            self.facts.size_of(target, self.version)
            return True
        except KeyError:
            return False

    def _alias_is_later(self, name):
        """True if the name itself, or a record it stands for by value, comes later."""
        facts = self.facts
        if self.writer.since(name) > self.version:
            return True
        target = facts.canonical(facts.aliases[name])
        return target in facts.records and facts.layout(target, self.version) is None

    def write(self, folder):
        """Writes the three include files the test sources pull in."""
        for name, lines in (("asserts.inc", self.asserts), ("cxx_asserts.inc", self.cxx_asserts),
                            ("bit_fields.inc", self.bit_fields), ("guids.inc", self.guids)):
            with open("%s/%s" % (folder, name), "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
