"""Writes an overlay, a folder of changed copies of sources.

It also configures a build that compiles the copies instead of the originals (cmake/Overlay.cmake).
"""
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def write(folder, copies):
    """`copies`: name from the root of the sources -> bytes. Copies that stay the same are not touched, so that they are not compiled again."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in copies.items():
        path = folder / name
        if not path.exists() or path.read_bytes() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
    for path in list(folder.rglob("*")):
        if path.is_file() and str(path.relative_to(folder)) not in copies:
            path.unlink()


def drop_copies_of_nothing(folder):
    """A source that was moved or deleted since the copy was made."""
    folder = pathlib.Path(folder)
    for path in list(folder.rglob("*")):
        if path.is_file() and not (ROOT / path.relative_to(folder)).exists():
            path.unlink()


def configure(build, folder):
    drop_copies_of_nothing(folder)
    flags = [f"-DDXGKIT_OVERLAY={folder}"]
    if shutil.which("ccache"):
        flags += ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache", "-DCMAKE_C_COMPILER_LAUNCHER=ccache"]
    pathlib.Path(build).mkdir(parents=True, exist_ok=True)
    subprocess.run(["cmake", "--preset", "dev", "-B", build, *flags], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
