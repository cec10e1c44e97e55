"""How often is the language of a short text found, and how often the encoding of one that does not say it?

Asked of texts that had no part in making it: the translations of its own messages that Sphinx ships, strings of at
least 20 characters, each as it is, with its markup and its English names. What was chosen was chosen by `choose.py`.

    python experiments/0003-language-identifier/run.py
"""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tamis.text.charset import GUESSED, decode, guess
from tamis.text.identifier import LANGUAGES, language

SAME = {"no": "nb"}  # other codes for what is covered


def catalogues() -> Iterator[tuple[str, Path]]:
    """Languages that are covered, and the files of their translations."""
    found = find_spec("sphinx")
    if found is None or found.origin is None:
        return
    for path in sorted((Path(found.origin).parent / "locale").glob("*/LC_MESSAGES/sphinx.po")):
        place = path.parents[1].name
        code = SAME.get(place.split("_")[0].split("@")[0], place.split("_")[0].split("@")[0])
        if code in LANGUAGES and "latin" not in place:  # Serbian is covered in Cyrillic letters
            yield code, path


def translations(path: Path) -> Iterator[str]:
    """What is translated in a file, and is not what it was."""
    entry: dict[str, str] = {}
    key = ""
    for line in [*path.read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith(("msgid ", "msgstr ")):
            key, line = line.split(" ", 1)
            entry[key] = ""
        if line.startswith('"') and key:
            entry[key] += ast.literal_eval(line)
        elif not line.strip():
            text = entry.get("msgstr", "")
            if len(text) >= 20 and entry.get("msgid") and text != entry["msgid"]:
                yield text
            entry, key = {}, ""


def strings() -> dict[str, list[str]]:
    """The texts of each language, each once."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for code, path in catalogues():
        found[code].update(dict.fromkeys(translations(path)))
    return {code: list(texts) for code, texts in found.items() if texts}


def identified(texts: dict[str, list[str]]) -> dict[str, Counter[str | None]]:
    """What each language was taken for."""
    return {code: Counter(map(language, each)) for code, each in texts.items()}


def main() -> None:
    texts = strings()
    taken = identified(texts)
    right = sum(found[code] for code, found in taken.items())
    total = sum(map(len, texts.values()))
    print(f"Languages: {right} of {total:,} strings right, {right / total:.1%}; ", end="")
    print(f"mean over languages {sum(f[c] / f.total() for c, f in taken.items()) / len(taken):.1%}\n")
    print("| language | strings | right | most frequent errors |\n|---|---|---|---|")
    for code, found in sorted(taken.items(), key=lambda item: item[1][item[0]] / item[1].total()):
        others = ", ".join(f"{name} {n}" for name, n in found.most_common(4) if name != code)
        print(f"| {LANGUAGES[code]} | {found.total()} | {found[code] / found.total():.1%} | {others} |")
    print("\n| encoding | strings | right | most frequent errors |\n|---|---|---|---|")
    for name, languages in GUESSED.items():
        missed: Counter[str] = Counter()
        asked = hit = 0
        for text in (text for code in languages.split() for text in texts.get(code, [])):
            try:
                document = text.encode(name)
            except UnicodeEncodeError:
                continue
            if document.isascii():
                continue
            asked += 1
            same = decode(document) == text
            hit += same
            if not same:
                missed[guess(document)] += 1
        others = ", ".join(f"{other} {n}" for other, n in missed.most_common(3))
        print(f"| {name} | {asked} | {hit / max(asked, 1):.1%} | {others} |")


if __name__ == "__main__":
    main()
