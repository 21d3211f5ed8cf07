"""Makes a picture of a page small enough for the repository: 256 colours at most."""
import struct
import zlib


def read_rgb(data):
    """Width, height and rows of an 8-bit PNG without alpha or interlacing, as the browser writes it."""
    at, packed, width, height, channels = 8, b"", 0, 0, 3
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, _, colour = struct.unpack(">IIBB", body[:10])
            channels = {2: 3, 6: 4}[colour]
        elif kind == b"IDAT":
            packed += body
        at += length + 12
    raw, stride = zlib.decompress(packed), width * channels
    rows, before = [], bytearray(stride)
    for y in range(height):
        kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride):
            left = line[i - channels] if i >= channels else 0
            corner = before[i - channels] if i >= channels else 0
            if kind == 1:
                line[i] = line[i] + left & 255
            elif kind == 2:
                line[i] = line[i] + before[i] & 255
            elif kind == 3:
                line[i] = line[i] + (left + before[i]) // 2 & 255
            elif kind == 4:
                guess = left + before[i] - corner
                distances = abs(guess - left), abs(guess - before[i]), abs(guess - corner)
                line[i] = line[i] + (left, before[i], corner)[distances.index(min(distances))] & 255
        rows.append([tuple(line[i:i + 3]) for i in range(0, stride, channels)])
        before = line
    return width, height, rows


def smaller(data):
    """The same picture with the most frequent 256 of colours rounded to 4 bits; the others become their nearest."""
    width, height, rows = read_rgb(data)
    counts = {}
    for row in rows:
        for pixel in row:
            colour = tuple(min(255, round(value / 15) * 15) for value in pixel)
            counts[colour] = counts.get(colour, 0) + 1
    palette = sorted(counts, key=lambda colour: -counts[colour])[:256]
    number = {colour: i for i, colour in enumerate(palette)}
    for colour in counts:
        if colour not in number:
            number[colour] = min(range(len(palette)), key=lambda i: sum((a - b) ** 2 for a, b in zip(palette[i], colour)))
    lines = b"".join(b"\0" + bytes(number[tuple(min(255, round(value / 15) * 15) for value in pixel)] for pixel in row) for row in rows)

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)) +
            chunk(b"PLTE", b"".join(bytes(colour) for colour in palette)) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b""))
