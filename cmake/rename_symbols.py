#!/usr/bin/env python3
"""Makes the symbol names of ELF objects compiled for the Windows ABI palatable to an ELF linker, in place.

C++ names of that ABI contain '?' and '@'; the linker takes '@' for a symbol version. Both become '$', which no such name contains,
so distinct names could only collide if they differed in nothing but those two characters; that is checked.

usage: rename_symbols.py OBJECT...
"""
import struct
import sys

SYMBOL_TABLE = 2


def rename(path):
    with open(path, "rb") as file:
        data = bytearray(file.read())
    if data[:6] != b"\x7fELF\x02\x01":
        sys.exit(f"{path}: not a little-endian ELF64 object")
    section_offset, = struct.unpack_from("<Q", data, 0x28)
    entry_size, count = struct.unpack_from("<HH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, section_offset + i * entry_size) for i in range(count)]
    seen = {}
    for header in headers:
        if header[1] != SYMBOL_TABLE:
            continue
        names = headers[header[6]]
        names_offset, names_size = names[4], names[5]
        for at in range(header[4], header[4] + header[5], header[9]):
            name_at, = struct.unpack_from("<I", data, at)
            begin = names_offset + name_at
            end = data.index(0, begin, names_offset + names_size)
            old = bytes(data[begin:end])
            # A name may be the tail of another that was renamed already; both readings give the same bytes.
            new = old.replace(b"?", b"$").replace(b"@", b"$")
            if seen.setdefault(new, old) != old and b"$" in new and old != new:
                sys.exit(f"{path}: {old.decode()} and {seen[new].decode()} would get one name")
            data[begin:end] = new
    with open(path, "wb") as file:
        file.write(data)


for object_path in sys.argv[1:]:
    rename(object_path)
