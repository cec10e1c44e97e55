"""Pages: every link leads to a page, a heading or a file that exists, and no block of code goes unchecked."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    + [page for page in DOCS.rglob("*.md") if "auto_gallery" not in page.parts]
)
# `conftest.py` runs or checks the first three; `text` is output, settings and drawings.
LANGUAGES = {"python", "sh", "console", "text"}
DIRECTIVES = {"{toctree}", "{include}", "{eval-rst}", "{literalinclude}"}
names = [str(page.relative_to(ROOT)) for page in PAGES]


def split_page(page: Path) -> tuple[str, list[tuple[str, str]]]:
    """The text of a page without its blocks of code, and the blocks: their language and their content."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^[ ]*```([^\n]*)\n(.*?)^[ ]*```[ ]*$", text, flags=re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^[ ]*```.*?^[ ]*```[ ]*$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "code", rest), blocks


@cache
def list_anchors(page: Path) -> frozenset[str]:
    """The anchors of the headings of a page, as MyST and GitHub name them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#{1,3} (.+)$", text, flags=re.MULTILINE)
    plain = (re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading) for heading in headings)
    return frozenset(
        re.sub(r"[^\w\- ]", "", heading.lower().strip(), flags=re.UNICODE).replace(" ", "-")
        for heading in plain
    )


def find_target(page: Path, address: str) -> Path:
    """The file that a link leads to; a page of the gallery is that of its script."""
    path = (page.parent / address).resolve()
    if path.parent == DOCS / "auto_gallery":
        return DOCS / "gallery" / ("README.txt" if path.stem == "index" else f"{path.stem}.py")
    return path


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_every_link_leads_somewhere(page: Path) -> None:
    text, _ = split_page(page)
    links = re.findall(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)", text)
    assert text.count("](") == len(links), "a link that is not understood"
    for link in links:
        address, _, anchor = link.partition("#")
        if re.match(r"https?:|mailto:", address):
            continue  # the tests have no network
        target = find_target(page, address) if address else page
        assert target.exists(), f"{link}: there is no {target}"
        if anchor:
            assert anchor in list_anchors(target), f"{link}: {target.name} has no such heading"


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_every_block_of_code_has_a_language_that_is_checked(page: Path) -> None:
    _, blocks = split_page(page)
    for language, content in blocks:
        kind = language.split()[0] if language else ""
        assert kind in LANGUAGES or kind in DIRECTIVES, f"a block of {language!r}: {content[:60]!r}"
        if kind == "text":
            assert ">>>" not in content, f"an example that does not run: {content[:60]!r}"
            assert not re.search(r"^\$ ", content, flags=re.MULTILINE), f"a command: {content[:60]!r}"


def test_no_block_is_skipped() -> None:
    for page in PAGES:
        assert not re.search(r"<!---?\s*skip", page.read_text(encoding="utf-8")), page


def test_every_page_is_in_a_table_of_contents() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    entries = [
        line
        for block in re.findall(r"```{toctree}\n(.*?)```", index, flags=re.DOTALL)
        for line in block.split()
    ]
    listed = {page for entry in entries for page in DOCS.glob(f"{entry}.md")}
    unlisted = {page for page in PAGES if DOCS in page.parents} - listed - {DOCS / "index.md"}
    assert not unlisted, f"add to docs/index.md: {sorted(page.name for page in unlisted)}"


def test_the_readme_fits_on_a_screen_or_two() -> None:
    """About forty lines of text and twenty of code: a reader sees what it is without scrolling far."""
    text, blocks = split_page(ROOT / "README.md")
    assert len([line for line in text.splitlines() if line.strip()]) <= 40
    assert sum(len(content.splitlines()) for _, content in blocks) <= 25
