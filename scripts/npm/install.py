#!/usr/bin/env python3
"""Puts the packages of package-lock.json into FOLDER/node_modules: install.py FOLDER

Only what has been pinned with its checksum, and nothing is run. npm itself is some 300 packages of Debian, which no build needs for one file.
Exit code 1, with a line on stderr: one of them could not be had. Then FOLDER has none of them.
"""
import base64
import hashlib
import io
import json
import os
import pathlib
import shutil
import sys
import tarfile
import urllib.request

REGISTRY = os.environ.get("NPM_CONFIG_REGISTRY", "https://registry.npmjs.org").rstrip("/")
SECONDS = 60


def fetch(name, package):
    """The files of a package, by path."""
    file = name.rpartition("/")[2]
    with urllib.request.urlopen(f"{REGISTRY}/{name}/-/{file}-{package['version']}.tgz", timeout=SECONDS) as answer:
        data = answer.read()
    kind, _, wanted = package["integrity"].partition("-")
    if kind != "sha512" or base64.b64encode(hashlib.sha512(data).digest()).decode() != wanted:
        raise OSError(f"{name}: another checksum than in package-lock.json")
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        return {pathlib.PurePosixPath(member.name): archive.extractfile(member).read() for member in archive if member.isfile()}


def main():
    folder = pathlib.Path(sys.argv[1])
    lock = (pathlib.Path(__file__).resolve().parent / "package-lock.json").read_text()
    mark = folder / "package-lock.json"
    if mark.exists() and mark.read_text() == lock:
        return 0
    shutil.rmtree(folder, ignore_errors=True)
    try:
        for place, package in json.loads(lock)["packages"].items():
            if not place:
                continue  # the list itself
            for path, content in fetch(place.removeprefix("node_modules/"), package).items():
                # A package's files lie in one folder of the archive, whatever it is called.
                parts = path.parts[1:]
                if not parts or ".." in parts:
                    raise OSError(f"{place}: a file outside of it: {path}")
                target = folder / place / pathlib.Path(*parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
    except (OSError, tarfile.TarError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        print(f"npm/install.py: {error}", file=sys.stderr)
        return 1
    mark.write_text(lock)  # the last thing: all is there
    return 0


if __name__ == "__main__":
    sys.exit(main())
