#!/usr/bin/env python3
"""scripts/reproducible on small packages: each way to differ has its line."""
import io
import pathlib
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


if __name__ == "__main__":
    unittest.main()
