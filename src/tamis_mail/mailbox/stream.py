"""A regular file → its text in blocks, unpacked if it is gzip, bzip2 or xz, which its first bytes tell.

Only what `os.stat` calls a regular file is opened: a FIFO would wait for ever, a device may act when opened.
"""
# pathlib would cost a cold process 8 ms.
# ruff: noqa: PTH116

import os
import stat
import sys
from collections.abc import Callable
from importlib import import_module

from tamis_mail.framing import LARGEST_RAW
from tamis_mail.mailbox.letter import SourceError, printable

__all__ = ["File", "IrregularFileError", "Stdin", "Text"]

_CHUNK = 1 << 16  # bytes of a file read first, and of a packed one each time
_BLOCK = 1 << 20
# Mail shrinks to a third, the same newsletter over and over to a fiftieth, zeros to a thousandth.
_RATIO = 200
_HARMLESS = LARGEST_RAW + (2 << 20)  # bytes that may come out of however few: a message is cut below that
_ENDLESS = 100 << 30  # no mailbox is this large
_XZ_MEMORY = 256 << 20  # `xz -9` needs 65 MB to unpack; a hostile header may ask for 4 GB
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class IrregularFileError(OSError):
    """A FIFO, a device, a socket or a folder where a file was expected."""


class File:
    """The bytes of a regular file as they are."""

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

    def read(self, most: int) -> bytes:
        """The next bytes, at least one unless there are no more."""
        return os.read(self._descriptor, most)


class Stdin:
    """The bytes that are piped in; none, where a process was started without."""

    path = "stdin"

    def read(self, most: int) -> bytes:
        """The next bytes, at least one unless there are no more."""
        pipe = getattr(sys.stdin, "buffer", None)
        return b"" if pipe is None else bytes(pipe.read(most))


class Text:
    """The text of a file: its bytes, or what they unpack to."""

    __slots__ = ("_head", "_read", "_unpacking")

    def __init__(self, file: File | Stdin, *, as_it_is: bool = False) -> None:
        head = file.read(_CHUNK)
        self._head = b""
        self._unpacking: _Unpacking | None = None
        for magic in () if as_it_is else _FORMATS:
            if head.startswith(magic):
                self._unpacking = _Unpacking(file, head, magic)
                self._read = self._unpacking.read
                return
        self._head = head
        self._read = file.read

    def peek(self, most: int) -> bytes:
        """The next bytes, which `read` will give again."""
        while len(self._head) < most and (more := self._read(most - len(self._head))):
            self._head += more
        return self._head[:most]

    def read(self, most: int) -> bytes:
        """The next bytes, at least one unless there are no more."""
        if head := self._head:
            self._head = b""
            return head
        return self._read(most)

    def read_all(self, most: int | None) -> bytes:
        """All that is left; at most so many bytes."""
        blocks, held = [], 0
        while (most is None or held < most) and (block := self.read(_BLOCK)):
            blocks.append(block)
            held += len(block)
        return (blocks[0] if len(blocks) == 1 else b"".join(blocks))[:most]

    @property
    def is_packed(self) -> bool:
        """Whether the text is unpacked from what the file holds."""
        return self._unpacking is not None

    def refuse_unless_whole(self) -> None:
        """Read a packed text to its end, which is all that tells whether it was cut off or damaged."""
        while self.is_packed and self.read(_BLOCK):
            pass

    def consumed(self, given: int) -> int:
        """Bytes of the file that were read when `given` bytes of text were."""
        return given if self._unpacking is None else self._unpacking.taken


class _Unpacking:
    """The text of packed bytes, never more at a time than was asked for."""

    __slots__ = ("_errors", "_file", "_given", "_machine", "_magic", "_make", "_packed", "taken")

    def __init__(self, file: File | Stdin, head: bytes, magic: bytes) -> None:
        self._file = file
        self._packed = head
        self._magic = magic
        self._make, self._errors = _FORMATS[magic]()
        self._machine = self._make()
        self._given = 0
        self.taken = len(head)

    def read(self, most: int) -> bytes:
        while True:
            if self._machine.eof and not self._find_next():
                return b""
            if not self._packed and self._machine.needs_input:
                self._packed = self._file.read(_CHUNK)
                self.taken += len(self._packed)
                if not self._packed:
                    raise SourceError(
                        f"{printable(self._file.path)} is cut off (it ends before its compressed text does), "
                        "expected a whole compressed file: get it again, or unpack what can be saved of it"
                    )
            packed, self._packed = self._packed, b""
            try:
                text = self._machine.decompress(packed, most)
            except self._errors as error:
                raise SourceError(
                    f"{printable(self._file.path)} is damaged ({error}), expected a whole compressed file: "
                    "unpack what can be saved of it and give that"
                ) from None
            if text:
                self._given += len(text)
                self._refuse_bombs()
                return text

    def _find_next(self) -> bool:
        """Whether another packed file is joined to this one; what else may follow is passed over."""
        rest = self._machine.unused_data
        while len(rest) < len(self._magic) and (more := self._file.read(_CHUNK)):
            rest += more
            self.taken += len(more)
        if not rest.startswith(self._magic):
            return False
        self._packed = rest
        self._machine = self._make()
        return True

    def _refuse_bombs(self) -> None:
        if self._given > _ENDLESS or (self._given > _HARMLESS and self._given > _RATIO * self.taken):
            raise SourceError(
                f"{printable(self._file.path)} unpacks to over {self._given >> 20} MB from its first "
                f"{self.taken} bytes, more than mail does: if you trust it, unpack it and give what comes out"
            )


class _Machine:
    """How `bz2` and `lzma` are asked to unpack."""

    eof: bool
    needs_input: bool
    unused_data: bytes

    def decompress(self, packed: bytes, most: int, /) -> bytes:
        raise NotImplementedError


class _Gunzip(_Machine):
    """zlib, asked as they are."""

    def __init__(self) -> None:
        self._machine = import_module("zlib").decompressobj(wbits=31)
        self.eof = False
        self.needs_input = True
        self.unused_data = b""

    def decompress(self, packed: bytes, most: int, /) -> bytes:
        machine = self._machine
        text: bytes = machine.decompress(machine.unconsumed_tail + packed, most)
        self.needs_input = not machine.unconsumed_tail and len(text) < most  # else more may wait inside
        self.eof = machine.eof
        self.unused_data = machine.unused_data
        return text


_Format = tuple[Callable[[], _Machine], tuple[type[Exception], ...]]  # a machine, and what it raises


def _gzip() -> _Format:
    return _Gunzip, (import_module("zlib").error,)


def _bzip2() -> _Format:
    module = import_module("bz2")
    return module.BZ2Decompressor, (OSError, EOFError)


def _xz() -> _Format:
    module = import_module("lzma")
    return lambda: module.LZMADecompressor(memlimit=_XZ_MEMORY), (module.LZMAError, EOFError)


_FORMATS: dict[bytes, Callable[[], _Format]] = {
    b"\x1f\x8b\x08": _gzip,
    b"BZh": _bzip2,
    b"\xfd7zXZ\x00": _xz,
}
