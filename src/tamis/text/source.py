"""What a user gives as texts → the texts: file names, open files and bytes are read and decoded."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tamis.text.charset import guess
from tamis.text.corpus import column_of, read, refuse_one

Input = Literal["content", "filename", "file"]
DecodeError = Literal["strict", "ignore", "replace"]


@dataclass(frozen=True)
class Source:
    """Where texts come from, and how their bytes are decoded."""

    input: Input = "content"
    encoding: str | None = None  # None: guess
    decode_error: DecodeError = "replace"

    def __post_init__(self) -> None:
        if self.input not in ("content", "filename", "file"):
            raise ValueError(f"got input={self.input!r}, expected 'content', 'filename' or 'file'")
        if not (self.encoding is None or isinstance(self.encoding, str)):
            raise TypeError(f"got encoding={self.encoding!r}, expected a name, as 'utf-8', or None to guess")
        if self.decode_error not in ("strict", "ignore", "replace"):
            raise ValueError(
                f"got decode_error={self.decode_error!r}, expected 'strict', 'ignore' or 'replace'"
            )

    def open(self, documents: Any) -> Any:
        """The same documents, with names and files replaced by what they hold; lazily."""
        if self.input == "content" and self.decode_error == "replace":
            return documents  # `corpora` reads them, and Arrow where it lies
        refuse_one(documents)
        column = column_of(documents)
        if not isinstance(column, Iterable):
            raise TypeError(f"got a {type(documents).__name__}, expected an iterable of texts")
        return self._each(column)

    def _each(self, documents: Iterable[Any]) -> Iterator[Any]:
        for row, document in enumerate(documents):
            yield (
                self._opened(document, row) if self.decode_error == "replace" else self.content(document, row)
            )

    def text(self, document: Any) -> str | bytes:
        """The text of one document, as str or in UTF-8; of one that is missing, an empty one."""
        replaces = self.decode_error == "replace"  # the tokenizer does that itself
        return read(self._opened(document, 0) if replaces else self.content(document), self.encoding, 0)

    def content(self, document: Any, row: int = 0) -> Any:
        """What one document holds: its text if it is text, bytes or a file, and else itself."""
        document = self._opened(document, row)
        if not isinstance(document, bytes | bytearray | memoryview):
            return document
        if self.decode_error == "replace":
            utf8 = read(document, self.encoding, row)
            return utf8.decode("utf-8", "replace") if isinstance(utf8, bytes) else utf8
        encoding = self.encoding or guess(bytes(document))  # to the letter: no alias, as mail needs them
        try:
            return bytes(document).decode(encoding, self.decode_error)
        except UnicodeDecodeError as error:
            error.reason += f" (document {row}: give its encoding, or decode_error='replace')"
            raise

    def _opened(self, document: Any, row: int) -> Any:
        """The document, with a name or a file replaced by what it holds."""
        if self.input == "filename":
            if not isinstance(document, str | Path):
                raise TypeError(
                    f"document {row} is a {type(document).__name__}, expected the name of a file: see input="
                )
            document = Path(document).read_bytes()
        elif self.input == "file":
            if not hasattr(document, "read"):
                raise TypeError(
                    f"document {row} is a {type(document).__name__}, expected an open file: see input="
                )
            document = document.read()
        elif isinstance(document, Path):
            document = document.read_bytes()
        return document
