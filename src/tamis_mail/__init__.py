"""mail → a verdict with its evidence: a personal spam filter that learns, explains itself and forgets."""

from importlib import import_module

TYPE_CHECKING = False  # importing `typing` takes longer than the rest of this module
if TYPE_CHECKING:
    from tamis_mail.sieve import Receipt, Sieve
    from tamis_mail.verdict import Evidence, Verdict

__all__ = ["Evidence", "Receipt", "Sieve", "Verdict"]

_MODULES = {
    "Sieve": "tamis_mail.sieve",
    "Receipt": "tamis_mail.sieve",
    "Verdict": "tamis_mail.verdict",
    "Evidence": "tamis_mail.verdict",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
