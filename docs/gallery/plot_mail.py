"""
A filter learns a mailbox
=========================

The sample mailbox holds some 500 messages in sixteen languages. Half of them are learned, the others
judged: the left plot shows their log-odds, the right plot the evidence that one of them, an offer of pills,
is spam. All contributions sum to the log-odds.
"""

import tempfile
from collections import defaultdict
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from tamis_mail import Sieve
from tamis_mail.sample import messages

mail = list(messages())
learned, judged = mail[::2], mail[1::2]

with tempfile.TemporaryDirectory() as folder, Sieve.open(Path(folder) / "mail.tamis") as sieve:
    for label in ("spam", "ham"):
        sieve.learn_many([one.raw for one in learned if one.label == label], label)
    verdicts = [sieve.sort(one.raw) for one in judged]
    chosen = next(number for number, one in enumerate(judged) if one.kind == "pills" and b" the " in one.raw)
    evidence = [part for part in verdicts[chosen].evidence if part.view == "words" and part.token.isascii()]

odds: dict[str, list[float]] = defaultdict(list)
for one, verdict in zip(judged, verdicts, strict=True):
    odds[one.label].append(verdict.log_odds)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
edges = np.linspace(-16, 16, 33)
for label, colour in (("ham", "tab:blue"), ("spam", "tab:red")):
    left.hist(np.clip(odds[label], -16, 16), edges, color=colour, alpha=0.7, label=label)
left.axvspan(np.log(0.1 / 0.9), np.log(0.95 / 0.05), color="0.9", zorder=0, label="unsure")
left.set_xlabel("log-odds of spam")
left.set_ylabel("messages that were not learned")
left.legend()

against = [part for part in evidence if part.contribution < 0][:5]
shown = [*against[::-1], *[part for part in evidence if part.contribution > 0][:9][::-1]]
names = [part.token for part in shown]
worth = [part.contribution for part in shown]
right.barh(names, worth, color=["tab:red" if part > 0 else "tab:blue" for part in worth])
right.axvline(0, color="0.3", linewidth=0.8)
right.set_xlabel("contribution to the log-odds")
right.set_title("the strongest words on either side", fontsize=10)
plt.show()

# %%
# Forgetting a message is exact: counts are integers, and those of the message are subtracted.

with tempfile.TemporaryDirectory() as folder, Sieve.open(Path(folder) / "mail.tamis") as sieve:
    sieve.learn_many([one.raw for one in learned if one.label == "spam"], "spam")
    sieve.learn_many([one.raw for one in learned if one.label == "ham"], "ham")
    before = [sieve.sort(one.raw).log_odds for one in judged[:20]]
    sieve.learn(judged[30].raw, "spam")
    sieve.forget(judged[30].raw)
    print([sieve.sort(one.raw).log_odds for one in judged[:20]] == before)
