"""A kind of file and `Dice` → its bytes: small and harmless. Pictures, PDFs and archives can be opened.

PNG pictures and archives are stored, not deflated, because the output of zlib depends on its version.
"""

import struct
import zlib
from collections.abc import Callable

from tamis_mail.sample.dice import Dice

CONTENT_TYPES = {
    "pdf": "application/pdf",
    "png": "image/png",
    "jpg": "image/jpeg",
    "zip": "application/zip",
    "docm": "application/vnd.ms-word.document.macroEnabled.12",
    "html": "text/html",
    "csv": "text/csv",
    "patch": "text/x-patch",
    "bin": "application/octet-stream",
}


def make_file(kind: str, dice: Dice) -> bytes:
    """Make a file of a kind, which is a key of CONTENT_TYPES."""
    return _MAKERS[kind](dice)


def _make_pdf(dice: Dice) -> bytes:
    """Make a PDF of objects and a trailer, without cross references, which viewers reconstruct."""
    # Text in font F1, 12 points, one inch from the left and ten from the bottom of the page, which is A4:
    # 595 by 842 points.
    text = f"BT /F1 12 Tf 72 720 Td (Document {dice.digits(8)}) Tj ET"
    objects = (
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R >>",
        f"<< /Length {len(text)} >>\nstream\n{text}\nendstream",
    )
    body = "".join(f"{number} 0 obj\n{content}\nendobj\n" for number, content in enumerate(objects, 1))
    return f"%PDF-1.4\n{body}trailer\n<< /Root 1 0 R >>\n%%EOF\n".encode("ascii")


def _make_png(dice: Dice) -> bytes:
    width, height = dice.draw_between(8, 16), dice.draw_between(6, 10)
    # Before each row: its bytes are not filtered.
    rows = b"".join(b"\0" + dice.bytes(width) for _ in range(height))
    # The header of zlib (78 01), then one block that is the last (01) and is not compressed: its length, the
    # complement of that, and the data.
    deflated = b"\x78\x01\x01" + struct.pack("<HH", len(rows), len(rows) ^ 0xFFFF) + rows
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in (
            # 8 bits per pixel, grey, and the only methods of compression and filtering; not interlaced.
            (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
            (b"IDAT", deflated + struct.pack(">I", zlib.adler32(rows))),
            (b"IEND", b""),
        )
    )


def _make_jpg(dice: Dice) -> bytes:
    """Make a grey mosaic: each block has only its mean, as the difference from the previous block.

    The difference is written as its number of bits, and these bits; one further bit ends the block.
    """
    columns, rows = dice.draw_between(3, 6), dice.draw_between(2, 4)
    bits, level = "", 0
    for _ in range(columns * rows):
        target = dice.draw_between(-60, 60)
        step, level = target - level, target
        size = abs(step).bit_length()
        value = step if step > 0 else step + (1 << size) - 1
        bits += f"{size:04b}" + (f"{value:0{size}b}" if size else "") + "0"
    bits += "1" * (-len(bits) % 8)
    scan = bytes(int(bits[start : start + 8], 2) for start in range(0, len(bits), 8)).replace(
        b"\xff", b"\xff\0"
    )
    # A table begins with its kind (0x00: means, 0x10: all else) and the numbers of codes of 1 to 16 bits.
    size_codes = bytes([0, 0, 0, 0, 8]) + bytes(12) + bytes(range(8))  # eight codes of four bits: 0 to 7
    end_code = bytes([0x10, 1]) + bytes(15) + b"\0"  # one code of one bit: the block ends
    segments = (
        (0xE0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0"),  # application header: version, density of pixels
        (0xDB, b"\0" + bytes([8] * 64)),  # quantization table 0: all coefficients in units of 8
        # Frame: 8 bits, size, one colour, which has the number 1 and quantization table 0.
        (0xC0, struct.pack(">BHHB", 8, rows * 8, columns * 8, 1) + b"\x01\x11\0"),
        (0xC4, size_codes),  # Huffman tables
        (0xC4, end_code),
        (0xDA, b"\x01\x01\0\0\x3f\0"),  # scan: the colour, with tables 0; all 64 coefficients
    )
    head = b"".join(
        b"\xff" + bytes([mark]) + struct.pack(">H", len(data) + 2) + data for mark, data in segments
    )
    return b"\xff\xd8" + head + scan + b"\xff\xd9"


def _make_archive(name: bytes, data: bytes) -> bytes:
    """Make a zip of one file: its local header and data, the central directory and the end record."""
    # Version 2.0, no flags, stored, midnight, 2026-01-01, checksum, both sizes, lengths of name and extra
    # field.
    fields = struct.pack(
        "<HHHHHIIIHH", 20, 0, 0, 0, 0x5C21, zlib.crc32(data), len(data), len(data), len(name), 0
    )
    local = b"PK\x03\x04" + fields + name + data
    central = b"PK\x01\x02\x14\0" + fields + bytes(14) + name
    return local + central + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)


def _make_zip(dice: Dice) -> bytes:
    return _make_archive(b"readme.txt", f"nothing here but the number {dice.digits(12)}\n".encode("ascii"))


def _make_docm(dice: Dice) -> bytes:
    return _make_archive(b"word/document.xml", f"<document>{dice.hexadecimal(40)}</document>".encode("ascii"))


def _make_html(dice: Dice) -> bytes:
    return f"<html><body><p>Loading document {dice.digits(7)} &hellip;</p></body></html>\n".encode("ascii")


def _make_csv(dice: Dice) -> bytes:
    rows = (
        f"{number},{dice.digits(4)},{dice.draw_between(10, 900)}.{dice.digits(2)}\n" for number in range(1, 7)
    )
    return ("row,item,amount\n" + "".join(rows)).encode("ascii")


def _make_patch(dice: Dice) -> bytes:
    name, line = dice.pick(("parse.c", "queue.c", "index.py", "Makefile")), dice.draw_between(10, 400)
    old, new = dice.hexadecimal(7), dice.hexadecimal(7)
    return (
        f"--- a/src/{name}\n+++ b/src/{name}\nindex {old}..{new} 100644\n@@ -{line},3 +{line},4 @@\n"
        f" \tif (limit == 0)\n-\t\treturn {dice.draw_below(9)};\n"
        f"+\t\tlimit = {dice.draw_between(16, 512)};\n+\tcount++;\n \n"
    ).encode("ascii")


_MAKERS: dict[str, Callable[[Dice], bytes]] = {
    "pdf": _make_pdf,
    "png": _make_png,
    "jpg": _make_jpg,
    "zip": _make_zip,
    "docm": _make_docm,
    "html": _make_html,
    "csv": _make_csv,
    "patch": _make_patch,
    "bin": lambda dice: dice.bytes(dice.draw_between(60, 200)),
}
