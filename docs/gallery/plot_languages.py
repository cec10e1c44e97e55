"""
Languages by their letters
==========================

How similar are languages by their letter n-grams? The language identifier holds counts of n-grams of one to
four letters, from a small text per language. The distance of two languages is Hellinger's: that of the
square roots of their frequencies. The plane approximates these distances (classical scaling), and each
language is connected with its nearest neighbour.

The counts contain no information about language families, yet the families are visible: Romance, Germanic,
Slavic, Baltic, Finnic. English lies between the Germanic and the Romance languages, and Esperanto is near
the latter.
"""

import matplotlib.pyplot as plt
import numpy as np

from tamis.plots.canvas import COLOURS
from tamis.text.identifier import LANGUAGES, SCRIPTS, load_model

families = {
    "Germanic": "af da de en is nb nl sv",
    "Romance": "ca es fr gl it pt ro",
    "Slavic": "cs hr pl sk sl",
    "Finnic, Ugric": "et fi hu",
    "Baltic": "lt lv",
    "Celtic": "cy ga",
    "other": "eo eu id sq tr vi",
}
codes = [code for names in families.values() for code in names.split()]
known = load_model()
counts = known.counts[SCRIPTS:, [known.languages.index(code) for code in codes]].T.astype(float)
roots = np.sqrt(counts / counts.sum(axis=1, keepdims=True))
alike = roots @ roots.T  # 1: the same
squares = 1 - alike

centre = np.eye(len(codes)) - 1 / len(codes)
values, vectors = np.linalg.eigh(-0.5 * centre @ squares @ centre)
places = vectors[:, [-1, -2]] * np.sqrt(values[[-1, -2]])
for _ in range(300):  # move neighbours apart, so that their names can be read
    gap = (places[:, None] - places) / [0.11, 0.026]
    near = np.maximum(1 - np.linalg.norm(gap, axis=2), 0)
    places = places + 0.01 * (near[..., None] * np.sign(gap) * [0.3, 1]).sum(axis=1)

figure, axes = plt.subplots(figsize=(8.6, 7), layout="constrained")
np.fill_diagonal(alike, 0)
for k, nearest in enumerate(alike.argmax(axis=1)):
    axes.plot(*places[[k, nearest]].T, color="0.8", linewidth=6 * alike[k, nearest], zorder=0)
colours = dict(zip(families, COLOURS, strict=False))
for family, names in families.items():
    rows = [codes.index(code) for code in names.split()]
    axes.scatter(places[rows, 0], places[rows, 1], s=28, color=colours.get(family, "0.5"), label=family)
    for row in rows:
        axes.annotate(
            LANGUAGES[codes[row]], places[row], xytext=(4, 4), textcoords="offset points", fontsize=8
        )
axes.set(title="languages in Latin script, by their n-grams", xticks=[], yticks=[], aspect="equal")
figure.legend(loc="outside lower center", ncols=4, frameon=False)
plt.show()

# %%
# The nearest pairs, which are most easily confused in a short text:

pairs = [(alike[i, j], codes[i], codes[j]) for i in range(len(codes)) for j in range(i)]
for share, one, other in sorted(pairs, reverse=True)[:8]:
    print(f"{LANGUAGES[one]:10s} and {LANGUAGES[other]:10s} {share:.2f} alike")
