"""The functions of a source file that only check its own state. `coverage` and `mutate` leave them out.

Such a function is an assertion: no test of the state can reach its failing side.
"""
import re


def self_check_lines(lines):
    """Numbers, from 1, of the lines of functions named validate..."""
    found = set()
    end = None  # how the last line of the function begins
    for number, line in enumerate(lines, 1):
        if end is None and (begin := re.match(r"( *)(bool|std::string) [\w:]*validate\w*\(", line)):
            head = next(one for one in lines[number - 1:] if one.endswith((";", "}", "{")))
            if head.endswith("{"):
                end = begin.group(1) + "}"
            elif "{" in head:
                found.add(number)
        if end is not None:
            found.add(number)
            end = None if line.startswith(end) else end
    return found
