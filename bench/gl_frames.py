#!/usr/bin/env python3
"""Frames per second of es2gears through the virtio GPU's driver, beside virgl_test_server, which draws with the same renderer without a driver.

usage: gl_frames.py DXGKIT [BENCH.json]

Ours and the reference run in turns, and the line shows the turn whose ratio is the median. It is printed as dxgkit_bench prints its lines,
and added to BENCH.json. Without the programs (scripts/bootstrap installs them) the line says so.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time

NAME, TARGET, TURNS = "gl.frames", 0.5, 5
SOCKET = "/tmp/.virgl_test"  # the only path that Debian's Mesa knows
PROGRAMS = ("Xvfb", "virgl_test_server", "es2gears_x11", "timeout", "stdbuf")
WHAT = "frames of es2gears through dxgkit gl / through virgl_test_server"
SECONDS = "7"  # es2gears tells its rate after five
GEARS = ["timeout", SECONDS, "stdbuf", "-oL", "es2gears_x11"]


def rate(command, environment):
    """The last rate that gears tell of themselves."""
    said = subprocess.run(command, env=environment, capture_output=True, text=True).stdout
    rates = re.findall(r"= ([0-9.]+) FPS", said)
    if not rates:
        sys.exit(f"gl_frames: {' '.join(command)} told no rate")
    return float(rates[-1])


def without_driver(environment):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(SOCKET)
    server = subprocess.Popen(["virgl_test_server", "--use-egl-surfaceless", "--use-gles"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:  # until it listens; it says nothing of that
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(SOCKET) == 0:
                    break
            if server.poll() is not None:
                sys.exit("gl_frames: virgl_test_server ended")
            time.sleep(0.01)
        return rate(GEARS, {**environment, "GALLIUM_DRIVER": "virpipe", "LIBGL_ALWAYS_SOFTWARE": "1"})
    finally:
        server.kill()
        server.wait()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(SOCKET)


@contextlib.contextmanager
def screen():
    """The number of an X server of our own."""
    ready, write = os.pipe()
    server = subprocess.Popen(["Xvfb", "-displayfd", str(write), "-screen", "0", "640x480x24"], pass_fds=[write], stderr=subprocess.DEVNULL)
    os.close(write)
    try:
        with os.fdopen(ready) as number:
            yield f":{number.readline().strip()}"
    finally:
        server.terminate()
        server.wait()


def measured(tool):
    with screen() as display:
        environment = {name: value for name, value in os.environ.items() if name not in ("GALLIUM_DRIVER", "EGL_PLATFORM")} | {"DISPLAY": display}
        turns = []
        for _ in range(TURNS):
            reference = without_driver(environment)
            turns.append((rate([tool, "gl", "--", *GEARS], environment), reference))
    return sorted(turns, key=lambda turn: turn[0] / turn[1])[TURNS // 2]


def main():
    tool = sys.argv[1]
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    line = {"name": NAME, "ours": None, "reference": None, "ratio": None, "target": f">= {TARGET}", "met": None, "unit": "FPS",
            "what": f"not installed: {', '.join(missing)}" if missing else WHAT}
    if not missing:
        line["ours"], line["reference"] = measured(tool)
        line["ratio"] = line["ours"] / line["reference"]
        line["met"] = line["ratio"] >= TARGET
    ours, reference, ratio = ("-" if line[key] is None else text.format(line[key]) for key, text in
                              (("ours", "{:.2f} FPS "), ("reference", "{:.2f} FPS "), ("ratio", "{:.3f}")))
    met = {None: "-", True: "yes", False: "NO"}[line["met"]]
    print(f"{NAME:<32} {ours:>12} {reference:>12} {ratio:>9} {line['target']:>8} {met:>5}  {line['what']}")
    if len(sys.argv) > 2:
        path = pathlib.Path(sys.argv[2])
        lines = json.loads(path.read_text()) if path.exists() else []
        path.write_text(json.dumps([one for one in lines if one["name"] != NAME] + [line], indent=1))


if __name__ == "__main__":
    main()
