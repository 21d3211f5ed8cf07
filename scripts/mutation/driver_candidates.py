"""Every small change of a miniport driver that `dxgkit verify` should notice.

The changes of candidates.py, and those that driver authors make: an exchanged argument, another status, a wrong register or flag, a field set to 0.
Drivers have no C++ library and may be written in C, so a change here is text that both languages take.
"""
import re

import candidates
from candidates import INTEGERS, Kind, TypeKind
from clang import cindex

NEVER = re.compile(r"(?!)")
OUTPUT = re.compile(r"\b(DbgPrint(Ex)?|static_assert|_Static_assert)\s*\(")
ZEROS = {"0", "FALSE", "NULL", "nullptr", "STATUS_SUCCESS"}
CONSTANT_FUNCTION = re.compile(r"(template\s*<[^{;]*>\s*)?((static|inline|extern)\s+)*(constexpr|consteval)\b")
NOT_NUMBERS = re.compile(r"STATUS_\w+|TRUE|FALSE|NULL|PASSIVE_LEVEL|__\w+")


class DriverWalk(candidates.Walk):
    """The candidates of one file of a driver."""

    skipped = OUTPUT
    messages = NEVER

    def __init__(self, name):
        super().__init__(name)
        self.is_c = name.endswith(".c")

    def add(self, operator, cursor, text, parts, start=None, end=None):
        text = text.replace("static_cast<bool>({0})", "!!({0})").replace("static_cast<bool>({1})", "!!({1})")
        if self.is_c and text in ("true", "false"):
            text = "1" if text == "true" else "0"
        super().add(operator, cursor, text, parts, start, end)

    def condition(self, cursor, condition):
        super().condition(cursor, condition)
        if self.whole(condition) and condition.kind not in (Kind.DECL_STMT, Kind.VAR_DECL):
            self.add("condition negated", condition, "!({0})", [condition])

    def binary(self, cursor, children):
        super().binary(cursor, children)
        left, right = children
        between = self.data[left.extent.end.offset:right.extent.start.offset]
        if between.strip() == b"=" and b"=" not in self.data[right.extent.start.offset:right.extent.end.offset]:
            self.zero("assigned 0", right)

    def zero(self, what, cursor):
        kind = cursor.type.get_canonical().kind
        text = self.text(cursor)
        if kind not in INTEGERS or not self.whole(cursor) or self.is_zero(cursor):
            return
        if text in ("true", "false"):
            self.add(what, cursor, "false" if text == "true" else "true", [])
        elif what == "assigned 0" and re.fullmatch(r"[\d'xXa-fA-F]+[uUlL]*", text):
            return  # asked by the operator of constants
        elif kind in (TypeKind.ENUM, TypeKind.BOOL) and not self.is_c:
            self.add(what, cursor, "(__typeof__({0}))0", [cursor])
        else:
            self.add(what, cursor, "0", [])

    def is_zero(self, cursor):
        text = self.text(cursor)
        if text in ZEROS or re.fullmatch(r"0[xX]?0*[uUlL]*", text):
            return True
        while cursor.kind == Kind.UNEXPOSED_EXPR and len(children := list(cursor.get_children())) == 1:
            cursor = children[0]
        named = cursor.referenced if cursor.kind == Kind.DECL_REF_EXPR else None
        return named is not None and named.kind == Kind.ENUM_CONSTANT_DECL and named.enum_value == 0

    def walk(self, cursor, constant=False):
        kind = cursor.kind
        if kind in candidates.FUNCTIONS and CONSTANT_FUNCTION.match(self.text(cursor)):
            return  # the compiler runs it, so no question is asked while the driver runs
        if kind == Kind.RETURN_STMT:
            if status := re.fullmatch(r"return\s+(STATUS_\w+)", self.text(cursor)):
                start = cursor.extent.start.offset + status.start(1)
                other = "STATUS_UNSUCCESSFUL" if status.group(1) == "STATUS_SUCCESS" else "STATUS_SUCCESS"
                self.add("other status", cursor, other, [], start=start)
            elif answer := re.fullmatch(r"return\s+(TRUE|FALSE)", self.text(cursor)):
                start = cursor.extent.start.offset + answer.start(1)
                self.add("other answer", cursor, "FALSE" if answer.group(1) == "TRUE" else "TRUE", [], start=start)
        elif kind == Kind.WHILE_STMT:
            condition = next(iter(cursor.get_children()), None)
            if condition is not None and self.whole(condition):
                self.add("condition false", condition, "false", [])
        elif kind in (Kind.INTEGER_LITERAL, Kind.DECL_REF_EXPR):
            self.named(cursor)
        super().walk(cursor, constant)

    def named(self, cursor):
        """A constant with a name, or in hexadecimal: the next one instead."""
        text = self.text(cursor)
        if not self.whole(cursor) or NOT_NUMBERS.fullmatch(text):
            return
        if cursor.kind == Kind.INTEGER_LITERAL:
            if re.fullmatch(r"0[xX][0-9a-fA-F]+[uUlL]*|[A-Za-z_]\w*", text):
                self.add("constant", cursor, "(({0}) + 1)", [cursor])
            return
        target = cursor.referenced
        if target is None or not re.fullmatch(r"[\w:]+", text):
            return
        if target.kind == Kind.ENUM_CONSTANT_DECL:
            self.add("constant", cursor, "(({0}) + 1)" if self.is_c else "(__typeof__({0}))(({0}) + 1)", [cursor])
        elif target.kind == Kind.VAR_DECL and cursor.type.get_canonical().kind in INTEGERS and re.match(
                r"\s*(static\s+|inline\s+)*constexpr\b", self.declaration(target)):
            self.add("constant", cursor, "(({0}) + 1)", [cursor])

    def declaration(self, target):
        place = target.extent.start
        if place.file is None:
            return ""
        with open(place.file.name, "rb") as file:
            return file.read()[place.offset:target.extent.end.offset].decode(errors="replace")

    def call(self, cursor, children):
        super().call(cursor, children)
        if not self.whole(cursor) or (cursor.spelling or "").startswith("operator"):
            return
        start, end = cursor.extent.start.offset, cursor.extent.end.offset
        arguments = [one for one in cursor.get_arguments() if one is not None and one.extent.start.offset > start]
        for left, right in zip(arguments, arguments[1:]):
            low, high = (left.extent.start.offset, left.extent.end.offset), (right.extent.start.offset, right.extent.end.offset)
            if low[1] > high[0] or self.text(left) == self.text(right) or self.is_zero(left) and self.is_zero(right) or not exchangeable(left, right):
                continue
            pieces = [self.data[a:b].decode().replace("{", "{{").replace("}", "}}") for a, b in ((start, low[0]), (low[1], high[0]), (high[1], end))]
            self.add("arguments exchanged", cursor, pieces[0] + "{1}" + pieces[1] + "{0}" + pieces[2], [left, right])


def exchangeable(left, right):
    one, other = left.type.get_canonical(), right.type.get_canonical()
    if one.spelling == other.spelling:
        return True
    return one.kind in INTEGERS and other.kind in INTEGERS and TypeKind.ENUM not in (one.kind, other.kind)


def of_unit(path, flags, wanted):
    """File -> candidates, for each wanted file that the source at `path` reads."""
    unit = cindex.Index.create().parse(str(path), ["-w", "-ferror-limit=0", *flags])
    errors = [one for one in unit.diagnostics if one.severity >= cindex.Diagnostic.Error]
    if errors:
        raise SystemExit(f"mutate_drivers: {path} cannot be read: {errors[0]}")
    return candidates.of_parsed(unit, wanted, DriverWalk)
