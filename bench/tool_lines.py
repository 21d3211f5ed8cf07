#!/usr/bin/env python3
"""What users of the tool wait for: a quick verification, and the executions of fuzz.

usage: tool_lines.py DXGKIT MINIPORTS CLIENTS [BENCH.json]
MINIPORTS, CLIENTS: the folders with softgpu.sys and softgpu_client.so.

Both sides of a line run in turns. A line shows the turn whose ratio is the median.
"""
import os
import subprocess
import sys
import tempfile
import time

from process_lines import print_and_keep

TURNS = 3
QUICK_SECONDS = 10  # that a quick verification may take, by its own promise
SEEDS = 100


def seconds(*command):
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"tool_lines: {' '.join(command)} ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
        return time.monotonic() - begun


def line(name, pairs, unit, target, met, what):
    ours, reference = sorted(pairs, key=lambda pair: pair[0] / pair[1])[len(pairs) // 2]
    return {"name": name, "ours": ours, "reference": reference, "ratio": ours / reference, "target": target,
            "met": None if target is None else met(ours), "unit": unit, "what": what}


def main():
    tool, miniports, clients = (os.path.abspath(path) for path in sys.argv[1:4])
    driver, client = f"{miniports}/softgpu.sys", f"{clients}/softgpu_client.so"
    quick = [(seconds(tool, "verify", driver, "--client", client), seconds(tool, "verify", driver)) for _ in range(TURNS)]
    seeds = ("--seeds", f"1..{SEEDS}", "--jobs", "1")
    rates = [(SEEDS / seconds(tool, "fuzz", driver, *seeds), SEEDS / seconds(tool, "sim", *seeds)) for _ in range(TURNS)]
    print_and_keep([
        line("verify.quick", quick, "s", f"<= {QUICK_SECONDS} s", lambda ours: ours <= QUICK_SECONDS,
             "a quick verification of softgpu with its plug-in / without it"),
        line("fuzz.executions_per_second", rates, "/s", None, None, "seeds of `dxgkit fuzz`, each a process / of `dxgkit sim`, one worker each"),
    ], sys.argv[4] if len(sys.argv) > 4 else None)


if __name__ == "__main__":
    main()
