"""Read a regular file or stdin in blocks, decompressed if its first bytes are those of gzip, bzip2 or xz.

Other files are not opened: a FIFO would block for ever, and to open a device can have effects.
"""
# Importing pathlib would take 8 ms of a process that judges one message.
# ruff: noqa: PTH116

import os
import stat
import sys
from collections.abc import Callable
from importlib import import_module

from tamis_mail.files import IrregularFileError
from tamis_mail.framing import LARGEST_RAW
from tamis_mail.mailbox.raw_message import SourceError, printable

_CHUNK = 1 << 16  # bytes of a file that are read first, and bytes of a packed file that are read at a time
_BLOCK = 1 << 20
# Unpacked bytes per packed byte. Mail has about 3, copies of one newsletter 50, zero bytes 1000.
_MAX_RATIO = 200
# Unpacked bytes that are allowed at any ratio: they fit into memory.
_ALWAYS_ALLOWED = LARGEST_RAW + (2 << 20)
_MAX_UNPACKED = 100 << 30  # bytes; no mailbox is this large
_XZ_MEMORY = 256 << 20  # `xz -9` needs 65 MB to unpack; a hostile header may ask for 4 GB
# Do not wait for the writer of a FIFO, do not pass the descriptor to programs, and keep line ends on Windows.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class File:
    """The bytes of a regular file; raise IrregularFileError for another one."""

    __slots__ = ("_descriptor", "path", "size")

    def __init__(self, path: str) -> None:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise IrregularFileError(f"{path} is not a regular file")
        self.path = path
        self._descriptor = os.open(path, _FLAGS)
        self.size = os.fstat(self._descriptor).st_size

    def __enter__(self) -> "File":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def read(self, limit: int) -> bytes:
        """Read the next bytes: at least one, except at the end."""
        return os.read(self._descriptor, limit)


class Stdin:
    """The bytes of standard input; none if the process has no standard input."""

    path = "stdin"

    def read(self, limit: int) -> bytes:
        """Read the next bytes: at least one, except at the end."""
        pipe = getattr(sys.stdin, "buffer", None)
        return b"" if pipe is None else bytes(pipe.read(limit))


class Content:
    """The content of a file: its bytes, decompressed if the file is compressed and `as_it_is` is false."""

    __slots__ = ("_head", "_read", "_unpacker")

    def __init__(self, file: File | Stdin, *, as_it_is: bool = False) -> None:
        head = file.read(_CHUNK)
        self._head = b""
        self._unpacker: _Unpacker | None = None
        for magic in () if as_it_is else _FORMATS:
            if head.startswith(magic):
                self._unpacker = _Unpacker(file, head, magic)
                self._read = self._unpacker.read
                return
        self._head = head
        self._read = file.read

    def peek(self, limit: int) -> bytes:
        """Return the next bytes, `limit` of them or all that follow, without consuming them."""
        while len(self._head) < limit and (block := self._read(limit - len(self._head))):
            self._head += block
        return self._head[:limit]

    def read(self, limit: int) -> bytes:
        """Read the next bytes: at least one, except at the end; more than `limit` only after `peek`."""
        if head := self._head:
            self._head = b""
            return head
        return self._read(limit)

    def read_all(self, limit: int | None) -> bytes:
        """Read to the end, but at most `limit` bytes."""
        blocks, length = [], 0
        while (limit is None or length < limit) and (block := self.read(_BLOCK)):
            blocks.append(block)
            length += len(block)
        return (blocks[0] if len(blocks) == 1 else b"".join(blocks))[:limit]

    @property
    def is_packed(self) -> bool:
        """Whether the file is compressed."""
        return self._unpacker is not None

    def verify_packed(self) -> None:
        """Read a compressed text to its end; raise SourceError if it is truncated or damaged."""
        while self.is_packed and self.read(_BLOCK):
            pass

    def count_file_bytes(self, text_bytes: int) -> int:
        """Return the offset in the file for an offset in the text.

        In a compressed file, it is the number of bytes that were read so far.
        """
        return text_bytes if self._unpacker is None else self._unpacker.bytes_read


class _Unpacker:
    """Decompresses a file, with no more output at a time than requested.

    `head` are the first bytes of the file, which were read already, and `magic` those of them that identify
    its format (a key of _FORMATS).
    """

    __slots__ = (
        "_bytes_written",
        "_decompressor",
        "_errors",
        "_file",
        "_input",
        "_magic",
        "_make_decompressor",
        "bytes_read",
    )

    def __init__(self, file: File | Stdin, head: bytes, magic: bytes) -> None:
        self._file = file
        self._input = head
        self._magic = magic
        self._make_decompressor, self._errors = _FORMATS[magic]()
        self._decompressor = self._make_decompressor()
        self._bytes_written = 0
        self.bytes_read = len(head)

    def read(self, limit: int) -> bytes:
        """Return the next bytes of the text: at least one, except at the end."""
        while True:
            if self._decompressor.eof and not self._start_next_stream():
                return b""
            if not self._input and self._decompressor.needs_input:
                self._input = self._file.read(_CHUNK)
                self.bytes_read += len(self._input)
                if not self._input:
                    raise SourceError(
                        f"{printable(self._file.path)} is cut off (it ends before its compressed text does), "
                        "expected a complete compressed file: get it again, or unpack the intact part"
                    )
            block, self._input = self._input, b""
            try:
                text = self._decompressor.decompress(block, limit)
            except self._errors as error:
                raise SourceError(
                    f"{printable(self._file.path)} is damaged ({error}), expected an intact compressed "
                    "file: unpack the part that can be saved, and name that"
                ) from None
            if text:
                self._bytes_written += len(text)
                self._refuse_bombs()
                return text

    def _start_next_stream(self) -> bool:
        """Begin to read the compressed stream that follows this one; return False if none follows.

        Other bytes at the end of the file are ignored.
        """
        rest = self._decompressor.unused_data
        while len(rest) < len(self._magic) and (block := self._file.read(_CHUNK)):
            rest += block
            self.bytes_read += len(block)
        if not rest.startswith(self._magic):
            return False
        self._input = rest
        self._decompressor = self._make_decompressor()
        return True

    def _refuse_bombs(self) -> None:
        """Raise SourceError for a decompression bomb, which unpacks to far more bytes than mail does."""
        if self._bytes_written > _MAX_UNPACKED or (
            self._bytes_written > _ALWAYS_ALLOWED and self._bytes_written > _MAX_RATIO * self.bytes_read
        ):
            raise SourceError(
                f"{printable(self._file.path)} unpacks to over {self._bytes_written >> 20} MB from its first "
                f"{self.bytes_read} bytes, more than mail does: if you trust it, unpack it first"
            )


class _Decompressor:
    """The interface of the decompressors of `bz2` and `lzma`: see `bz2.BZ2Decompressor`."""

    eof: bool
    needs_input: bool
    unused_data: bytes

    def decompress(self, block: bytes, limit: int, /) -> bytes:
        raise NotImplementedError


class _Gunzip(_Decompressor):
    """The decompressor of gzip, with the same interface."""

    def __init__(self) -> None:
        self._decompressor = import_module("zlib").decompressobj(wbits=31)  # 15 for zlib, 16 more for gzip
        self.eof = False
        self.needs_input = True
        self.unused_data = b""

    def decompress(self, block: bytes, limit: int, /) -> bytes:
        decompressor = self._decompressor
        text: bytes = decompressor.decompress(decompressor.unconsumed_tail + block, limit)
        # If the limit was reached, zlib may have more output without more input.
        self.needs_input = not decompressor.unconsumed_tail and len(text) < limit
        self.eof = decompressor.eof
        self.unused_data = decompressor.unused_data
        return text


# A function that makes a decompressor, and the errors that the decompressor raises for damaged data. The
# modules are imported when a compressed file is first read.
_Format = tuple[Callable[[], _Decompressor], tuple[type[Exception], ...]]


def _import_gzip() -> _Format:
    return _Gunzip, (import_module("zlib").error,)


def _import_bzip2() -> _Format:
    module = import_module("bz2")
    return module.BZ2Decompressor, (OSError, EOFError)


def _import_xz() -> _Format:
    module = import_module("lzma")
    return lambda: module.LZMADecompressor(memlimit=_XZ_MEMORY), (module.LZMAError, EOFError)


_FORMATS: dict[bytes, Callable[[], _Format]] = {
    b"\x1f\x8b\x08": _import_gzip,
    b"BZh": _import_bzip2,
    b"\xfd7zXZ\x00": _import_xz,
}


def is_packed(head: bytes) -> bool:
    """Whether these first bytes are those of a compressed file."""
    return head.startswith(tuple(_FORMATS))
