"""The words of errors and warnings, read from the source."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"
_NOUNS = "row|column|class|category|value|target|component|pair|draw|centre|message|group|output|user|item"
_FOR_EACH = re.compile(
    rf"\b(one|one of each|numbers?|labels?|targets?|name|rows?|groups?|covariance|variance) an? ({_NOUNS})\b"
)


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines and texts of all that is raised or warned of."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Raise | ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Raise) or name == "warn":
            parts = (part for part in ast.walk(node) if isinstance(part, ast.Constant))
            yield node.lineno, "".join(part.value for part in parts if isinstance(part.value, str))


def test_errors_say_per_row_where_they_mean_each_row() -> None:
    found = [
        f"{path.relative_to(SOURCES)}:{line}: {said}"
        for path in sorted(SOURCES.rglob("*.py"))
        for line, said in messages(ast.parse(path.read_text(encoding="utf-8")))
        if _FOR_EACH.search(said)
    ]
    assert not found, "\n".join(found)
