#!/usr/bin/env python3
"""What a kernel in another process costs: one client program, once with the kernel in its process, once behind `dxgkit serve`, in turns.

usage: process_lines.py DXGKIT CLIENT LIBRARIES [BENCH.json]
LIBRARIES: the folder with libdxcore.so, and in its folder remote/ the one without a kernel.

Each figure is a median inside the client. A line shows the turn whose ratio is the median. Lines are printed as dxgkit_bench prints its
lines, and added to BENCH.json. The device is softgpu in both, and a packet does nothing: the engine's own time would hide the calls'.
"""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

TURNS = 5
# name, figure of ours (remote), figure and side of the reference, bound, unit, factor to that unit, what
LINES = (
    ("process.roundtrip", "roundtrip_ns", ("local", "roundtrip_ns"), "<= 3", "us", 1e-3,
     "Render, GPU signal, the fence's page read until it is there: kernel in another process / in this one"),
    # Not over a bare futex: the end of the work is a timer, which is late by more than both wake-ups take.
    ("process.asleep", "asleep_ns", ("local", "asleep_ns"), "<= 2", "us", 1e-3,
     "the same behind 100 us of work, asleep in a wait, less the work: kernel in another process / in this one"),
    ("process.packets_per_second", "packets_per_second", ("local", "packets_per_second"), ">= 0.7", "k/s", 1e-3,
     "64 Renders and one signal: kernel in another process / in this one"),
    ("process.locked_memory", "locked_bytes_per_second", ("remote", "memcpy_bytes_per_second"), ">= 0.9", "GB/s", 1e-9,
     "16 MiB written between lock and unlock / memcpy of the same"),
)


def figures(client, environment):
    said = subprocess.run([client], env={**os.environ, **environment}, capture_output=True, text=True)
    if said.returncode != 0:
        sys.exit(f"process_lines: the client ended with {said.returncode}: {said.stderr.strip()}")
    return {name: float(value) for name, value in (line.split() for line in said.stdout.splitlines())}


@contextlib.contextmanager
def server(tool, stack, path):
    process = subprocess.Popen([tool, "serve", "--stack", stack, "--socket", path], stdout=subprocess.PIPE, text=True)
    try:
        for line in process.stdout:  # it says where it listens when the adapters run
            if path in line:
                break
        else:
            sys.exit("process_lines: the server did not start")
        yield
    finally:
        process.terminate()
        process.communicate()


def measured(tool, client, libraries):
    turns = []
    with tempfile.TemporaryDirectory() as folder:
        stack, path = pathlib.Path(folder) / "stack.toml", str(pathlib.Path(folder) / "socket")
        stack.write_text('driver = "softgpu"\ndevices = ["softgpu"]\nreference_checks = false\n')
        with server(tool, str(stack), path):
            for _ in range(TURNS):
                turns.append({
                    "local": figures(client, {"LD_LIBRARY_PATH": libraries, "DXGKIT_STACK": str(stack)}),
                    "remote": figures(client, {"LD_LIBRARY_PATH": f"{libraries}/remote", "DXGKIT_SOCKET": path})})
    return turns


def line_of(turns, name, figure, reference, target, unit, factor, what):
    pairs = [(turn["remote"][figure] * factor, turn[reference[0]][reference[1]] * factor) for turn in turns]
    ours, other = sorted(pairs, key=lambda pair: pair[0] / pair[1])[len(pairs) // 2]
    ratio = ours / other
    comparison, bound = target.split()
    met = ratio <= float(bound) if comparison == "<=" else ratio >= float(bound)
    return {"name": name, "ours": ours, "reference": other, "ratio": ratio, "target": target, "met": met, "unit": unit, "what": what}


def print_and_keep(lines, path):
    """Prints lines as dxgkit_bench does, and adds them to the file."""
    for line in lines:
        ours, reference = (f"{line[key]:.2f} {line['unit']}" for key in ("ours", "reference"))
        met = {True: "yes", False: "NO", None: ""}[line["met"]]
        print(f"{line['name']:<32} {ours:>12} {reference:>12} {line['ratio']:>9.3f} {line['target'] or '':>8} {met:>5}  {line['what']}")
    if path is not None:
        file = pathlib.Path(path)
        known = json.loads(file.read_text()) if file.exists() else []
        names = {line["name"] for line in lines}
        file.write_text(json.dumps([one for one in known if one["name"] not in names] + lines, indent=1))


def main():
    turns = measured(*sys.argv[1:4])
    print_and_keep([line_of(turns, *one) for one in LINES], sys.argv[4] if len(sys.argv) > 4 else None)


if __name__ == "__main__":
    main()
