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
sources = [body for language, name, body in blocks if (language, name) == ("c", "first.c")]
commands = [body for language, name, body in blocks if (language, name) == ("sh", "")]
assert len(sources) >= 7 and len(commands) >= 3, "the page has lost its blocks"

with tempfile.TemporaryDirectory() as folder:
    (pathlib.Path(folder) / "first.c").write_text("\n".join(sources))
    environment = dict(os.environ, DXGKIT=str(root), DXGKIT_BUILD=str(build),
                       PATH=f"{build}/tools/dxgkit:{os.environ['PATH']}")
    done = subprocess.run(["bash", "-euxo", "pipefail", "-c", "".join(commands)], cwd=folder, env=environment,
                          capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stdout[-8000:], done.stderr[-8000:], sep="\n")
    sys.exit(done.returncode)
