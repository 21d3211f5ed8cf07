#!/usr/bin/env python3
"""Plants bugs into the kernel, one after the other, and lets the simulation look for each.

    scripts/planted_bugs.py [--seeds 10000] [--patience 600] [--workers 2] [--jobs N] [--build build/planted] [bug ...]

Bugs are edits of sources in sim/planted_bugs.json. The script writes changed copies of the sources, builds the simulation once with all bugs in
it, and chooses one bug at a time through the environment (DXGKIT_PLANT=name). Each bug runs seeds from 1 on until one fails. A bug that has a
test of its own runs that test instead. Bugs that nothing finds are listed last, and the exit status is 1 then.

--sound 200: so many seeds have to pass without a bug first. --table FILE: writes the list, as sim/planted_bugs.md is. --names: lists the bugs.
--check: only says which edits no longer fit the sources; builds nothing.
"""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "mutation"))
import overlay  # noqa: E402
import planted  # noqa: E402

SIMULATION = "sim/dxgkit_sim_test"
EVERY_SEED = "every seed passed"


def build(folder, bugs, programs, jobs):
    overlay.write(folder / "overlay", planted.copies(bugs))
    overlay.configure(folder, folder / "overlay")
    targets = [pathlib.PurePath(program).name for program in programs]
    done = subprocess.run(["cmake", "--build", folder, "--parallel", str(jobs), "--target", *targets], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"planted_bugs: the sources do not build with the bugs in them\n{done.stdout}{done.stderr}")


def environment(bug, **more):
    env = dict(os.environ, **more)
    env.pop("DXGKIT_PLANT", None)
    if bug is not None:
        env["DXGKIT_PLANT"] = bug
    return env


def simulate(program, bug, options):
    """(seed that failed or None, what it said)"""
    env = environment(bug, DXGKIT_SIM_SEEDS=f"1..{options.seeds if bug else options.sound}", DXGKIT_SIM_STOP="1",
                      DXGKIT_SIM_WORKERS=str(options.workers), DXGKIT_SIM_SECONDS="60",
                      # The checks have to find it; that a trace changes says nothing about them.
                      DXGKIT_SIM_KEEP_TRACES=os.devnull)
    process = subprocess.Popen([program, "--gtest_filter=Simulation.*"], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True, errors="replace")
    try:
        output, _ = process.communicate(timeout=options.patience)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its workers too
        process.communicate()
        return None, f"nothing within {options.patience} s"
    failed = re.search(r"^seed (\d+): (.*)$", output, re.MULTILINE)
    if failed is None:
        # Few seeds do not make every kind of fault strike, which the test also asks for.
        return None, EVERY_SEED if " passed, 0 failed" in output else "it ended without a result"
    said = failed.group(2)
    check = re.search(r"CHECK\(.*", output)
    if "signal" in said and check is not None:
        said = check.group(0)
    return failed.group(1), re.sub(r"(\.\./)+|overlay/", "", said)


def run_test(program, name, bug, options):
    """Whether the test fails with the bug, and passes without it; and what it said."""
    for planted_bug in (None, bug):
        done = subprocess.run([program, f"--gtest_filter={name}"], env=environment(planted_bug), capture_output=True, text=True, errors="replace",
                              timeout=options.patience)
        if "1 test from 1 test suite ran" not in done.stdout and done.returncode == 0:
            return None, f"there is no test {name}"
        if planted_bug is None and done.returncode != 0:
            return None, f"{name} fails without the bug"
    return ("test" if done.returncode != 0 else None), name


def table(rows):
    lines = ["# Planted bugs and the seeds that find them", "",
             "Written by `scripts/planted_bugs.py --table`. Each bug was planted by itself. Seeds ran from 1 on until one failed; the last column is",
             "the first thing that was wrong. `test`: no seed finds the bug, and the named test does.", "",
             "| bug | in | seed | what tells |", "|---|---|---:|---|"]
    for bug, place, seed, said in rows:
        said = re.sub(r"0x[0-9a-f]+", "0x..", said.replace("|", "/"))
        lines.append(f"| {bug} | {place} | {seed or '-'} | {said} |")
    found = sum(1 for row in rows if row[2] is not None)
    return "\n".join(lines + ["", f"{found}/{len(rows)} planted bugs found", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bugs", nargs="*")
    parser.add_argument("--seeds", type=int, default=10000)
    parser.add_argument("--patience", type=int, default=600, help="seconds for one bug")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilers at once")
    parser.add_argument("--build", type=pathlib.Path, default=planted.ROOT / "build" / "planted")
    parser.add_argument("--sound", type=int, default=0, help="seeds that have to pass without a bug")
    parser.add_argument("--table", help="a file for the list")
    parser.add_argument("--names", action="store_true", help="list the bugs and end")
    parser.add_argument("--check", action="store_true", help="see whether every edit fits the sources, and end")
    options = parser.parse_args()
    known = planted.load()
    if wrong := planted.faults(known):
        print("\n".join(f"sim/planted_bugs.json: {one}" for one in wrong))
        return 1
    if options.check:
        print(f"the edits of {len(known)} planted bugs fit the sources")
        return 0
    if unknown := set(options.bugs) - {bug["name"] for bug in known}:
        parser.error(f"no bug is called {', '.join(sorted(unknown))}")
    bugs = [bug for bug in known if not options.bugs or bug["name"] in options.bugs]
    if options.names:
        for bug in bugs:
            print(f"{bug['name']:32} {bug['edits'][0]['file']}")
        return 0
    folder = options.build.resolve()
    build(folder, known, [SIMULATION, *{bug["test"]["program"] for bug in bugs if "test" in bug}], options.jobs)
    if options.sound:
        seed, said = simulate(folder / SIMULATION, None, options)
        if seed is not None or said != EVERY_SEED:
            print(f"without a bug: seed {seed}: {said}")
            return 1
    rows = []
    for bug in bugs:
        name, place = bug["name"], bug["edits"][0]["file"]
        began = time.monotonic()
        if "test" in bug:
            seed, said = run_test(folder / bug["test"]["program"], bug["test"]["name"], name, options)
        else:
            seed, said = simulate(folder / SIMULATION, name, options)
        rows.append((name, place, seed, said[:110]))
        print(f"{seed or '-':>6} {time.monotonic() - began:6.1f} s  {name:32} {place:40} {said[:120]}", flush=True)
    missed = [row for row in rows if row[2] is None]
    for name, place, _, said in missed:
        print(f"not found: {name} ({place}): {said}")
    if options.table:
        pathlib.Path(options.table).write_text(table(rows), encoding="utf-8")
    print(f"{len(rows) - len(missed)}/{len(rows)} planted bugs found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
