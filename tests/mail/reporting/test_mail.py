"""Labelled mail is what was named, what folders say, or the sample."""

from pathlib import Path

import pytest

from tamis_mail.reporting.mail import open_labelled
from tamis_mail.sample import write


def test_folders_and_options_name_the_same_mail(tmp_path: Path) -> None:
    ham, spam = write(tmp_path / "mail")
    by_root = list(open_labelled(root=str(tmp_path / "mail")))
    by_name = list(open_labelled([str(tmp_path / "mail/spam")], [str(tmp_path / "mail/ham")]))
    sample = list(open_labelled())
    marks = {letter.raw: is_spam for letter, is_spam in by_root}
    assert marks == {letter.raw: is_spam for letter, is_spam in by_name}
    assert marks == {letter.raw: is_spam for letter, is_spam in sample}
    assert (sum(not mark for mark in marks.values()), sum(marks.values())) == (ham, spam)


@pytest.mark.parametrize(
    ("spam", "ham", "root", "said"),
    [
        (["."], [], None, "only --spam was given, expected mail of both kinds: add --ham PATH"),
        ([], ["."], None, "only --ham was given, expected mail of both kinds: add --spam PATH"),
        (["a"], ["b"], ".", "expected one or the other"),
        (["-"], ["-"], None, "expected mail that can be read twice"),
    ],
)
def test_what_makes_no_sense_is_told(spam: list[str], ham: list[str], root: str | None, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        open_labelled(spam, ham, root)


def test_a_folder_that_does_not_tell_is_told(tmp_path: Path) -> None:
    (tmp_path / "stuff").mkdir()
    (tmp_path / "stuff" / "1.eml").write_bytes(b"Subject: a\n\nb")
    with pytest.raises(
        ValueError, match=r"no folder whose name says ham or spam .*--spam PATH and --ham PATH"
    ):
        open_labelled(root=str(tmp_path))
    with pytest.raises(ValueError, match="does not exist"):
        open_labelled(root=str(tmp_path / "missing"))
