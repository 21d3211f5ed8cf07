#!/usr/bin/env python3
"""Follows docs/your-first-device.md: checks its code against examples/gpu and runs its commands, in an empty folder.

  first_device_test.py PROJECT_ROOT BUILD_FOLDER
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

root, build = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])


def blocks_of(page):
    return re.findall(r"^```(\w+) ?([^\n]*)\n(.*?)^```$", (root / "docs" / page).read_text(), re.MULTILINE | re.DOTALL)


example = root / "examples/gpu"
blocks = blocks_of("your-first-device.md")
for name in ("mygpu.h", "mygpu.c"):
    page = "".join(body for language, file, body in blocks if (language, file) == ("c", name))
    assert page.split() == (example / name).read_text().split(), f"{name} of the page is not examples/gpu/{name}"
driver = (example / "driver.c").read_text()
parts = [body for language, file, body in blocks if (language, file) == ("c", "driver.c")]
assert len(parts) >= 5, "the page has lost its blocks"
for part in parts:
    for piece in part.strip().split("\n\n"):
        assert piece in driver, f"the driver of the page is not examples/gpu/driver.c:\n{piece}"
commands = [body for language, name, body in blocks if (language, name) == ("sh", "")]
assert len(commands) >= 3, "the page has lost its commands"

with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    for source in ("mygpu.h", "mygpu.c", "driver.c"):
        shutil.copy(example / source, folder)
    (folder / "client.c").write_text("".join(body + "\n" for _, name, body in blocks_of("your-first-miniport.md") if name == "client.c"))
    environment = dict(os.environ, DXGKIT=str(root), DXGKIT_BUILD=str(build), PATH=f"{build}/tools/dxgkit:{os.environ['PATH']}")
    done = subprocess.run(["bash", "-euxo", "pipefail", "-c", "".join(commands)], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0 or not done.stdout.endswith("The mistake was found.\n"):
        sys.exit(done.stdout[-8000:] + done.stderr[-8000:])
    for step in ("device-stops", "stray-interrupts"):  # in simulation, where TdrDelay costs nothing
        assert re.search(rf"^{step} +ok ", done.stdout, re.MULTILINE), f"{step} did not run:\n{done.stdout[-8000:]}"
