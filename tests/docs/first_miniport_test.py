#!/usr/bin/env python3
"""Follows docs/your-first-miniport.md: writes its code, runs its commands, in an empty folder.

  first_miniport_test.py PROJECT_ROOT BUILD_FOLDER
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

root, build = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
text = (root / "docs/your-first-miniport.md").read_text()
blocks = re.findall(r"^```(\w+) ?([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
sources = {}
for language, name, body in blocks:
    if language == "c":
        sources[name] = sources.get(name, "") + body + "\n"
commands = [body for language, name, body in blocks if (language, name) == ("sh", "")]
assert sorted(sources) == ["client.c", "first.c"] and len(commands) >= 4, "the page has lost its blocks"
# The example to copy is the page's driver with its plug-in.
for name in sources:
    assert (root / "examples/miniport" / name).read_text().split() == sources[name].split(), f"examples/miniport/{name} is not the page's"

with tempfile.TemporaryDirectory() as folder:
    for name, body in sources.items():
        (pathlib.Path(folder) / name).write_text(body)
    environment = dict(os.environ, DXGKIT=str(root), DXGKIT_BUILD=str(build),
                       PATH=f"{build}/tools/dxgkit:{os.environ['PATH']}")
    done = subprocess.run(["bash", "-euxo", "pipefail", "-c", "".join(commands)], cwd=folder, env=environment,
                          capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stdout[-8000:], done.stderr[-8000:], sep="\n")
    sys.exit(done.returncode)
