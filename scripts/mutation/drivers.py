"""Builds a miniport driver with all of its mutants in one image, and verifies one mutant of it with `dxgkit verify`."""
import concurrent.futures
import itertools
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import driver_candidates
import overlay
import schemata
import verdicts
from candidates import ROOT
from verdicts import HANG, MISSED, NAMED, OTHERWISE, TOOL, classify  # noqa: F401

HERE = pathlib.Path(__file__).resolve().parent
ASKING = schemata.Asking(b"dxgkit_mutant(%d)", b"!!(%s)")
MUTANTS_MAX = 1 << 14  # as many as driver_probe.c has room for
SCREEN = ("--device", "softgpu,refresh=60")
VIRTIO = ("--device", "virtio-gpu,modes=640x480+800x600")
VIRTIO_3D = ("--device", "virtio-gpu,3d=on")
REACH_S = 1200  # for a verification to the end, with the trace of which changes it reaches
DDI_TIMEOUT_S = 200  # no progress in so long; a driver that computes for ever is ended by its processor time (NT-20), however busy this machine is
# driver -> (target whose compile commands it takes, other sources or None, client, {model: (registry, arguments)})
DRIVERS = {
    "softgpu": ("softgpu", None, "softgpu", {"patch": ({}, ())}),
    "softgpu_wddm2": ("softgpu_wddm2", None, "softgpu", {
        "wddm2": ({}, ()), "gpuva1": ({"MemoryModel": 1}, ()), "gpuva2": ({"MemoryModel": 2}, ()), "gpuva3": ({"MemoryModel": 3}, ())}),
    "softgpu_screen": ("softgpu_screen", None, "softgpu", {
        "screen": ({"ScreenSize": 320 | 200 << 16}, SCREEN), "planes": ({"ScreenSize": 320 | 200 << 16, "OverlayPlanes": 2}, SCREEN)}),
    "virtiogpu": ("virtiogpu", None, "virtiogpu", {"virtio": ({}, VIRTIO), "virtio3d": ({}, VIRTIO_3D)}),
    "virtiogpu_wddm2": ("virtiogpu_wddm2", None, "virtiogpu", {"virtio_wddm2": ({}, VIRTIO), "virtio3d_wddm2": ({}, VIRTIO_3D)}),
    "framebuffer": ("framebuffer", None, None, {"display": ({}, ("--device", "framebuffer"))}),
    "first": ("framebuffer", ("examples/miniport/first.c",), "first", {"first": ({}, ("--device", "none"))}),
    "gpu": ("framebuffer", ("examples/gpu/driver.c",), "first", {"gpu": ({}, ("--device", "{plugins}/mygpu.so"))}),
}
LANGUAGE = {True: ("-std=c11",), False: ("-std=c++20", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics")}
IN_ONE_LANGUAGE = {word for words in LANGUAGE.values() for word in words}


class Driver:
    """One driver: how it is compiled, and how an author would verify it."""

    def __init__(self, name, build, work):
        self.name, self.build, self.work = name, pathlib.Path(build), pathlib.Path(work).resolve() / name
        self.target, sources, self.client, models = DRIVERS[name]
        has_renderer = (self.build / "devices/virtiogpu/dxgkit-renderer").exists()  # not without libvirglrenderer
        self.models = {model: setup for model, setup in models.items() if has_renderer or setup[1] is not VIRTIO_3D}
        self.overlay = self.work / "overlay"
        self.image = self.work / f"{name}.sys"  # an ELF twin would have no exception handlers
        home = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", (self.build / "CMakeCache.txt").read_text(), re.MULTILINE).group(1)
        listed = subprocess.run(["ninja", "-t", "commands", f"miniports/{self.target}.sys"], cwd=self.build, capture_output=True, text=True, check=True).stdout
        self.sources = list(sources or ())
        for line in listed.splitlines():
            for command in line.split(" && "):
                words = shlex.split(command)
                if words[1:3] == ["-E", "env"]:  # cmake -E env NAME=VALUE ... COMMAND
                    words = list(itertools.dropwhile(lambda word: "=" in word, words[3:]))
                if "-c" in words and f"/{self.target}.dir/" in command:  # not of its libraries
                    self.compile = words[1:] if words[0].endswith("ccache") else words
                    if sources is None:
                        self.sources.append(words[words.index("-c") + 1].removeprefix(home + "/"))
                elif "lld-link" in command:
                    self.link = [one for one in words if not one.startswith("/out:") and not one.endswith(".obj")]
        words = self.compile[1:self.compile.index("-MD")]
        self.flags = [word.replace(home, str(ROOT)) for word in words if word not in IN_ONE_LANGUAGE and word not in ("-Wall", "-Wextra", "-Werror")]
        folders = {pathlib.Path(one).parent for one in self.sources}
        self.files = sorted(str(path.relative_to(ROOT)) for folder in folders for path in (ROOT / folder).glob("*.h")) + self.sources

    def language(self, source):
        return LANGUAGE[source.endswith(".c")]

    def candidates(self, jobs):
        found = {}
        headers = subprocess.run([self.compile[0], "-print-resource-dir"], capture_output=True, text=True, check=True).stdout.strip()
        with concurrent.futures.ProcessPoolExecutor(jobs) as workers:
            calls = [workers.submit(driver_candidates.of_unit, ROOT / one, [*self.language(one), *self.flags, "-resource-dir", headers], set(self.files)) for one in self.sources]
            for call in calls:
                found.update(call.result())
        everything = [one for name in sorted(found) for one in found[name]]
        for mutant in everything:
            mutant["driver"] = self.name
        return everything

    def compiler(self, source):
        compiler = self.compile[0].replace("clang++", "clang") if source.endswith(".c") else self.compile[0]
        return [compiler, *self.language(source)]

    def compile_one(self, source, path):
        """(object, what the compiler says or None)"""
        out = self.work / (source.replace("/", "_") + ".obj")
        probe = [] if path == HERE / "driver_probe.c" else ["-include", str(HERE / "driver_probe.h")]
        command = [*self.compiler(source), f"-I{self.overlay}", *self.flags, *probe, "-O1", "-g0", "-w", "-Wno-c++11-narrowing", "-ferror-limit=0",
                   "-DDriverEntry=mutated_driver_entry", "-c", str(path), "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True)
        return out, done.stderr if done.returncode else None

    def build_image(self, chosen, jobs):
        """Builds one image with all these mutants; returns those that compile."""
        self.work.mkdir(parents=True, exist_ok=True)
        left = {*self.sources}
        objects = {}
        for _ in range(12):
            written = {name: schemata.write((ROOT / name).read_bytes(), [one for one in chosen if one["file"] == name], ASKING) for name in self.files}
            overlay.write(self.overlay, {name: one.text for name, one in written.items()})
            with concurrent.futures.ThreadPoolExecutor(jobs) as workers:
                done = dict(zip(sorted(left), workers.map(lambda one: self.compile_one(one, self.overlay / one), sorted(left))))
            objects.update({name: out for name, (out, said) in done.items() if said is None})
            bad = set()
            for said in (said for _, said in done.values() if said is not None):
                bad |= self.blamed(said, written)
                if not bad:
                    sys.exit(f"mutate_drivers: {self.name} does not build:\n{said[:4000]}")
            if not bad:
                break
            chosen = [one for one in chosen if one["id"] not in bad]
            left = {name for name, (_, said) in done.items() if said is not None}
        else:
            sys.exit(f"mutate_drivers: mutants of {self.name} that do not compile cannot be told apart")
        probe, said = self.compile_one("driver_probe.c", HERE / "driver_probe.c")
        if said:
            sys.exit(f"mutate_drivers: the probe does not build:\n{said}")
        subprocess.run([*self.link, f"/out:{self.image}", *(str(objects[name]) for name in self.sources), str(probe)], check=True)
        return chosen

    def blamed(self, output, written):
        bad = set()
        for name, line, column in re.findall(re.escape(str(self.overlay)) + r"/(\S+?):(\d+):(\d+): (?:fatal )?error", output):
            text = written[name].text
            starts = [0] + [at + 1 for at, byte in enumerate(text) if byte == 10]
            begin = starts[int(line) - 1]
            some = schemata.blamed(written[name], begin + int(column) - 1)[:1]
            end = starts[int(line)] if int(line) < len(starts) else len(text)
            bad.update(some or [one for one, (low, high) in written[name].places.items() if low < end and high > begin])
        return bad

    def command(self, tool, clients, model, registry):
        client = ["--client", str(clients / f"{self.client}_client.so")] if self.client else []
        arguments = [one.replace("{plugins}", str(clients)) for one in self.models[model][1]]
        return [str(tool), "verify", str(self.image), *arguments, *client, "--registry", str(registry), "--mode", "sim", "--until-finding",
                "--ddi-timeout", str(DDI_TIMEOUT_S)]

    def verify(self, tool, clients, model, values, patience_s, *more):
        """(exit code or None after `patience_s`, stdout, stderr); the report is on stdout with --json."""
        with tempfile.TemporaryDirectory(prefix="verify") as folder:
            registry = pathlib.Path(folder) / "registry.json"
            registry.write_text(json.dumps({"service": {**self.models[model][0], **values}}))
            return verdicts.run([*self.command(tool, clients, model, registry), *more], folder, patience_s)

    def reached(self, tool, clients, model):
        """Ids of the mutants that a verification reaches. It must be clean."""
        with tempfile.TemporaryDirectory(prefix="reach") as folder:
            trace = pathlib.Path(folder) / "trace.txt"
            code, out, err = self.verify(tool, clients, model, {"TellMutants": 1}, REACH_S, "--trace", str(trace))
            if code is None:
                sys.exit(f"mutate_drivers: {self.name} with no mutant did not end within {REACH_S} s in model {model}; is the machine busy?\n{out[-1000:]}")
            if code != 0:
                sys.exit(f"mutate_drivers: {self.name} with no mutant is not clean ({code}):\n{out[-3000:]}{err[-1000:]}")
            return {int(one) for one in re.findall(r"reached mutant (\d+)", trace.read_text(errors="replace"))}


def plugins(build, folder):
    """The tutorial's client plug-in, which stands in its page only, and the device of the other page."""
    text = (ROOT / "docs/your-first-miniport.md").read_text()
    parts = re.findall(r"^```c client\.c\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    source = folder / "first_client.c"
    source.write_text("\n".join(parts))
    out = folder / "first_client.so"
    compiler = ["clang-19", "-shared", "-fPIC", f"-I{build}/include", "-o"]
    subprocess.run([*compiler, str(out), str(source)], check=True)
    subprocess.run([*compiler, str(folder / "mygpu.so"), "-O2", str(ROOT / "examples/gpu/mygpu.c")], check=True)
