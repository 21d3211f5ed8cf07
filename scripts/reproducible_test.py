#!/usr/bin/env python3
"""scripts/reproducible on small packages: each way to differ has its line."""
import hashlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "reproducible"


def tar(files, mtime=100):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, content in files:
            one = tarfile.TarInfo(name)
            one.size, one.mtime, one.mode = len(content), mtime, 0o644
            archive.addfile(one, io.BytesIO(content))
    return data.getvalue()


def package(data, time=100):
    text = b"!<arch>\n"
    for name, content in (("debian-binary", b"2.0\n"), ("data.tar", data)):
        text += f"{name:<16}{time:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode() + content + b"\n" * (len(content) % 2)
    return text


FILES = [("./usr/bin/a", b"one"), ("./usr/bin/b", b"two")]


class Reproducible(unittest.TestCase):
    def compare(self, first, second):
        with tempfile.TemporaryDirectory() as folder:
            for name, packages in (("a", first), ("b", second)):
                pathlib.Path(folder, name).mkdir()
                for file, data in packages.items():
                    pathlib.Path(folder, name, file).write_bytes(data)
            done = subprocess.run([SCRIPT, "--compare", "a", "b"], cwd=folder, capture_output=True, text=True)
            return done.returncode, (done.stdout + done.stderr).splitlines()

    def differ(self, second, time=100):
        return self.compare({"x.deb": package(tar(FILES))}, {"x.deb": package(second, time)})

    def test_the_same(self):
        self.assertEqual(self.differ(tar(FILES)), (0, ["reproducible: the same bytes"]))

    def test_what_differs_is_named(self):
        self.assertEqual(self.differ(tar([FILES[0], ("./usr/bin/b", b"tWo")])), (1, ["x.deb: data.tar: ./usr/bin/b: 3 and 3 bytes, from byte 0x1 on"]))
        self.assertEqual(self.differ(tar(FILES, 101)), (1, [f"x.deb: data.tar: {name}: time 100, 101" for name, _ in FILES]))
        self.assertEqual(self.differ(tar(FILES[::-1])), (1, ["x.deb: data.tar: another order of files"]))
        self.assertEqual(self.differ(tar(FILES[:1])), (1, ["x.deb: data.tar: only in one of them: ./usr/bin/b"]))
        self.assertEqual(self.differ(tar(FILES) + bytes(512)), (1, ["x.deb: data.tar: compressed in another way"]))
        self.assertEqual(self.differ(tar(FILES), 7), (1, [f"x.deb: {name}: time, owner or mode in the archive's header" for name in ("debian-binary", "data.tar")]))

    def test_other_packages(self):
        one = package(tar(FILES))
        self.assertEqual(self.compare({"x.deb": one}, {"x.deb": one, "y.deb": one}), (1, ["only in one of them: y.deb"]))
        self.assertEqual(self.compare({}, {})[0], 2)
        self.assertEqual(self.compare({"x.deb": one}, {"x.deb": b"nothing"}), (2, ["reproducible: it is no package"]))

    def build_twice(self, recipe):
        """The script in a small tree, whose `make package` is the recipe with FILE for the package: exit code, lines without the folder's name."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder, "tree")
            (root / "scripts").mkdir(parents=True)
            shutil.copy(SCRIPT, root / "scripts")
            (root / "plain.deb").write_bytes(package(tar(FILES)))
            (root / "Makefile").write_text(f"package:\n\tmkdir -p build/package/packages\n\t{recipe.replace('FILE', 'build/package/packages/x.deb')}\n")
            for words in (["init", "--quiet"], ["add", "-A"], ["-c", "user.name=A", "-c", "user.email=a@localhost", "commit", "--quiet", "-m", "Begin"]):
                subprocess.run(["git", *words], cwd=root, check=True)
            done = subprocess.run([root / "scripts/reproducible"], capture_output=True, text=True, env={**{name: value for name, value in os.environ.items() if name != "TZ"}, "TMPDIR": folder})
            kept = list(pathlib.Path(folder).glob("dxgkit-reproducible-*"))
            return done.returncode, re.sub(r"\S*/dxgkit-reproducible-\w+", "WORK", done.stdout + done.stderr).splitlines(), len(kept)

    def test_two_builds_of_a_tree(self):
        builds = ["reproducible: builds in WORK/a", "reproducible: builds in WORK/the/second/folder/of/another/length"]
        digest = hashlib.sha256(package(tar(FILES))).hexdigest()
        self.assertEqual(self.build_twice("cp plain.deb FILE"), (0, [*builds, f"{digest}  x.deb", "reproducible: the same bytes"], 0))
        # A zone, a umask and a folder that come through.
        made = "python3 -c 'import io, os, sys, tarfile; data = io.BytesIO(); archive = tarfile.open(fileobj=data, mode=\"w\"); one = tarfile.TarInfo(\"a\"); " \
               "text = {}.encode(); one.size = len(text); archive.addfile(one, io.BytesIO(text)); archive.close(); data = data.getvalue(); " \
               "sys.stdout.buffer.write(b\"!<arch>\\n\" + b\"data.tar        0           0     0     644     \" + str(len(data)).ljust(10).encode() + b\"`\\n\" + data)' > FILE"
        for text, wanted in (('os.environ.get(\"TZ\", \"none\")', "x.deb: data.tar: a: 4 and 16 bytes, from byte 0x0 on"),
                             ('str(os.umask(0))', "x.deb: data.tar: a: 2 and 2 bytes, from byte 0x0 on")):
            code, said, kept = self.build_twice(made.format(text))
            self.assertEqual((code, said, kept), (1, [*builds, wanted], 1))
        code, said, kept = self.build_twice(made.format("os.getcwd()"))
        self.assertEqual((code, said[3:], kept), (1, ["x.deb: a: has WORK in it"] * 2, 1))
        self.assertEqual(self.build_twice("false")[0], 2)


if __name__ == "__main__":
    unittest.main()
