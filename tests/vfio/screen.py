"""What QEMU's screen shows, by QMP, and what picture_client.c has drawn."""
import json
import pathlib
import re
import socket
import time

FLUSH_EVENT = "virtio_gpu_cmd_res_flush"  # of QEMU's trace
NEW_PART = (13, 9, 60, 41)  # of picture 2: x, y, width, height


def pixel_of(number, x, y):
    return bytes(((x * 7 + number * 90) % 256, (y * 11 + number * 50) % 256, (x + y * 3 + number * 21) % 256))


def picture(number, width, height):
    """Red, green and blue of each pixel. Picture 2 is picture 1 with a rectangle of new pixels."""
    left, top, columns, rows = NEW_PART

    def drawn(x, y):
        if number == 2 and not (left <= x < left + columns and top <= y < top + rows):
            return pixel_of(1, x, y)
        return pixel_of(number, x, y)

    return b"".join(drawn(x, y) for y in range(height) for x in range(width))


class Screen:
    """Of a QEMU that listens at a socket."""
    SECONDS = 20  # until a picture is there: a flip waits for a timer, and the guest is slow

    def __init__(self, qmp_path, device, folder, log):
        self.device = device
        self.log = pathlib.Path(log)
        self.file = pathlib.Path(folder) / "screen.ppm"
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(qmp_path))
        self.lines = self.socket.makefile("r", encoding="utf-8")
        self.lines.readline()  # what it is
        self.ask("qmp_capabilities")

    def close(self):
        self.lines.close()
        self.socket.close()

    def ask(self, command, **arguments):
        self.socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
        while True:
            line = self.lines.readline()
            if not line:
                raise RuntimeError("QEMU has gone")
            answer = json.loads(line)
            if "error" in answer:
                raise RuntimeError(f'{command}: {answer["error"]["desc"]}')
            if "return" in answer:  # and no event
                return answer["return"]

    def look(self):
        """Width, height, and the bytes of the pixels."""
        self.ask("screendump", filename=str(self.file), device=self.device)
        return read_ppm(self.file.read_bytes())

    def last_flush(self):
        """x, y, width and height; None: nothing was flushed."""
        found = re.findall(rf"{FLUSH_EVENT} res 0x[0-9a-f]+, w (\d+), h (\d+), x (\d+), y (\d+)", self.log.read_text() if self.log.exists() else "")
        return (*map(int, found[-1][2:]), *map(int, found[-1][:2])) if found else None

    def difference(self, number, width, height):
        """Waits for the picture, and for the flush of what is new in it; what is wrong with the screen, or None."""
        wanted = picture(number, width, height)
        flush = NEW_PART if number == 2 else (0, 0, width, height)
        deadline = time.monotonic() + self.SECONDS
        while True:
            found_width, found_height, found = self.look()
            if (found_width, found_height, found) == (width, height, wanted) and self.last_flush() == flush:
                return None
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        if (found_width, found_height) != (width, height):
            return f"it has {found_width}x{found_height} pixels"
        if found == wanted:
            return f"the last flush was of {self.last_flush()}, and not of {flush}"
        wrong = [i // 3 for i in range(0, len(wanted), 3) if found[i:i + 3] != wanted[i:i + 3]]
        return f"{len(wrong)} pixels differ, the first at {wrong[0] % width}, {wrong[0] // width}"


def read_ppm(data):
    kind, size, most, pixels = data.split(b"\n", 3)
    if (kind, most) != (b"P6", b"255"):
        raise RuntimeError("QEMU wrote another kind of picture")
    width, height = map(int, size.split())
    return width, height, pixels
