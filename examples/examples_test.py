#!/usr/bin/env python3
"""Installs the build into an empty prefix and builds each example against that alone: examples_test.py BUILD_FOLDER CXX

What the examples print and the verifier says of the miniport is compared; nothing of the source tree is used but two pages, which are followed.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

build, cxx = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
docs = pathlib.Path(__file__).resolve().parents[1] / "docs"


def run(*command, **more):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}")
    return done.stdout


def examples_of(prefix):
    return next(prefix.glob("share/dxgkit/examples"))


def follow(page, example, prefix, folder):
    """Code of the page is the example's, and its commands work and print what the page says."""
    text = (docs / page).read_text()
    blocks = re.findall(r"^```(\w+) ?([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    code = [(name, body) for _, name, body in blocks if name]
    assert len(code) >= 3, f"{page} has lost its code"
    for name, body in code:
        assert body.strip() in (example / name).read_text(), f"{page} shows what is not in {name}:\n{body}"
    commands = "".join(body for language, _, body in blocks if language == "sh")
    shutil.copytree(example, folder)
    said = run("bash", "-euo", "pipefail", "-c", commands, cwd=folder,
               env=dict(os.environ, PREFIX=str(prefix), PATH=f"{prefix}/bin:{os.environ['PATH']}", CXX=cxx)).splitlines()
    printed = [line for language, _, body in blocks if language == "text" for line in body.splitlines()] + re.findall(r"It prints `(.*)`", text)
    assert printed and all(line in said for line in printed), f"{page}: {said}"


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    prefix = folder / "prefix"
    run("cmake", "--install", build, "--prefix", prefix)
    examples = examples_of(prefix)
    for name in ("client", "embed", "device", "gpu", "miniport"):
        shutil.copytree(examples / name, folder / name)
        run("cmake", "-S", folder / name, "-B", folder / name / "build", f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={cxx}",
            "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror -Wno-missing-field-initializers",
            "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror -Wno-missing-field-initializers")
        run("cmake", "--build", folder / name / "build")
    shutil.move(prefix, folder / "moved")  # an installed dxgkit may be moved
    prefix = folder / "moved"
    library = next(prefix.glob("lib*/**/libdxgkit.so")).parent
    environment = dict(os.environ, LD_LIBRARY_PATH=str(library))
    said = run(folder / "embed/build/embed", env=environment)
    assert said == "the packet's fence is signalled: 0x1\n", said
    assert run(folder / "embed/build/embed_static") == said, "the static library says something else"
    # A program that knows the library's name only; nothing of dxgkit is in it.
    said = run(prefix / "bin/dxgkit", "run-client", "--", folder / "client/build/client")
    assert said == "1 adapter, 4096 bytes written, the fence is at 7\n", said
    assert list(prefix.rglob("libdxgkit-d3dkmt.so")), "the library's second name is missing"
    linked = run("ldd", folder / "client/build/client")
    assert "dxgkit" not in linked and "dxcore" not in linked, linked
    for page, example in (("your-first-client.md", "client"), ("embedding.md", "embed")):
        follow(page, examples_of(prefix) / example, prefix, folder / f"page-{example}")
    said = run(prefix / "bin/dxgkit", "run", "--driver", next(prefix.glob("lib*/**/drivers/framebuffer.sys")), "--device",
               f"{folder}/device/build/screen.so,width=320")
    assert "the screen is identical" in said and "screen: 320 x 480, 0 pixels are lit" in said, said
    wrong = subprocess.run([prefix / "bin/dxgkit", "run", "--device", f"{folder}/device/build/screen.so,width=9"], capture_output=True, text=True)
    assert wrong.returncode == 2 and wrong.stderr.count("\n") == 1 and "width: a number of pixels from 64 to 1024" in wrong.stderr, wrong
    driver = folder / "miniport/build/miniports/first.sys"
    run(prefix / "bin/dxgkit", "check", driver, "--device", "none", "--client", folder / "miniport/build/client.so")
    run(prefix / "bin/dxgkit", "verify", folder / "gpu/build/miniports/mygpu_driver.sys", "--device", folder / "gpu/build/mygpu.so")
    # A new driver builds, and is clean with its plug-in, which dxgkit.toml beside it names.
    run(prefix / "bin/dxgkit", "new", folder / "my_gpu")
    run("cmake", "-S", folder / "my_gpu", "-B", folder / "my_gpu/build", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror")
    run("cmake", "--build", folder / "my_gpu/build")
    said = run(prefix / "bin/dxgkit", "check", folder / "my_gpu/build/miniports/my_gpu.sys")
    assert "\n  render " in said and "MyGpu" in (folder / "my_gpu/my_gpu.c").read_text(), said
    # The skeleton of a client plug-in builds, and says what its author has to write.
    run(prefix / "bin/dxgkit", "new-client", folder / "mine")
    run("cmake", "-S", folder / "mine", "-B", folder / "mine/build", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_C_FLAGS=-Wall -Wextra -Wpedantic -Werror")
    run("cmake", "--build", folder / "mine/build")
    unwritten = subprocess.run([prefix / "bin/dxgkit", "verify", driver, "--device", "none", "--client", folder / "mine/build/mine.so"],
                               capture_output=True, text=True)
    assert unwritten.returncode == 1 and "mine.c: pack_allocation is not written yet" in unwritten.stdout, unwritten
    assert run(prefix / "bin/dxgkit", "--version").startswith("dxgkit 0.1.0 ("), "the tool does not say its version"
    # Only what is public is seen from outside.
    names = [line.split()[-1] for line in run("nm", "-D", "--defined-only", "-C", next(library.glob("libdxgkit.so"))).splitlines()]
    symbols = run("nm", "-D", "--defined-only", next(library.glob("libdxgkit.so")))
    assert " D3DKMTRender" in symbols
    inner = [line for line in symbols.splitlines() if "4dxgk6System" in line or "5vidmm" in line or "6vidsch" in line]
    assert not inner, inner[:5]
    pkg_config = run("pkg-config", "--cflags", "--libs", "dxgkit", env=dict(os.environ, PKG_CONFIG_PATH=str(library / "pkgconfig")))
    assert "-ldxgkit" in pkg_config and "-W" not in pkg_config, pkg_config
print("5 passed, 0 failed")
