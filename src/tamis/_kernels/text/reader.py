"""Fold documents character by character: the reference of the compiled functions that fold text.

To fold a character is to replace it by its folded form, such as lower case, or to drop it. What happens to it
depends on its class (see `kinds`).
"""

import numpy as np

from tamis._kernels.text.kinds import BREAK, MARK, REPLACEMENT, SKIP, UNSPACED, WORD, Alphabet


class Reader:
    """Folds documents by an alphabet; the classes and folded forms of characters are cached."""

    def __init__(self, alphabet: Alphabet) -> None:
        self.alphabet = alphabet
        self._entries: dict[str, tuple[int, str]] = {}  # class and folded form of the characters met so far
        self._ascii_table = bytes(alphabet.ascii) + bytes(128)  # for bytes.translate
        self._pool = alphabet.pool.tobytes()

    def look_up(self, character: str) -> tuple[int, str]:
        """Return the class and the folded form of a character."""
        entry = self._entries.get(character)
        if entry is None:
            code = ord(character)
            cell = int(self.alphabet.cells[int(self.alphabet.blocks[code >> 8]) * 256 + (code & 255)])
            start, length = cell >> 8, cell >> 3 & 31
            folded = self._pool[start : start + length].decode() if length else character
            entry = self._entries[character] = cell & 7, folded
        return entry

    def fold_words(self, document: bytes) -> bytes:
        """Fold one document, with a zero byte for each break and between pairs of UNSPACED characters."""
        if document.isascii():
            return document.translate(self._ascii_table)
        out: list[str] = []  # characters, and "\0" for a break
        run = 0  # the length of the current run of UNSPACED characters
        for character in document.decode("utf-8", "surrogateescape"):
            character_class, folded = self.look_up(character)
            inside = bool(out) and out[-1] != "\0"
            if character_class == BREAK:
                out.append("\0")
                run = 0
            elif character_class == UNSPACED:
                if (run == 0 and inside) or run > 1:
                    last = out[-1]
                    out.append("\0")
                    if run > 1:
                        out.append(last)
                out.append(folded)
                run += 1
            elif character_class == MARK and inside:
                self._add_marks(out, folded, can_follow=run == 0)
            elif character_class == WORD:
                if run:
                    out.append("\0")
                    run = 0
                out.extend(folded)
        return "".join(out).encode()

    def fold_characters(self, document: bytes, within_words: bool) -> bytes:
        """Fold one document, and keep breaks; a run of white space becomes one space.

        If `within_words`, the result begins and ends with a space.
        """
        out = [" "] if within_words else []
        for character in document.decode("utf-8", "surrogateescape"):
            if 0xDC80 <= ord(character) <= 0xDCFF:  # "surrogateescape" decoded a byte that is not UTF-8
                out.append(chr(REPLACEMENT))
            elif character.isspace():
                if not out or out[-1] != " ":
                    out.append(" ")
            else:
                character_class, folded = self.look_up(character)
                if character_class == MARK and out:
                    self._add_marks(out, folded, can_follow=True)
                elif character_class != SKIP:
                    out.extend(folded)
        if within_words and out[-1] != " ":
            out.append(" ")
        return "".join(out).encode()

    def _add_marks(self, out: list[str], marks: str, can_follow: bool) -> None:
        """Compose marks with the last character of `out`.

        A mark that cannot be composed with it is appended if `can_follow`, and otherwise dropped.
        """
        pairs = self.alphabet.pairs
        for mark in marks:
            key = ord(out[-1]) << 21 | ord(mark)
            index = int(np.searchsorted(pairs, key))
            if index < len(pairs) and pairs[index] == key:
                out[-1] = chr(int(self.alphabet.composed[index]))
            elif can_follow:
                out.append(mark)

    def is_short(self, token: bytes, shortest: int) -> bool:
        """Return whether a token has too few characters; in a script without spaces, none has."""
        if len(token) >= 4 * shortest:
            return False
        text = token.decode()
        return len(text) < shortest and self.look_up(text[0])[0] != UNSPACED
