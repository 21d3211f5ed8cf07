#!/usr/bin/env python3
"""Plants bugs into the kernel, one after the other, and lets the simulation look for each.

    cmake -S . -B build/planted -DDXGKIT_PLANTED_BUGS=ON && cmake --build build/planted --target dxgkit_sim_test
    scripts/planted_bugs.py build/planted [--seeds 10000] [--patience 600] [--workers 2] [bug ...]

Bugs are the names of DXGKIT_PLANTED(name) below src. Each runs seeds from 1 on until one fails; a bug that
no seed finds is listed last, and the exit status is 1 then. Without a bug the same seeds have to pass:
`--sound 200` looks at so many of them first. `--table FILE` leaves the list as sim/planted_bugs.md is.
"""
import argparse
import os
import re
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def planted():
    places = {}
    for folder, _, files in os.walk(os.path.join(ROOT, "src")):
        for name in files:
            path = os.path.join(folder, name)
            if not name.endswith((".cpp", ".h")) or name == "planted.h":
                continue
            with open(path, encoding="utf-8") as text:
                for bug in re.findall(r"DXGKIT_PLANTED\((\w+)\)", text.read()):
                    places.setdefault(bug, os.path.relpath(path, ROOT))
    return dict(sorted(places.items(), key=lambda item: (item[1], item[0])))


def run(program, bug, seeds, workers, patience):
    """(seed that failed or None, what it said, how it ended)"""
    env = dict(os.environ, DXGKIT_SIM_SEEDS=f"1..{seeds}", DXGKIT_SIM_STOP="1",
               DXGKIT_SIM_WORKERS=str(workers), DXGKIT_SIM_SECONDS="60")
    env.pop("DXGKIT_PLANT", None)
    if bug is not None:
        env["DXGKIT_PLANT"] = bug
    process = subprocess.Popen([program, "--gtest_filter=Simulation.*"], env=env, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True, errors="replace")
    try:
        output, _ = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its workers too
        process.communicate()
        return None, f"nothing within {patience} s", False
    failed = re.search(r"^seed (\d+): (.*)$", output, re.MULTILINE)
    if failed is None:
        return None, "every seed passed" if process.returncode == 0 else "it failed without a seed", \
            process.returncode == 0
    said = failed.group(2)
    check = re.search(r"CHECK\(.*", output)
    if "signal" in said and check is not None:
        said = check.group(0)
    return int(failed.group(1)), said, True


def table(rows):
    lines = ["# Planted bugs and the seeds that find them", "",
             "Written by `scripts/planted_bugs.py --table`. Each bug was planted by itself; seeds ran from 1 on until",
             "one failed. What it says is the first thing that was wrong.", "",
             "| bug | in | seed | what tells |", "|---|---|---:|---|"]
    for bug, place, seed, said in rows:
        said = re.sub(r"0x[0-9a-f]+", "0x..", said.replace("|", "/"))
        lines.append(f"| {bug} | {place} | {seed if seed is not None else '-'} | {said} |")
    found = sum(1 for row in rows if row[2] is not None)
    return "\n".join(lines + ["", f"{found}/{len(rows)} planted bugs found", ""])


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("build")
    options.add_argument("bugs", nargs="*")
    options.add_argument("--seeds", type=int, default=10000)
    options.add_argument("--patience", type=int, default=600, help="seconds for one bug")
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--sound", type=int, default=0, help="seeds that have to pass without a bug")
    options.add_argument("--table", help="a file for the list")
    options.add_argument("--names", action="store_true", help="list the bugs and end")
    args = options.parse_args()
    places = planted()
    if args.names:
        for bug, place in places.items():
            print(f"{bug:32} {place}")
        return 0
    for bug in args.bugs:
        if bug not in places:
            options.error(f"no bug is called {bug}")
    program = os.path.join(args.build, "sim", "dxgkit_sim_test")
    if args.sound:
        seed, said, _ = run(program, None, args.sound, args.workers, args.patience)
        if seed is not None:
            print(f"seed {seed} fails without a bug: {said}")
            return 1
    missed, rows = [], []
    bugs = args.bugs or list(places)
    for bug in bugs:
        began = time.monotonic()
        seed, said, _ = run(program, bug, args.seeds, args.workers, args.patience)
        seconds = time.monotonic() - began
        if seed is None:
            missed.append(bug)
        rows.append((bug, places[bug], seed, said[:110]))
        found = "-" if seed is None else str(seed)
        print(f"{found:>6} seeds {seconds:6.1f} s  {bug:32} {places[bug]:40} {said[:120]}", flush=True)
    for bug in missed:
        print(f"not found within {args.seeds} seeds: {bug} ({places[bug]})")
    if args.table:
        with open(args.table, "w", encoding="utf-8") as file:
            file.write(table(rows))
    print(f"{len(bugs) - len(missed)}/{len(bugs)} planted bugs found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
