"""What compile_commands.json of a build says of each source, also of those that are compiled together (cmake/Dxgkit.cmake, DXGKIT_UNITY)."""
import json
import pathlib
import re


def each_source(build):
    """The commands; one of a file that includes sources becomes one for each of them, with the same flags."""
    found = []
    for command in json.loads((pathlib.Path(build) / "compile_commands.json").read_text()):
        path = pathlib.Path(command["file"])
        if path.parent.name != "Unity":
            found.append(command)
            continue
        found += [{**command, "file": name} for name in re.findall(r'^#include "(.+)"$', path.read_text(), re.MULTILINE)]
    return found
