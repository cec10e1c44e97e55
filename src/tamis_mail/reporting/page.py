"""a report → one self-contained page of HTML, without scripts, fonts or external pictures.

Mail is untrusted: all its text goes through `svg.escape_text`. In addition, the content security policy of
the page forbids loading and running anything.
"""

import os
from importlib.resources import files
from pathlib import Path

from tamis_mail.files import write_file
from tamis_mail.mailbox.raw_message import printable
from tamis_mail.reporting import charts
from tamis_mail.reporting.misses import Miss
from tamis_mail.reporting.report import Report
from tamis_mail.reporting.svg import escape_text

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(report: Report, version: str = "") -> str:
    """Return the page, with a final line break."""
    pictures = (
        ("ROC curve", charts.draw_roc),
        ("Calibration", charts.draw_calibration),
        ("Probabilities", charts.draw_histogram),
        ("Learning curve", charts.draw_curve),
    )
    style = files("tamis_mail.reporting").joinpath("page.css").read_text(encoding="utf-8")
    sections = "\n".join(f"<section><h2>{title}</h2>{draw(report)}</section>" for title, draw in pictures)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape_text(_POLICY)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>How well {escape_text(report.name)} can be sorted</title>
<style>
{style}</style>
</head>
<body>
<main>
<h1>How well {escape_text(report.name)} can be sorted</h1>
{_render_head(report)}
{_render_numbers(report)}
<div class="charts">
{sections}
</div>
{_render_misses(report)}
{_render_table(report)}
</main>
<footer>Written by tamis {escape_text(version)}. It holds subjects and words of the mail: keep it as private
as the mail.</footer>
</body>
</html>
"""


def refuse_unless_writable(path: str | os.PathLike[str]) -> None:
    """Raise ValueError early if the page could not be written."""
    target = Path(path)
    if target.is_dir():
        reason = "is a folder"
    elif not target.parent.is_dir():
        reason = "is in a folder that does not exist"
    elif not os.access(target.parent, os.W_OK):
        reason = "is in a folder that you may not write to"
    else:
        return
    raise ValueError(
        f"{printable(str(path))} {reason}, expected a file for the report's page: name one with --html FILE, "
        "or say --no-html"
    )


def write(text: str, path: str | os.PathLike[str]) -> None:
    """Write the page atomically, readable by its owner only."""
    write_file(path, text.encode("utf-8"))


def _render_head(report: Report) -> str:
    left_out = []
    if report.duplicates:
        left_out.append(f"{report.duplicates:,} duplicates")
    if report.disputed:
        left_out.append(f"{report.disputed:,} that are among spam and among ham")
    if report.study.unused:
        left_out.append(f"{report.study.unused:,} more than were asked for")
    lines = [
        f"<p>{report.messages:,} messages: {report.spam:,} spam, {report.ham:,} ham.</p>",
        f'<p class="soft">{escape_text(report.describe_split())}; seed {report.seed}.</p>',
    ]
    if smoothing := report.describe_smoothing():
        lines.append(f'<p class="soft">Smoothing: {escape_text(smoothing)}.</p>')
    if left_out:
        lines.append(f'<p class="soft">Left out: {", ".join(left_out)}.</p>')
    return "\n".join(lines)


def _render_numbers(report: Report) -> str:
    measures = report.study.measures
    rows = [
        ("accuracy", f"{100 * measures.accuracy:.1f} %", f"{measures.right:,} of {measures.messages:,}"),
        ("misses", f"{measures.misses:,}", "the more probable label is wrong"),
        ("ham called spam", f"{measures.ham_called_spam:,}", f"of {measures.ham:,} ham, by the verdict"),
        ("spam called ham", f"{measures.spam_called_ham:,}", f"of {measures.spam:,} spam, by the verdict"),
        ("unsure", f"{measures.unsure:,}", f"{report.study.rule.ham:g} < p < {report.study.rule.spam:g}"),
        ("ROC area", f"{measures.roc_area:.4f}", "1 is perfect, 0.5 is chance"),
        ("log-loss", f"{measures.log_loss:.4f}", "nats per message"),
        ("Brier score", f"{measures.brier:.4f}", "0 is perfect"),
        ("calibration error", f"{measures.calibration_error:.3f}", "predicted against observed"),
    ]
    cells = "\n".join(
        f"<div><dt>{name}</dt><dd>{value.replace('nan', '–')}</dd><small>{escape_text(note)}</small></div>"
        for name, value, note in rows
    )
    return f'<dl class="numbers">\n{cells}\n</dl>'


def _render_misses(report: Report) -> str:
    messages = report.study.measures.messages
    total = report.study.measures.misses
    if not total:
        note = "None: for every message, the more probable label is right."
        return f'<section class="wide"><h2>Misses</h2><p>{note}</p></section>'
    limit_note = "" if len(report.misses) == total else f" The worst {len(report.misses)} are shown."
    parts = "\n".join(_render_miss(miss) for miss in report.misses)
    return (
        f'<section class="wide"><h2>Misses</h2><p class="soft">{total:,} of {messages:,} messages '
        f"have a wrong more probable label.{limit_note} Bars to the right are evidence for spam, "
        f"to the left against it.</p>\n{parts}\n</section>"
    )


def _render_miss(miss: Miss) -> str:
    subject = miss.subject or "(no subject)"
    views = ", ".join(f"{view} {value:+.2f}" for view, value in miss.views)
    longest = max((abs(one.contribution) for one in miss.evidence), default=1.0)
    rows = "\n".join(
        f"<span>{escape_text(one.token)}</span><b>{one.contribution:+.2f}</b>"
        + _render_bar(one.contribution / longest, f"{one.view}: in {one.spam:g} spam and {one.ham:g} ham")
        for one in miss.evidence
    )
    return (
        f'<article class="miss"><h3>{escape_text(subject)}</h3>'
        f"<p>{miss.label}, called {escape_text(miss.called)}: probability of spam {miss.probability:.3f}</p>"
        f'<p class="soft">{escape_text(miss.name)} · log-odds {miss.log_odds:+.2f}: {escape_text(views)}</p>'
        f'<div class="evidence">\n{rows}\n</div></article>'
    )


def _render_bar(share: float, tooltip: str) -> str:
    """Draw a bar from the middle: to the right if the contribution is for spam, to the left if against it."""
    start, kind = (50.0, "spam") if share > 0 else (50 + 50 * share, "ham")
    position = f'x="{start:.1f}" y="1" width="{abs(50 * share):.1f}" height="8"'
    return (
        '<span class="track"><svg viewBox="0 0 100 10" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape_text(tooltip)}"><rect class="{kind}" {position}>'
        f"<title>{escape_text(tooltip)}</title></rect></svg></span>"
    )


def _render_table(report: Report) -> str:
    rows = "\n".join(
        f'<tr><td>{one.low:.1f} – {one.high:.1f}</td><td class="number">{one.messages:,}</td>'
        f'<td class="number">{one.predicted:.3f}</td><td class="number">{one.observed:.3f}</td></tr>'
        for one in report.bins
    )
    return (
        '<section class="wide"><h2>Calibration, in numbers</h2><table><thead><tr>'
        '<th scope="col">probability of spam</th><th scope="col" class="number">messages</th>'
        '<th scope="col" class="number">predicted</th>'
        '<th scope="col" class="number">observed</th></tr></thead>'
        f"<tbody>\n{rows}\n</tbody></table></section>"
    )
