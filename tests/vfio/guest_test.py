#!/usr/bin/env python3
"""Real PCI devices under dxgkit, in a guest: guest_test.py BUILD FOLDER

Boots a Debian kernel in QEMU with an IOMMU, QEMU's edu device and a virtio GPU, and runs guest.sh there: dxgkit takes the devices over by VFIO.
Nothing but packages of Debian is needed. They are downloaded into FOLDER once. Exit code 0: every check of the guest passed, and QEMU's screen
showed each picture that a program in the guest drew.
"""
import contextlib
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading

from screen import FLUSH_EVENT, Screen

HERE = pathlib.Path(__file__).resolve().parent
QEMU = "qemu-system-x86_64"
KERNEL_META = "linux-image-cloud-amd64"  # depends on the package with the kernel itself
MODULES = ("irqbypass", "vfio", "vfio_virqfd", "vfio_iommu_type1", "vfio-pci-core", "vfio-pci")
GUEST_SECONDS = 600  # a guest that takes longer hangs: without KVM the checks take a minute, on a machine that has nothing else to do
MEMORY_MIB = 1024
PICTURES = 4  # of picture_client.c


def fail(text):
    print(f"vfio-test: {text}", file=sys.stderr)
    sys.exit(1)


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def kernel_package():
    done = subprocess.run(("apt-cache", "depends", KERNEL_META), capture_output=True, text=True, check=False)
    found = re.search(r"Depends: (linux-image-[0-9]\S*)", done.stdout)
    return found.group(1) if found else None


def download(name, root):
    """Lists of packages may be missing, or older than the packages that there are."""
    command = ("apt-get", "download", "-qq", name)
    if subprocess.run(command, cwd=root, capture_output=True, check=False).returncode != 0:
        run(*(() if os.geteuid() == 0 else ("sudo", "--non-interactive")), "apt-get", "update", "-qq")
        run(*command, cwd=root)


def unpack_packages(folder):
    """A kernel and busybox, unpacked; a second run finds them there, and needs no network."""
    roots = []
    for name in (KERNEL_META, "busybox-static"):
        root = folder / name
        if not (root / "done").exists():
            shutil.rmtree(root, ignore_errors=True)
            root.mkdir(parents=True)
            download(name, root)
            if name == KERNEL_META:  # it is empty, and depends on the newest one
                download(kernel_package() or fail(f"apt knows no {KERNEL_META}"), root)
            for package in root.glob("*.deb"):
                run("dpkg-deb", "-x", package, root)
            (root / "done").touch()
        roots.append(root)
    return roots


class Archive:
    """An initramfs, in the format that Linux calls newc."""

    def __init__(self):
        self.bytes = bytearray()
        self.names = set()

    def entry(self, name, mode, content=b"", device=(0, 0)):
        fields = (len(self.names) + 1, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name) + 1, 0)
        self.names.add(name)
        self.bytes += b"070701" + "".join(f"{field:08x}" for field in fields).encode() + name.encode() + b"\0"
        self.bytes += b"\0" * (-len(self.bytes) % 4) + content
        self.bytes += b"\0" * (-len(self.bytes) % 4)

    def folder(self, name):
        if not name or name in self.names:
            return
        self.folder(os.path.dirname(name))
        self.entry(name, stat.S_IFDIR | 0o755)

    def file(self, name, path, mode=0o755):
        name = name.lstrip("/")
        if name in self.names:
            return
        self.folder(os.path.dirname(name))
        self.entry(name, stat.S_IFREG | mode, pathlib.Path(path).read_bytes())

    def finish(self):
        self.entry("TRAILER!!!", 0)
        return bytes(self.bytes)


def libraries_of(program):
    """The files that the dynamic linker loads for it, and the linker itself."""
    return re.findall(r"(/\S+) \(0x", run("ldd", program))


def make_initramfs(folder, kernel, busybox, build):
    tool, library, picture = (build / path for path in ("tools/dxgkit/dxgkit", "src/dxcore/libdxcore.so", "tests/picture_client"))
    miniports = build / "miniports"
    archive = Archive()
    for name in ("bin", "dev", "drivers", "etc", "modules", "proc", "sys", "tmp"):
        archive.folder(name)
    # Until devtmpfs is mounted, Linux opens this for the first process.
    archive.entry("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    archive.file("bin/busybox", busybox / "bin/busybox")
    archive.file("init", HERE / "guest.sh")
    for module in MODULES:
        archive.file(f"modules/{module}.ko", next(kernel.glob(f"lib/modules/*/kernel/**/{module}.ko")))
    for path, name in ((tool, "bin/dxgkit"), (library, "drivers/libdxcore.so"), (picture, "bin/picture_client")):
        small = folder / path.name
        run("strip", "-o", small, path)  # debug information is the largest part of it
        archive.file(name, small)
    drivers = [miniports / f"{name}{form}" for name in ("edu", "edu_astray") for form in (".so", ".sys")]
    for path in (*drivers, miniports / "virtiogpu.sys", miniports / "edu/edu_client.so", build / "tools/dxgkit/clients/virtiogpu_client.so"):
        archive.file(f"drivers/{path.name}", path)
    for needed in (*libraries_of(tool), *libraries_of(library), *libraries_of(picture)):
        archive.file(needed, os.path.realpath(needed))
    (folder / "initramfs").write_bytes(archive.finish())
    return folder / "initramfs"


def command_of(kernel, initramfs, qmp, log):
    image = next(kernel.glob("boot/vmlinuz-*"))
    # smap: QEMU before 9.1 takes an iretq of a user program, which dxgkit's exceptions end with, for an access of the kernel.
    return (QEMU, "-machine", "q35", "-accel", "tcg", "-cpu", "max,smap=off", "-smp", "2", "-m", str(MEMORY_MIB), "-nodefaults", "-no-user-config",
            "-display", "none", "-serial", "stdio", "-no-reboot", "-qmp", f"unix:{qmp},server=on,wait=off",
            "-trace", FLUSH_EVENT, "-D", str(log),
            "-device", "intel-iommu,intremap=on",
            # edu sends 28 bits of an address unless it is told otherwise; the low window of a machine is above that.
            "-device", "edu,addr=05.0,dma_mask=0xffffffff",
            # edu has no reset of its own. Behind a port of its own, Linux resets the bus to it.
            "-device", "pcie-root-port,id=slot1,chassis=1,addr=07.0", "-device", "edu,bus=slot1,dma_mask=0xffffffff",
            # Without iommu_platform QEMU's virtio devices go around the IOMMU.
            "-device", "pcie-root-port,id=slot2,chassis=2,addr=08.0",
            "-device", "virtio-gpu-pci,id=gpu,bus=slot2,iommu_platform=on,xres=640,yres=480",
            # On a busy host Linux would take a late timer for a broken one.
            "-kernel", str(image), "-initrd", str(initramfs),
            "-append", "console=ttyS0 intel_iommu=on no_timer_check panic=-1 loglevel=4")


def look(screen, line):
    """The line of a check for a picture that the guest holds; None: the line is about no picture."""
    held = re.fullmatch(r"picture (\d+) (\d+)x(\d+)", line)
    if held is None:
        return None
    number, width, height = map(int, held.groups())
    wrong = screen.difference(number, width, height)
    return f"ok screen shows picture {number}" if wrong is None else f"FAILED screen: picture {number}: {wrong}"


def boot(kernel, initramfs, folder):
    """The lines that the guest prints, and those of the checks of its screen."""
    lines, looks = [], []
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        qmp = pathlib.Path(place) / "qmp"  # paths of sockets are short
        log = folder / "qemu.log"
        log.unlink(missing_ok=True)
        qemu = stack.enter_context(subprocess.Popen(command_of(kernel, initramfs, qmp, log), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                    stderr=subprocess.STDOUT, text=True, errors="replace", bufsize=1))
        timer = threading.Timer(GUEST_SECONDS, qemu.kill)
        timer.start()
        screen = None
        for line in map(str.rstrip, qemu.stdout):
            lines.append(line)
            if screen is None and qmp.exists():
                screen = stack.enter_context(contextlib.closing(Screen(qmp, "gpu", folder, log)))
            found = look(screen, line)
            if found is not None:
                looks.append(found)
                qemu.stdin.write("\n")  # the program goes on
        if not timer.is_alive():
            lines.append(f"vfio-test: the guest did not end within {GUEST_SECONDS} s")
        timer.cancel()
    return lines, looks


def main():
    build, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    if shutil.which(QEMU) is None:
        fail(f"there is no {QEMU}: scripts/bootstrap qemu-system-x86")
    folder.mkdir(parents=True, exist_ok=True)
    kernel, busybox = unpack_packages(folder)
    lines, looks = boot(kernel, make_initramfs(folder, kernel, busybox, build), folder)
    (folder / "guest.log").write_text("\n".join(lines) + "\n")
    checks = [line for line in lines if re.match(r"(ok|FAILED) ", line)]
    end = [line for line in lines if re.fullmatch(r"guest: \d+ passed, \d+ failed", line)]
    whole = len(end) == 1 and f"guest: {len([line for line in checks if line.startswith('ok ')])} passed, 0 failed" == end[0]
    print("\n".join(checks + looks + end))
    whole = whole and len(looks) == PICTURES and all(one.startswith("ok ") for one in looks)
    if not whole or not checks:
        print("\n".join(lines[-60:]), file=sys.stderr)
        fail(f"the guest failed; all of its output is in {folder / 'guest.log'}")


main()
