"""Every small change of the core that a test should notice, found in clang's syntax tree.

A candidate is a dict: file, function, line, operator, start and end (bytes of the file that it replaces), text (what it puts there; {0}, {1}...
are the original's parts), parts (their byte ranges). Changes of messages, traces and self-checks are left out: no rule speaks of them.
"""
import concurrent.futures
import hashlib
import json
import pathlib
import re
import shlex
import sys

from clang import cindex
from clang.cindex import CursorKind as Kind, TypeKind

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
from self_checks import self_check_lines  # noqa: E402

FOLDERS = ("src/dxgk/", "src/port/", "src/thunks/", "src/gpuva/", "src/vidmm/", "src/vidsch/", "src/vidpn/")
TESTS = re.compile(r"_test\.(cpp|h)$|testdata/|trace\.(cpp|h)$|/support\.(cpp|h)$")
FUNCTIONS = {Kind.CXX_METHOD, Kind.FUNCTION_DECL, Kind.CONSTRUCTOR, Kind.DESTRUCTOR, Kind.FUNCTION_TEMPLATE, Kind.CONVERSION_FUNCTION}
SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
LEFT_OUT = {"+", "-", "*", "/", "%", "|", "&", "<<", ">>", "^"}
INTEGERS = {TypeKind.BOOL, TypeKind.UCHAR, TypeKind.CHAR_U, TypeKind.SCHAR, TypeKind.CHAR_S, TypeKind.USHORT, TypeKind.SHORT, TypeKind.UINT,
            TypeKind.INT, TypeKind.ULONG, TypeKind.LONG, TypeKind.ULONGLONG, TypeKind.LONGLONG, TypeKind.ENUM}
# What writes text, traces or counts for people; what checks its own state; what only asks for memory early.
SKIPPED = re.compile(
    r"\b(DXGKIT_\w+|CHECK\w*|trace\w*|emit\w*|fmt::\w+|format\w*|text|name_of|to_string|describe\w*|explain\w*|reserve|prefetch|__builtin_\w+|validate\w*|"
    r"interleave\w*|expect\w*|log\w*|assert\w*|shrink_to_fit|hint)\s*\(|\btrace_?(\.|->|::)|static_assert|std::string\b|std::(source_location|format)|\"|\bcounters(_|\(\))")
# A statement that only tells the processor what will be read.
HINT = re.compile(r"\s*(expect\w*|prefetch\w*|hint)\s*\(")
MESSAGE = re.compile(r"text|describe|name|to_string|message|explain|trace|dump|print|summary|validate|why|hint|fix|title|digest|^expect$")
CONSTANT = {Kind.STATIC_ASSERT, Kind.ENUM_CONSTANT_DECL, Kind.FIELD_DECL, Kind.ALIGNED_ATTR, Kind.TEMPLATE_NON_TYPE_PARAMETER}


class Walk:
    """The candidates of one file."""

    skipped = SKIPPED  # text that no rule speaks of
    messages = MESSAGE  # functions that no rule speaks of

    def __init__(self, name):
        self.name = name
        self.data = (ROOT / name).read_bytes()
        self.line_of = [0]
        for at, byte in enumerate(self.data):
            if byte == 10:
                self.line_of.append(at + 1)
        self.checking = self_check_lines(self.data.decode().splitlines())
        self.found = {}
        self.function = ""

    def text(self, cursor):
        return self.data[cursor.extent.start.offset:cursor.extent.end.offset].decode(errors="replace")

    def whole(self, cursor):
        """Whether the expression stands in the file as it is: what comes from a macro does not."""
        extent = cursor.extent
        start, end = extent.start.offset, extent.end.offset
        return extent.start.file is not None and extent.start.file.name == str(ROOT / self.name) and start < end <= len(self.data)

    def add(self, operator, cursor, text, parts, start=None, end=None):
        start = cursor.extent.start.offset if start is None else start
        end = cursor.extent.end.offset if end is None else end
        line = self.data.count(b"\n", 0, start) + 1
        if line in self.checking or start >= end:
            return
        if HINT.match(self.data[self.line_of[line - 1]:end].decode(errors="replace")):
            return
        if self.skipped.search(self.data[start:end].decode(errors="replace")):
            return
        self.found[(operator, start, end, text)] = {
            "file": self.name, "function": self.function, "line": line, "operator": operator, "start": start, "end": end, "text": text,
            "parts": [[p.extent.start.offset, p.extent.end.offset] for p in parts]}

    # One kind of place each.

    def binary(self, cursor, children):
        left, right = children
        if left.extent.end.offset > right.extent.start.offset or left.extent.start.offset < cursor.extent.start.offset:
            return
        between = self.data[left.extent.end.offset:right.extent.start.offset].decode(errors="replace")
        sign = re.sub(r"//[^\n]*|/\*.*?\*/", "", between).strip()
        if sign in SWAPS:
            self.add("compare", cursor, "({0}) " + SWAPS[sign] + " ({1})", [left, right])
        elif sign in ("&&", "||"):
            self.add("first clause only", cursor, "static_cast<bool>({0})", [left])
            self.add("second clause only", cursor, "static_cast<bool>({1})", [left, right])
        elif sign in LEFT_OUT:
            self.add("left operand only", cursor, "({0})", [left])
            if sign in ("+", "|", "*", "&") and cursor.type.get_canonical().kind in INTEGERS:
                self.add("right operand only", cursor, "({1})", [left, right])

    def condition(self, cursor, condition):
        if self.whole(condition) and condition.kind not in (Kind.DECL_STMT, Kind.VAR_DECL):
            self.add("condition true", condition, "true", [])
            self.add("condition false", condition, "false", [])

    def zero(self, what, cursor):
        kind = cursor.type.get_canonical().kind
        if kind not in INTEGERS or not self.whole(cursor):
            return
        if cursor.type.get_canonical().spelling == "std::memory_order":
            return  # this machine's processors order what tests could see in any case
        text = self.text(cursor)
        named = cursor
        while named.kind == Kind.UNEXPOSED_EXPR and len(children := list(named.get_children())) == 1:
            named = children[0]
        if named.kind == Kind.DECL_REF_EXPR and named.referenced is not None and named.referenced.kind == Kind.ENUM_CONSTANT_DECL and named.referenced.enum_value == 0:
            return  # 0 already
        if text in ("0", "false", "{}", "0u"):
            if text == "false":
                self.add(what, cursor, "true", [])
            return
        if text == "true":
            self.add(what, cursor, "false", [])
            return
        if re.fullmatch(r"\w+::\w+(::\w+)*", text) and kind == TypeKind.ENUM and "Status" in text:
            return  # another status: asked by the operators of conditions
        self.add(what, cursor, "std::remove_cvref_t<decltype({0})>{{}}", [cursor])

    def statement(self, cursor):
        """A call or an assignment alone in its statement, left out."""
        inner = cursor
        while inner.kind == Kind.UNEXPOSED_EXPR and len(list(inner.get_children())) == 1:
            inner = next(inner.get_children())
        if inner.kind not in (Kind.CALL_EXPR, Kind.BINARY_OPERATOR, Kind.COMPOUND_ASSIGNMENT_OPERATOR, Kind.UNARY_OPERATOR, Kind.CXX_STATIC_CAST_EXPR):
            return
        if not self.whole(cursor):
            return
        end = cursor.extent.end.offset
        rest = re.match(rb"\s*;", self.data[end:end + 80])
        if rest is None or self.text(cursor).startswith(("co_", "throw")) or re.fullmatch(r"static_cast<void>\(\w+\)", self.text(cursor)):
            return
        self.add("statement left out", cursor, "", [], end=end + rest.end())

    def walk(self, cursor, constant=False):
        kind = cursor.kind
        children = list(cursor.get_children())
        if kind in FUNCTIONS:
            outer = self.function
            owner = cursor.semantic_parent
            self.function = (owner.spelling + "::" if owner is not None and owner.kind in (Kind.CLASS_DECL, Kind.STRUCT_DECL, Kind.CLASS_TEMPLATE) else "") + \
                cursor.spelling
            if not self.messages.search(cursor.spelling):
                for child in children:
                    if child.kind not in (Kind.PARM_DECL, Kind.TYPE_REF, Kind.NAMESPACE_REF):
                        self.walk(child)
            self.function = outer
            return
        if kind in CONSTANT:
            return
        if kind == Kind.VAR_DECL and re.match(rb"\s*(static\s+|inline\s+)*constexpr|(?:\s*static\s+const\b)", self.data[cursor.extent.start.offset:cursor.extent.end.offset]):
            return
        if kind in (Kind.CASE_STMT, Kind.DEFAULT_STMT):
            children = children[1 if kind == Kind.CASE_STMT else 0:]
        if kind in (Kind.COMPOUND_STMT, Kind.CASE_STMT, Kind.DEFAULT_STMT):
            for child in children:
                self.statement(child)
        elif kind == Kind.IF_STMT:
            head = self.data[cursor.extent.start.offset:cursor.extent.start.offset + 20]
            if head.startswith(b"if constexpr"):
                children = children[1:]
            else:
                conditions = [child for child in children if child.kind not in (Kind.DECL_STMT, Kind.COMPOUND_STMT)]
                declared = children and children[0].kind in (Kind.DECL_STMT, Kind.VAR_DECL)
                if children and not declared and conditions:
                    self.condition(cursor, children[0])
                for child in children[1:]:
                    self.statement(child)
        elif kind in (Kind.FOR_STMT, Kind.WHILE_STMT, Kind.CXX_FOR_RANGE_STMT):
            if children:
                self.statement(children[-1])
        elif kind == Kind.CONDITIONAL_OPERATOR and len(children) == 3 and self.whole(cursor):
            self.add("first choice", cursor, "({0})", [children[1]])
            self.add("second choice", cursor, "({0})", [children[2]])
        elif kind == Kind.BINARY_OPERATOR and len(children) == 2 and self.whole(cursor):
            self.binary(cursor, children)
        elif kind == Kind.UNARY_OPERATOR and len(children) == 1 and self.whole(cursor):
            sign = self.text(cursor)[:1]
            if sign == "!":
                self.add("negation left out", cursor, "static_cast<bool>({0})", [children[0]])
            elif sign == "~":
                self.add("negation left out", cursor, "({0})", [children[0]])
        elif kind == Kind.RETURN_STMT and len(children) == 1 and self.text(children[0]) in ("true", "false"):
            self.zero("other answer", children[0])
        elif kind == Kind.ARRAY_SUBSCRIPT_EXPR and len(children) == 2:
            self.zero("first element", children[1])
        elif kind == Kind.INIT_LIST_EXPR:
            for child in children:
                if child.kind not in (Kind.MEMBER_REF, Kind.TYPE_REF):
                    self.zero("member left out", child)
        elif kind == Kind.CALL_EXPR:
            self.call(cursor, children)
        elif kind == Kind.INTEGER_LITERAL and self.whole(cursor):
            text = self.text(cursor)
            if re.fullmatch(r"\d+[uUlL]*", text):
                digits = re.match(r"\d+", text).group(0)
                self.add("constant", cursor, "1" + text[len(digits):] if digits == "0" else str(int(digits) - 1) + text[len(digits):], [])
        for child in children:
            self.walk(child)

    def call(self, cursor, children):
        if not self.whole(cursor):
            return
        name = cursor.spelling or ""
        text = self.text(cursor)
        if name.startswith("operator"):
            parts = [child for child in children if not (child.kind == Kind.UNEXPOSED_EXPR and child.spelling.startswith("operator"))]
            if name == "operator[]" and len(parts) == 2:
                self.zero("first element", parts[1])
            elif len(parts) == 2 and name[8:] in (*SWAPS, "|", "&"):
                parts.sort(key=lambda part: part.extent.start.offset)
                self.binary(cursor, parts)
            return
        if name in ("max", "min") and text.startswith("std::" + name):
            other = "min" if name == "max" else "max"
            self.add("worst for best", cursor, re.sub(r"[{}]", lambda m: m.group(0) * 2, f"std::{other}" + text[8:]), [])
            return
        if name in ("front", "back") and text.endswith(f"{name}()"):
            other = "back" if name == "front" else "front"
            self.add("last for first", cursor, re.sub(r"[{}]", lambda m: m.group(0) * 2, text[:-len(name) - 2] + other + "()"), [])
        if self.skipped.search(text[:80]):
            return
        for argument in cursor.get_arguments():
            if argument is not None and argument.extent.start.offset > cursor.extent.start.offset:
                self.zero("argument 0", argument)


def parsed(command):
    words = shlex.split(command["command"])
    words = words[1:] if words[0].endswith("ccache") else words
    options = [w for w in words[1:] if w.startswith(("-I", "-D", "-std")) and "/overlay" not in w]
    for flag in ("-isystem",):
        options += [part for at, w in enumerate(words) if w == flag for part in words[at:at + 2]]
    unit = cindex.Index.create().parse(command["file"], ["-xc++", "-w", "-ferror-limit=0", *options])
    errors = [str(d) for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
    if errors:
        print(f"mutate: clang reads {command['file']} with errors: {errors[0]}", file=sys.stderr)
    return unit


def of_unit(command, wanted):
    """File -> candidates, for each wanted file that this unit reads."""
    return of_parsed(parsed(command), wanted, Walk)


def of_parsed(unit, wanted, kind_of_walk):
    prefix = str(ROOT) + "/"
    # Also of files without functions, so that nobody goes on looking for them.
    walks = {name: kind_of_walk(name) for name in (str(one.include.name).removeprefix(prefix) for one in unit.get_includes()) if name in wanted}

    def top(cursor):
        place = cursor.location.file
        if place is None:
            return
        name = place.name
        if not name.startswith(prefix) or name[len(prefix):] not in wanted:
            return
        name = name[len(prefix):]
        if cursor.kind in (Kind.NAMESPACE, Kind.CLASS_DECL, Kind.STRUCT_DECL, Kind.CLASS_TEMPLATE, Kind.LINKAGE_SPEC, Kind.UNEXPOSED_DECL,
                           Kind.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION):
            for child in cursor.get_children():
                top(child)
        elif cursor.kind in FUNCTIONS:
            walks.setdefault(name, kind_of_walk(name)).walk(cursor)

    for cursor in unit.cursor.get_children():
        top(cursor)
    return {name: sorted(walk.found.values(), key=lambda c: (c["start"], c["end"], c["operator"], c["text"])) for name, walk in walks.items()}


def hashed(name):
    return hashlib.sha256((ROOT / name).read_bytes() + pathlib.Path(__file__).read_bytes()).hexdigest()


def all_candidates(files, commands, cache, jobs):
    """Candidates of every file, in order; those of files that did not change come from the cache."""
    known = json.loads(cache.read_text()) if cache.exists() else {}
    hashes = {name: hashed(name) for name in files}
    missing = {name for name in files if known.get(name, {}).get("hash") != hashes[name]}
    sources = {command["file"].removeprefix(str(ROOT) + "/"): command for command in commands}
    with concurrent.futures.ProcessPoolExecutor(jobs) as workers:
        units = [name for name in sources if name in missing]
        # Headers are read with a source that includes them: first those that change, then any until each is seen.
        headers = {name for name in missing if name.endswith(".h")}
        units += [name for name in sources if name in files and name not in missing] if headers else []
        results = {}
        while units and (missing - set(results) & set(units) or headers - set(results)):
            now, units = units[:4 * jobs], units[4 * jobs:]
            wanted = missing - set(results)
            for found in workers.map(of_unit, [sources[name] for name in now], [wanted] * len(now)):
                results.update(found)
            for name in now:
                if name in missing:
                    results.setdefault(name, [])
            print(f"mutate: {len(results)} of {len(missing)} files read", file=sys.stderr)
    for name in missing:
        known[name] = {"hash": hashes[name], "candidates": results.get(name, [])}
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_text(json.dumps({name: known[name] for name in files}))
    return [one for name in sorted(files) for one in known[name]["candidates"]]
