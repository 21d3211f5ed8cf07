"""Builds the core with mutants in it, asks tests which mutants they reach, and runs tests against one mutant."""
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time

import overlay
import schemata

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import compile_commands  # noqa: E402

BUILD = ROOT / "build" / "mutate"
OVERLAY = BUILD / "overlay"
STARTUP_S = 2  # what a program may take besides its tests
WHOLE = "-"
TOOL = "tools/dxgkit/dxgkit"
IDS = 1 << 16  # as many as probe.cpp has room for
TIMES_SLOWER = 10  # a mutant may make tests so much slower before it counts as hung


def commands():
    return compile_commands.each_source(BUILD)


def configure(folder):
    overlay.configure(BUILD, folder)


def make_headers():
    """Generated headers, which sources are read with."""
    subprocess.run(["cmake", "--build", BUILD, "--target", "dxgkit_rules", "dxgkit_arguments"], check=True, stdout=subprocess.DEVNULL)


def write_overlay(chosen):
    """Writes the files that changed; returns name -> schemata.Written."""
    by_file = {}
    for one in chosen:
        by_file.setdefault(one["file"], []).append(one)
    written = {}
    for name, some in by_file.items():
        written[name] = schemata.write((ROOT / name).read_bytes(), some)
    overlay.write(OVERLAY, {name: one.text for name, one in written.items()})
    return written


def build(chosen, targets, jobs):
    """Builds; mutants that do not compile are left out one by one, also the next time. Returns those that are left."""
    OVERLAY.mkdir(parents=True, exist_ok=True)
    known = BUILD / "does_not_compile.json"
    refused = set(json.loads(known.read_text())) if known.exists() else set()
    chosen = [one for one in chosen if one["name"] not in refused]
    unread = None  # files to read before the build; None: all with mutants
    for _ in range(40):
        written = write_overlay(chosen)
        configure(OVERLAY)
        if unread is None or unread:
            bad, unread = misread(written, unread, jobs)
            if bad:
                print(f"mutate: {len(bad)} mutants are no C++", file=sys.stderr)
                refused |= {one["name"] for one in chosen if one["id"] in bad}
                known.write_text(json.dumps(sorted(refused)))
                chosen = [one for one in chosen if one["id"] not in bad]
                continue
        done = subprocess.run(["cmake", "--build", BUILD, "--parallel", str(jobs), "--target", *targets, "--", "-k", "0"], capture_output=True, text=True)
        if done.returncode == 0:
            return chosen
        bad = blame(done.stdout, written)
        if not bad:
            sys.exit("mutate: the tests do not build as they are\n" + "\n".join(done.stdout.splitlines()[-40:]))
        print(f"mutate: {len(bad)} mutants do not compile", file=sys.stderr)
        refused |= {one["name"] for one in chosen if one["id"] in bad}
        known.write_text(json.dumps(sorted(refused)))
        chosen = [one for one in chosen if one["id"] not in bad]
    sys.exit("mutate: mutants that do not compile cannot be told apart")


def misread(written, names, jobs):
    """Ids of mutants that the compiler cannot read, and the files they are in. Sources are built in groups, and a header is in most of them, so that a
    build tells of one error what this tells of all."""
    sources = {one["file"].replace(str(OVERLAY) + "/", "").removeprefix(str(ROOT) + "/"): one for one in commands()}
    example = next(one for name, one in sorted(sources.items()) if name.startswith("src/dxgk/"))

    def read(name):
        one = sources.get(name, example)
        words = shlex.split(one["command"])
        words = words[1:] if words[0].endswith("ccache") else words
        options = [word for at, word in enumerate(words[1:], 1) if word not in ("-c", "-o") and words[at - 1] not in ("-c", "-o")]
        command = [words[0], *options, "-w", "-fmax-errors=0", "-fsyntax-only", "-x", "c++", str(OVERLAY / name)]
        done = subprocess.run(command, cwd=one["directory"], capture_output=True, text=True)
        return name, done.returncode, done.stderr

    bad, files = set(), set()
    with concurrent.futures.ThreadPoolExecutor(jobs) as workers:
        for name, code, output in workers.map(read, sorted(names if names is not None else written)):
            if code != 0:
                bad |= blame(output, written)
                files.add(name)
    return bad, files if bad else set()


def blame(output, written):
    bad = set()
    lines = {}
    for match in re.finditer(re.escape(str(OVERLAY)) + r"/(\S+?):(\d+):(\d+): (error|note|  )", output.replace("overlay/./", "overlay/")):
        name = match.group(1)
        if name not in written or match.group(4) != "error":
            continue
        if name not in lines:
            starts = [0]
            for at, byte in enumerate(written[name].text):
                if byte == 10:
                    starts.append(at + 1)
            lines[name] = starts
        number, column = int(match.group(2)), int(match.group(3))
        text, starts = written[name].text, lines[name]
        some = schemata.blamed(written[name], starts[number - 1] + column - 1)[:1]
        if not some:  # beside a mutant: those of the line
            begin, end = starts[number - 1], starts[number] if number < len(starts) else len(text)
            some = [one for one, (low, high) in written[name].places.items() if low < end and high > begin]
        bad.update(some)
    if bad:
        return bad
    # Named by relative paths, or required from elsewhere.
    for match in re.finditer(r"overlay/(src/\S+?):(\d+)", output):
        name, number = match.group(1), int(match.group(2))
        if name not in written:
            continue
        text = written[name].text
        begin = 0
        for _ in range(number - 1):
            begin = text.index(b"\n", begin) + 1
        end = text.find(b"\n", begin)
        bad.update(one for one, (low, high) in written[name].places.items() if low < end and high > begin)
    return bad


def tests_of_ctest(with_commands):
    """Name -> (command, environment, folder) of every gtest program that ctest runs, and of every command that runs the tool."""
    listed = json.loads(subprocess.run(["ctest", "--show-only=json-v1"], cwd=BUILD, capture_output=True, text=True, check=True).stdout)
    found = {}
    for test in listed["tests"]:
        command = test.get("command")
        if not command:
            continue
        program = any(part.startswith("--gtest_output") for part in command)
        if not program and (not with_commands or str(BUILD / TOOL) not in command):
            continue
        properties = {one["name"]: one["value"] for one in test.get("properties", [])}
        environment = dict(part.split("=", 1) for part in properties.get("ENVIRONMENT", []))
        found[test["name"]] = (command[:1] if program else command, environment, properties.get("WORKING_DIRECTORY", str(BUILD)))
    return found


def limited(command, seconds, environment, folder):
    """Exit code. `seconds` is processor time, so that a busy machine kills no mutant; ten times as much of the wall's for what only waits."""
    command = ["/bin/sh", "-c", f'ulimit -c 0; ulimit -t {int(seconds) + 1}; ulimit -d {64 << 20}; exec "$@"', "sh", *command]
    process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        return process.wait(timeout=30 + 10 * seconds)
    except subprocess.TimeoutExpired:
        return -1
    finally:
        try:
            os.killpg(process.pid, 9)
        except ProcessLookupError:
            pass
        process.wait()


class Reach:
    """Which tests reach which mutants, and what each takes. A command is one test without a name."""

    def __init__(self):
        self.seconds = {}  # (program, test) -> processor time
        self.tests = {}  # mutant -> [(program, test)]
        self.failing = []

    def ask(self, programs, jobs):
        """Runs every program once; what one said stays known until it is built anew."""
        cache = BUILD / "reach.json"
        known = json.loads(cache.read_text()) if cache.exists() else {}

        def stamp(command):
            return " ".join([*command, *(str(pathlib.Path(path).stat().st_mtime_ns) for path in {command[0], str(BUILD / TOOL)} if pathlib.Path(path).exists())])

        def one(name):
            command, own, folder = programs[name]
            if len(command) > 1:
                with tempfile.TemporaryDirectory(prefix="reach") as files:
                    begin = time.monotonic()
                    code = limited(command, 3600, {**os.environ, **own, "DXGKIT_REACHED": files}, folder)
                    mutants = {line for file in pathlib.Path(files).iterdir() for line in file.read_text().split()}
                    return name, code, [" ".join([WHOLE, str(int(1e6 * (time.monotonic() - begin))), *mutants])]
            with tempfile.NamedTemporaryFile("r", prefix="reach") as file:
                environment = {**os.environ, **own, "DXGKIT_REACHED_BY_TEST": file.name, "DXGKIT_SIM_SUMMARY": "/dev/null"}
                code = limited(command, 3600, environment, folder)
                return name, code, file.read().splitlines()

        old = {name: known[name] for name in programs if known.get(name, {}).get("stamp") == stamp(programs[name][0])}
        new = [name for name in programs if name not in old]
        answers = [(name, 0, one["lines"]) for name, one in old.items()]
        with concurrent.futures.ThreadPoolExecutor(jobs) as workers:
            for answer in workers.map(one, new):
                answers.append(answer)
                name, code, lines = answer
                if code == 0:
                    known[name] = {"stamp": stamp(programs[name][0]), "lines": lines}
                    cache.write_text(json.dumps(known))
        for name, code, lines in answers:
            if code != 0:
                self.failing.append(name)
            for line in lines:
                test, microseconds, *mutants = line.split()
                self.seconds[(name, test)] = int(microseconds) / 1e6
                for mutant in mutants:
                    self.tests.setdefault(int(mutant), []).append((name, test))


def killer(mutant, tests, reach, programs, patience):
    """The test that notices the mutant, or None; and the tests that were left out because they take longer than the patience.

    Quick tests run first, those of one program together.
    """
    budget, chosen, left_out = patience, {}, []
    for program, test in sorted(tests, key=lambda one: reach.seconds[one]):
        if budget is not None and reach.seconds[(program, test)] > budget:
            left_out.append(f"{program}:{test}")
            continue
        if budget is not None:
            budget -= reach.seconds[(program, test)]
        chosen.setdefault(program, []).append(test)
    expected = {program: sum(reach.seconds[(program, test)] for test in some) for program, some in chosen.items()}
    for program in sorted(chosen, key=lambda one: expected[one] / len(chosen[one])):
        command, own, folder = programs[program]
        with tempfile.NamedTemporaryFile("w", prefix="filter") as flags:
            if chosen[program] != [WHOLE]:
                command = [*command, f"--gtest_flagfile={flags.name}"]
            flags.write("--gtest_filter=" + ":".join(chosen[program]) + "\n--gtest_fail_fast\n")
            flags.flush()
            environment = {**os.environ, **own, "DXGKIT_MUTANT": str(mutant), "DXGKIT_SIM_SUMMARY": "/dev/null"}
            if limited(command, STARTUP_S + TIMES_SLOWER * expected[program], environment, folder) != 0:
                return program, left_out
    return None, left_out
