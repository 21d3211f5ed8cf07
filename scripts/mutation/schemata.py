"""Writes sources with every chosen mutant in them, each behind a question that chooses it at run time."""
import dataclasses


@dataclasses.dataclass
class Written:
    """A source with its mutants, and where each of them lies in it (bytes), for blaming what does not compile."""
    text: bytes
    places: dict  # id -> (start, end)


BOOLEAN = ("condition", "first clause", "second clause")


@dataclasses.dataclass
class Asking:
    """How a source asks whether a mutant is chosen, and how it makes a truth value of an expression."""
    question: bytes
    truth: bytes


CORE = Asking(b"::dxgkit_mutation::on(%d)", b"static_cast<bool>(%s)")


def expression(group, original, data, asking):
    """One expression that is the original or one of the mutants."""
    out = original
    if any(one["operator"].startswith(BOOLEAN) for one in group):
        out = asking.truth % out
    for one in reversed(group):
        parts = [data[start:end].decode() for start, end in one["parts"]]
        mutant = one["text"].format(*parts).encode()
        out = b"(%s ? (%s) : (%s))" % (asking.question % one["id"], mutant, out)
    return out


def statement(one, original, asking):
    return b"{ if (!%s) { %s } }" % (asking.question % one["id"], original)


def write(data, chosen, asking=CORE):
    """`chosen`: candidates of one file, each with an id; ranges nest."""
    ranges = {}
    for one in chosen:
        ranges.setdefault((one["start"], one["end"]), []).append(one)
    order = sorted(ranges, key=lambda r: (r[0], -r[1]))
    places = {}

    def render(start, end, inside, base):
        """Text of [start, end) with the ranges `inside` replaced. `base`: where it will lie in what is written."""
        out = b""
        at = start
        index = 0
        while index < len(inside):
            low, high = inside[index]
            nested = []
            index += 1
            while index < len(inside) and inside[index][0] < high:
                if inside[index][1] <= high:
                    nested.append(inside[index])
                index += 1
            out += data[at:low]
            group = ranges[(low, high)]
            left_out = [one for one in group if one["operator"] == "statement left out"]
            inner = render(low, high, nested, base + len(out))
            others = [one for one in group if one not in left_out]
            piece = expression(others, inner, data, asking) if others else inner
            for one in left_out:
                piece = statement(one, piece, asking)
            for one in group:
                places[one["id"]] = (base + len(out), base + len(out) + len(piece))
            out += piece
            at = high
        return out + data[at:end]

    return Written(render(0, len(data), order, 0), places)


def blamed(written, offset):
    """Ids of the mutants in whose text this byte lies: the innermost first."""
    inside = [(high - low, one) for one, (low, high) in written.places.items() if low <= offset < high]
    return [one for _, one in sorted(inside)]
