"""Rebuilds nested C declarations from flat lists of offsets.

The facts list the leaves of a record with absolute offsets; members of unnamed structs and unions
appear in place. Members that share bytes become alternatives of a union, runs of bit-fields are
filled up to their storage unit (so that no compiler packs anything into the rest), and gaps that
alignment alone does not explain become unnamed bit-fields.
"""

import re


class Node:
    """A member with the members of its unnamed type, or a run of bit-fields in one unit."""

    def __init__(self, member=None, name=None, run=None):
        self.member = member
        self.name = name
        self.run = run
        self.children = []

    @property
    def start(self):
        return self.run[0].offset if self.run else self.member.offset

    @property
    def end(self):
        if self.run:
            return self.run[0].offset + self.run[0].size
        return self.member.offset + self.member.size


def build_tree(members):
    """Members named A, A.B, A.B.C become nested nodes; bit-fields of one unit become one run."""
    root = Node()
    path = {"": root}
    for member in members:
        parent_name, _, leaf = member.name.rpartition(".")
        parent = path[parent_name]
        if member.bit is not None:
            last = parent.children[-1] if parent.children else None
            if (last is not None and last.run and last.run[-1].offset == member.offset
                    and last.run[-1].size == member.size
                    and last.run[-1].bit + last.run[-1].width <= member.bit):
                last.run.append(member)
            else:
                parent.children.append(Node(run=[member]))
            continue
        node = Node(member=member, name=leaf)
        parent.children.append(node)
        path[member.name] = node
    return root.children


def align_up(value, alignment):
    return (value + alignment - 1) // alignment * alignment


class Builder:
    """Turns one layout into declaration lines."""

    def __init__(self, facts, version, pack):
        self.facts = facts
        self.version = version
        self.pack = pack

    def body(self, layout):
        nodes = build_tree(layout.members)
        if layout.kind == "union":
            lines, size, align = self._alternatives(nodes, 0, "")
        else:
            lines, size, align = self._sequence(nodes, 0, "")
        size = align_up(size, align)
        if layout.kind == "struct" and size < layout.size:
            lines += self._gap(layout.size - size, "")
            size = layout.size
        if (size, align) != (layout.size, layout.align):
            raise ValueError("rebuilt (%d, %d), wanted (%d, %d)" %
                             (size, align, layout.size, layout.align))
        return lines

    def _capped(self, align):
        return min(align, self.pack) if self.pack else align

    @staticmethod
    def _gap(count, indent):
        """Bytes that no alignment explains."""
        return ["%sUCHAR : 8;" % indent] * count

    def _groups(self, nodes):
        """Joins neighbours that share bytes; each group of more than one is a union."""
        stack = []
        for node in nodes:
            group = [[node], node.start, node.end]
            while stack and node.start < stack[-1][2]:
                last = stack.pop()
                group = [last[0] + group[0], min(last[1], group[1]), max(last[2], group[2])]
            stack.append(group)
        return stack

    def _sequence(self, nodes, start, indent):
        """Members one after another. Returns (lines, size, align) relative to start."""
        lines = []
        position = start
        align = 1
        for group, group_start, _ in self._groups(nodes):
            if len(group) == 1:
                text, size, group_align = self._single(group[0], indent, position)
            else:
                text, size, group_align = self._union(group, group_start, indent)
            natural = align_up(position, group_align)
            if natural > group_start:
                raise ValueError("member at %d would land at %d" % (group_start, natural))
            if natural < group_start:
                lines += self._gap(group_start - position, indent)
            lines += text
            align = max(align, group_align)
            position = group_start + size
        return lines, position - start, align

    def _union(self, group, start, indent):
        lines, size, align = self._alternatives(group, start, indent + "  ")
        lines = [indent + "union {"] + lines + [indent + "};"]
        return lines, align_up(size, align), align

    def _alternatives(self, nodes, start, indent):
        """Splits nodes into union alternatives: each begins where a member is back at start."""
        split = []
        for node in nodes:
            if node.start == start or not split:
                split.append([node])
            else:
                split[-1].append(node)
        lines = []
        size = 0
        align = 1
        for alternative in split:
            if len(alternative) == 1 and not alternative[0].run:
                text, this_size, this_align = self._single(alternative[0], indent, start)
            else:
                text, this_size, this_align = self._sequence(alternative, start, indent + "  ")
                this_size = align_up(this_size, this_align)
                text = [indent + "struct {"] + text + [indent + "};"]
            lines += text
            size = max(size, this_size)
            align = max(align, this_align)
        return lines, size, align

    def _single(self, node, indent, position):
        if node.run:
            return self._bit_fields(node.run, indent, position)
        member = node.member
        if node.children or member.type in ("struct {}", "union {}"):
            return self._nested(node, indent)
        size, align = self.facts.size_of(member.type, self.version)
        if size != member.size and not member.flex:
            raise ValueError("%s: type %s has %d bytes, wanted %d" %
                             (member.name, member.type, size, member.size))
        return [indent + declare(member.type, node.name, flex=member.flex) + ";"], size, \
            self._capped(align)

    def _nested(self, node, indent):
        member = node.member
        inner = indent + "  "
        if member.type.startswith("union"):
            lines, size, align = self._alternatives(node.children, member.offset, inner)
            kind = "union"
        else:
            lines, size, align = self._sequence(node.children, member.offset, inner)
            kind = "struct"
        size = align_up(size, align)
        if size < member.size and kind == "struct":
            lines += self._gap(member.size - size, inner)
            size = member.size
        if size != member.size:
            raise ValueError("%s has %d bytes, wanted %d" % (member.name, size, member.size))
        return [indent + kind + " {"] + lines + ["%s} %s;" % (indent, node.name)], size, align

    def _bit_fields(self, run, indent, position):
        lines = []
        first = run[0]
        if position % first.size and self.pack is None:
            # Other ABIs would let the first bit-field share the unit of the member before it.
            lines.append("%s%s : 0;" % (indent, plain_unit(first)))
        next_bit = 0
        for member in run:
            if member.bit > next_bit:
                lines.append("%s%s : %d;" % (indent, plain_unit(member), member.bit - next_bit))
            leaf = member.name.rpartition(".")[2]
            lines.append("%s%s %s : %d;" % (indent, member.type, leaf, member.width))
            next_bit = member.bit + member.width
        if next_bit < first.size * 8:
            lines.append("%s%s : %d;" % (indent, plain_unit(first), first.size * 8 - next_bit))
        return lines, first.size, self._capped(first.size)


def plain_unit(member):
    return {1: "UCHAR", 2: "USHORT", 4: "UINT", 8: "UINT64"}[member.size]


def declare(type_text, name, flex=False):
    """A declarator: arrays and function pointers go around the name."""
    function = re.match(r"^(.*?) ?\(\*\)\((.*)\)$", type_text)
    if function:
        return "%s (NTAPI* %s)(%s)" % (function.group(1), name, function.group(2) or "void")
    array = re.search(r"((?:\[\d+\])+)$", type_text)
    if array:
        dimensions = "[]" if flex else array.group(1)
        return "%s %s%s" % (type_text[:array.start()], name, dimensions)
    return "%s %s" % (type_text, name)


def record_lines(facts, name, version):
    """(pack, body lines) of a record at a version; tries natural alignment, then tighter packs."""
    layout = facts.layout(name, version)
    problem = None
    for pack in (None, 4, 2, 1):
        try:
            return pack, Builder(facts, version, pack).body(layout)
        except ValueError as error:
            problem = problem or error
    raise ValueError("%s at %s: %s" % (name, facts.versions[version], problem))
